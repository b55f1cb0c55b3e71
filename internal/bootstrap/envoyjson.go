package bootstrap

// The types below are the part of Envoy's bootstrap that Catenary writes, field by field as in Envoy's
// JSON. Where a value stands for several fields that never vary, it is an object.

type object map[string]any

type bootstrapJSON struct {
	Admin            adminJSON     `json:"admin"`
	Node             nodeJSON      `json:"node"`
	StaticResources  staticJSON    `json:"static_resources"`
	DynamicResources resourcesJSON `json:"dynamic_resources"`
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
	ID       string              `json:"id"`
	Cluster  string              `json:"cluster"`
	Metadata map[string]Metadata `json:"metadata"`
}

type staticJSON struct {
	Clusters []clusterJSON `json:"clusters"`
}

type clusterJSON struct {
	Name            string `json:"name"`
	Type            string `json:"type"`
	DNSLookupFamily string `json:"dns_lookup_family,omitempty"`
	ConnectTimeout  string `json:"connect_timeout"`
	LoadAssignment  object `json:"load_assignment"`
	HTTPProtocol    object `json:"typed_extension_protocol_options"`
	Connection      object `json:"upstream_connection_options"`
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

func bootstrapOf(cfg EnvoyConfig, server, admin endpoint) bootstrapJSON {
	// With no timeout Envoy waits for its first clusters and listeners as long as it takes, rather
	// than start without them while the control plane is away.
	overADS := sourceJSON{ADS: object{}, ResourceAPIVersion: "V3", InitialFetchTimeout: "0s"}
	return bootstrapJSON{
		Admin: adminJSON{Address: admin.json()},
		Node: nodeJSON{
			ID:       cfg.ProxyID,
			Cluster:  cfg.Service,
			Metadata: map[string]Metadata{MetadataKey: cfg.metadata()},
		},
		StaticResources:  staticJSON{Clusters: []clusterJSON{serverCluster(server, cfg.GRPCCAFile)}},
		DynamicResources: resourcesJSON{ADS: adsOf(cfg), CDS: overADS, LDS: overADS},
	}
}

func adsOf(cfg EnvoyConfig) adsJSON {
	ads := adsJSON{
		APIType:             "DELTA_GRPC",
		TransportAPIVersion: "V3",
		// The node is some 60 KB, most of it the list of Envoy's extensions.
		SetNodeOnFirstMessageOnly: true,
		GRPCServices:              []grpcServiceJSON{{EnvoyGRPC: object{"cluster_name": clusterName}}},
	}
	if cfg.SotW {
		ads.APIType = "GRPC"
	}
	if cfg.Token != "" {
		ads.GRPCServices[0].InitialMetadata = []headerJSON{{Key: "x-consul-token", Value: string(cfg.Token)}}
	}
	return ads
}

func serverCluster(server endpoint, caFile string) clusterJSON {
	c := clusterJSON{
		Name:           clusterName,
		Type:           "STATIC",
		ConnectTimeout: "5s",
		LoadAssignment: object{
			"cluster_name": clusterName,
			"endpoints": []object{{
				"lb_endpoints": []object{{"endpoint": object{"address": server.json()}}},
			}},
		},
		HTTPProtocol: object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": object{"http2_protocol_options": object{}},
		}},
		// The stream is silent while nothing changes: without probes Envoy would not notice that the
		// other end vanished. HTTP/2 pings would do too, but a server may take them for abuse.
		Connection: object{"tcp_keepalive": object{
			"keepalive_probes": 3, "keepalive_time": 10, "keepalive_interval": 5,
		}},
	}
	if !server.isIP() {
		c.Type = "STRICT_DNS"
		// localhost has both families, and the control plane listens on 127.0.0.1 unless told otherwise.
		c.DNSLookupFamily = "V4_PREFERRED"
	}
	if caFile != "" {
		c.TransportSocket = tlsOf(server, caFile)
	}
	return c
}

func tlsOf(server endpoint, caFile string) object {
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
				"trusted_ca": object{"filename": caFile},
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
