package bootstrap

import "fmt"

// The types below are the part of Envoy's bootstrap that Catenary writes, field by field as in Envoy's
// JSON. Where a value stands for several fields that never vary, it is an object.

type object map[string]any

type bootstrapJSON struct {
	Admin            adminJSON     `json:"admin"`
	Node             nodeJSON      `json:"node"`
	Runtime          object        `json:"layered_runtime"`
	StaticResources  staticJSON    `json:"static_resources"`
	StatsSinks       []object      `json:"stats_sinks,omitempty"`
	StatsConfig      *statsJSON    `json:"stats_config,omitempty"`
	StatsFlush       string        `json:"stats_flush_interval,omitempty"`
	DynamicResources resourcesJSON `json:"dynamic_resources"`
	ClusterManager   object        `json:"cluster_manager,omitempty"`
	HDSConfig        object        `json:"hds_config,omitempty"`
}

type statsJSON struct {
	Tags           []tagJSON `json:"stats_tags"`
	AllDefaultTags bool      `json:"use_all_default_tags"`
}

type adminJSON struct {
	Address addressJSON `json:"address"`
}

type addressJSON struct {
	SocketAddress socketAddressJSON `json:"socket_address"`
}

type socketAddressJSON struct {
	Address   string `json:"address"`
	PortValue int    `json:"port_value"`
}

type nodeJSON struct {
	ID       string `json:"id"`
	Cluster  string `json:"cluster"`
	Metadata object `json:"metadata"`
	Locality object `json:"locality,omitempty"`
}

type staticJSON struct {
	Clusters  []clusterJSON `json:"clusters"`
	Listeners []object      `json:"listeners,omitempty"`
}

type clusterJSON struct {
	Name            string `json:"name"`
	Type            string `json:"type"`
	DNSLookupFamily string `json:"dns_lookup_family,omitempty"`
	ConnectTimeout  string `json:"connect_timeout"`
	LoadAssignment  object `json:"load_assignment"`
	HTTPProtocol    object `json:"typed_extension_protocol_options"`
	Connection      object `json:"upstream_connection_options,omitempty"`
	TransportSocket object `json:"transport_socket,omitempty"`
}

type resourcesJSON struct {
	ADS adsJSON    `json:"ads_config"`
	CDS sourceJSON `json:"cds_config"`
	LDS sourceJSON `json:"lds_config"`
}

type adsJSON struct {
	APIType                   string            `json:"api_type"`
	TransportAPIVersion       string            `json:"transport_api_version"`
	SetNodeOnFirstMessageOnly bool              `json:"set_node_on_first_message_only"`
	GRPCServices              []grpcServiceJSON `json:"grpc_services"`
}

type grpcServiceJSON struct {
	EnvoyGRPC       object       `json:"envoy_grpc"`
	InitialMetadata []headerJSON `json:"initial_metadata,omitempty"`
}

type headerJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type sourceJSON struct {
	ADS                 object `json:"ads"`
	ResourceAPIVersion  string `json:"resource_api_version"`
	InitialFetchTimeout string `json:"initial_fetch_timeout"`
}

// clusterName is the static cluster that stands for the control plane.
const clusterName = "catenary"

func bootstrapOf(cfg EnvoyConfig, server, admin endpoint) (bootstrapJSON, error) {
	// With no timeout Envoy waits for its first clusters and listeners as long as it takes, rather
	// than start without them while the control plane is away.
	overADS := sourceJSON{ADS: object{}, ResourceAPIVersion: "V3", InitialFetchTimeout: "0s"}
	b := bootstrapJSON{
		Admin:            adminJSON{Address: admin.json()},
		Node:             nodeJSON{ID: cfg.ProxyID, Cluster: cfg.Service, Metadata: object{MetadataKey: cfg.metadata()}},
		Runtime:          runtime(),
		StaticResources:  staticJSON{Clusters: []clusterJSON{serverCluster(server, cfg.GRPCCA)}},
		DynamicResources: resourcesJSON{ADS: adsOf(cfg), CDS: overADS, LDS: overADS},
	}
	if cfg.LoadReports {
		b.ClusterManager = object{"load_stats_config": object{
			"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": grpcServices(cfg),
		}}
	}
	if cfg.HDS {
		b.HDSConfig = object{"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": grpcServices(cfg)}
	}
	if cfg.Region != "" || cfg.Zone != "" {
		b.Node.Locality = object{"region": cfg.Region, "zone": cfg.Zone}
	}
	if cfg.Sidecar != nil {
		return b, b.addSidecar(cfg, admin)
	}
	return b, nil
}

// runtime allows regular expressions of any length that is reasonable: some Envoys allow 100 instructions,
// which the identity of a service in an intention takes alone.
func runtime() object {
	return object{"layers": []object{
		{"name": "base", "static_layer": object{"re2.max_program_size.error_level": 1 << 20}},
		{"name": "admin", "admin_layer": object{}},
	}}
}

// addSidecar adds what only a registered sidecar has. Its upstreams are in its registration.
func (b *bootstrapJSON) addSidecar(cfg EnvoyConfig, admin endpoint) error {
	s := cfg.Sidecar
	b.Node.Metadata = object{"node_name": s.Node, "namespace": "default", "partition": "default"}
	b.StatsConfig = &statsJSON{Tags: statsTags(cfg), AllDefaultTags: true}
	if s.Telemetry.FlushInterval > 0 {
		b.StatsFlush = fmt.Sprintf("%.3fs", s.Telemetry.FlushInterval.Seconds())
	}
	var err error
	if b.StatsSinks, err = s.Telemetry.sinks(); err != nil {
		return err
	}
	doors := s.Telemetry.doors()
	if len(doors) == 0 {
		return nil
	}
	self, err := selfAdmin(admin)
	if err != nil {
		return err
	}
	b.StaticResources.Clusters = append(b.StaticResources.Clusters, self)
	for _, d := range doors {
		l, err := d.listener()
		if err != nil {
			return err
		}
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	}
	return nil
}

func adsOf(cfg EnvoyConfig) adsJSON {
	ads := adsJSON{
		APIType:             "DELTA_GRPC",
		TransportAPIVersion: "V3",
		// The node is some 60 KB, most of it the list of Envoy's extensions.
		SetNodeOnFirstMessageOnly: true,
		GRPCServices:              grpcServices(cfg),
	}
	if cfg.SotW {
		ads.APIType = "GRPC"
	}
	return ads
}

// grpcServices is the control plane, and what goes with every request to it.
func grpcServices(cfg EnvoyConfig) []grpcServiceJSON {
	s := grpcServiceJSON{EnvoyGRPC: object{"cluster_name": clusterName}}
	if cfg.Token != "" {
		s.InitialMetadata = []headerJSON{{Key: "x-consul-token", Value: string(cfg.Token)}}
	}
	return []grpcServiceJSON{s}
}

func serverCluster(server endpoint, ca string) clusterJSON {
	c := staticCluster(clusterName, server, object{"http2_protocol_options": object{}})
	// The stream is silent while nothing changes: without probes Envoy would not notice that the
	// other end vanished. HTTP/2 pings would do too, but a server may take them for abuse.
	c.Connection = object{"tcp_keepalive": object{
		"keepalive_probes": 3, "keepalive_time": 10, "keepalive_interval": 5,
	}}
	if !server.isIP() {
		c.Type = "STRICT_DNS"
		// localhost has both families, and the control plane listens on 127.0.0.1 unless told otherwise.
		c.DNSLookupFamily = "V4_PREFERRED"
	}
	if ca != "" {
		c.TransportSocket = tlsOf(server, ca)
	}
	return c
}

// staticCluster is a cluster of one address that is spoken to in a given version of HTTP.
func staticCluster(name string, at endpoint, http object) clusterJSON {
	return clusterJSON{
		Name:           name,
		Type:           "STATIC",
		ConnectTimeout: "5s",
		LoadAssignment: object{
			"cluster_name": name,
			"endpoints": []object{{
				"lb_endpoints": []object{{"endpoint": object{"address": at.json()}}},
			}},
		},
		HTTPProtocol: object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": http,
		}},
	}
}

func tlsOf(server endpoint, ca string) object {
	sanType := "DNS"
	if server.isIP() {
		sanType = "IP_ADDRESS"
	}
	tls := object{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"common_tls_context": object{
			// Envoy's own default for a client ends at TLS 1.2.
			"tls_params": object{
				"tls_minimum_protocol_version": "TLSv1_2",
				"tls_maximum_protocol_version": "TLSv1_3",
			},
			"alpn_protocols": []string{"h2"},
			// Envoy checks the name only when asked to; a certificate of that CA for another server
			// must not do.
			"validation_context": object{
				"trusted_ca": object{"inline_string": ca},
				"match_typed_subject_alt_names": []object{{
					"san_type": sanType,
					"matcher":  object{"exact": server.host},
				}},
			},
		},
	}
	if !server.isIP() {
		tls["sni"] = server.host
	}
	return object{"name": "envoy.transport_sockets.tls", "typed_config": tls}
}

func (e endpoint) json() addressJSON {
	return addressJSON{SocketAddress: socketAddressJSON{Address: e.host, PortValue: e.port}}
}
