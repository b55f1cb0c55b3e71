package testenv

import "fmt"

// CheckerBootstrap is the bootstrap of an Envoy that does nothing but probe for a server on a port of this machine.
func CheckerBootstrap(port int) []byte {
	return fmt.Appendf(nil, `
node: {id: checker, cluster: checkers, locality: {region: r, zone: z}}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
hds_config: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: catenary}}]}
static_resources:
  clusters:
  - name: catenary
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: catenary
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]
`, port)
}
