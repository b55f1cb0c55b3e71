package intentions_test

import (
	"encoding/base64"
	"maps"

	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/catenary-mesh/catenary/internal/evict"
)

// Configuration is written as JSON, which is how it is read in the documentation of Envoy and in its dumps.
type (
	object = map[string]any
	list   = []any
)

const (
	extensions  = "type.googleapis.com/envoy.extensions."
	networkRBAC = "filters.network.rbac.v3.RBAC"
	networkWasm = "filters.network.wasm.v3.Wasm"
	httpRBAC    = "filters.http.rbac.v3.RBAC"
	httpWasm    = "filters.http.wasm.v3.Wasm"
)

func ads() object { return object{"ads": object{}, "resource_api_version": "V3"} }

func with(a, b object) object {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func address(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}

func extension(name, kind string, config object) object {
	return object{"name": name, "typed_config": with(object{"@type": extensions + kind}, config)}
}

// discovered is a filter that comes over ADS.
func discovered(name, kind string) object {
	return object{"name": name, "config_discovery": object{"config_source": ads(), "type_urls": list{extensions + kind}}}
}

// impatient is a filter that Envoy goes on without if it does not come soon.
func impatient(filter object) object {
	filter["config_discovery"].(object)["config_source"] = with(ads(), object{"initial_fetch_timeout": "0.3s"})
	return filter
}

// allow are the rules that allow services, and nobody else.
func allow(services ...string) object {
	var principals list
	for _, s := range services {
		principals = append(principals, object{"authenticated": object{"principal_name": object{"exact": spiffe(s)}}})
	}
	return object{"action": "ALLOW", "policies": object{"consul-intentions-layer4": object{
		"permissions": list{object{"any": true}}, "principals": principals,
	}}}
}

func layer4(name string, rules object) object {
	return extension(name, networkRBAC, object{
		"stat_prefix": "connect_authz", "enforcement_type": "CONTINUOUS", "rules": rules,
	})
}

// paths are the rules that allow everybody some paths.
func paths(prefixes ...string) object {
	var permissions list
	for _, p := range prefixes {
		permissions = append(permissions, object{"url_path": object{"path": object{"prefix": p}}})
	}
	return object{"action": "ALLOW", "policies": object{"consul-intentions-layer7-0": object{
		"permissions": permissions, "principals": list{object{"any": true}},
	}}}
}

func layer7(name string, rules object) object {
	return extension(name, httpRBAC, object{"rules": rules})
}

// plugin is the module with a configuration. Plugins of the same vm share an instance of it in each worker.
func plugin(vm, name, text string) object {
	config := object{
		"name": name, "root_id": name, "failure_policy": "FAIL_OPEN",
		"vm_config": object{
			"vm_id": vm, "runtime": "envoy.wasm.runtime.v8",
			"code": object{"local": object{"inline_bytes": base64.StdEncoding.EncodeToString(evict.Module())}},
		},
	}
	if text != "" {
		config["configuration"] = object{"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text}
	}
	return object{"config": config}
}

// tracker is the filter that knows what is open.
func tracker(kind, vm string) object {
	return extension("intentions.tracker", kind, plugin(vm, "intentions.tracker", ""))
}

// keep are the rules that keep services with all their rights, and nobody else.
func keep(services ...string) []evict.Rule {
	var rules []evict.Rule
	for _, s := range services {
		rules = append(rules, evict.Rule{Pattern: "spiffe://" + trustDomain + "/ns/default/dc/*/svc/" + s, Keep: true})
	}
	return append(rules, evict.Rule{Pattern: "*"})
}

// downstreamTLS asks clients for a certificate of the authority.
func downstreamTLS(a *authority, protocols ...string) object {
	cert, key := a.leaf("server")
	return extension("tls", "transport_sockets.tls.v3.DownstreamTlsContext", object{
		"require_client_certificate": true,
		"common_tls_context": object{
			"alpn_protocols": protocols,
			"tls_certificates": list{object{
				"certificate_chain": object{"inline_string": cert}, "private_key": object{"inline_string": key},
			}},
			"validation_context": object{"trusted_ca": object{"inline_string": a.pem}},
		},
	})
}

func tcpProxy(cluster string) object {
	return extension("envoy.filters.network.tcp_proxy", "filters.network.tcp_proxy.v3.TcpProxy", object{
		"stat_prefix": "public_listener", "cluster": cluster,
	})
}

func hcm(cluster string, filters ...any) object {
	filters = append(filters, extension("envoy.filters.http.router", "filters.http.router.v3.Router", nil))
	return extension("envoy.filters.network.http_connection_manager",
		"filters.network.http_connection_manager.v3.HttpConnectionManager", object{
			"stat_prefix": "public_listener", "http_filters": filters,
			"upgrade_configs": list{object{"upgrade_type": "websocket"}},
			"route_config": object{"name": "public_listener", "virtual_hosts": list{object{
				"name": "public_listener", "domains": list{"*"}, "routes": list{object{
					"match": object{"prefix": "/"}, "route": object{"cluster": cluster, "timeout": "0s"},
				}},
			}}},
		})
}

func chain(tls object, filters ...any) object {
	return object{"transport_socket": tls, "filters": filters}
}

// unreached is the chain that no connection matches, in which the rules are configured.
func unreached(rules string) object {
	return object{
		"name": "intentions", "filter_chain_match": object{"transport_protocol": "none"}, "filters": list{
			discovered(rules, networkWasm),
			extension("envoy.filters.network.direct_response", "filters.network.direct_response.v3.Config", nil),
		},
	}
}

func listener(name string, port int, chains ...any) object {
	return object{"name": name, "address": address(port), "traffic_direction": "INBOUND", "filter_chains": chains}
}

func endpoint(port int, more object) object {
	return object{"endpoint": with(object{"address": address(port)}, more)}
}

func assignment(cluster string, endpoints ...any) object {
	return object{"cluster_name": cluster, "endpoints": list{object{"lb_endpoints": endpoints}}}
}

func cluster(name string, port int, more object) object {
	return with(object{
		"name": name, "type": "STATIC", "connect_timeout": "5s", "load_assignment": assignment(name, endpoint(port, nil)),
	}, more)
}
