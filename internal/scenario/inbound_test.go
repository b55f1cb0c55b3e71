package scenario

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/snapshot"
)

// arrival is a call of somebody else to the client's service.
type arrival struct {
	// uri is the identity in the certificate that the caller shows; empty when it shows none.
	uri string
	// port is one at which a path is exposed; 0 for the listener of the mesh. from is then the caller.
	port uint32
	from netip.Addr

	request *request // nil for a connection
}

const nobody = "nobody"

// parseArrival reads "AS api GET /path name:value ...", "AS nobody CONNECT", or "AT 21500 GET /path" and
// "AT 21500/10.0.0.1 GET /path", which come from this machine and from an address.
func parseArrival(words []string) (arrival, error) {
	var a arrival
	if len(words) < 3 {
		return a, fmt.Errorf("write AS SERVICE, or AT PORT, and then CONNECT or METHOD /PATH")
	}
	if words[0] == "AS" && words[1] != nobody {
		a.uri = "spiffe://" + config().TrustDomain + "/ns/default/dc/dc1/svc/" + words[1]
	}
	if words[0] == "AT" {
		port, from, _ := strings.Cut(words[1]+"/127.0.0.1", "/")
		from, _, _ = strings.Cut(from, "/")
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return a, err
		}
		if a.from, err = netip.ParseAddr(from); err != nil {
			return a, err
		}
		a.port = uint32(n)
	}
	if words[2] == "CONNECT" {
		return a, nil
	}
	if len(words) < 4 {
		return a, fmt.Errorf("%s has no path", words[2])
	}
	r, err := parseRequest(words[2], words[3:])
	a.request = &r
	return a, err
}

// arrives is what becomes of a call to the client's service.
func (s *simulator) arrives(a arrival) (answer, error) {
	for _, l := range s.listeners {
		exposed := a.port > 0 && l.GetAddress().GetSocketAddress().GetPortValue() == a.port
		if !exposed && (a.port > 0 || !strings.HasPrefix(l.GetName(), snapshot.PublicListener+":")) {
			continue
		}
		if len(l.GetFilterChains()) != 1 {
			return answer{}, fmt.Errorf("listener %s has not just one chain of filters", l.GetName())
		}
		filters := l.GetFilterChains()[0]
		if err := only(filters, "filters", "transport_socket", "filter_chain_match"); err != nil {
			return answer{}, err
		}
		if reason, err := turnsAway(filters, a); reason != "" || err != nil {
			return answer{refused: reason}, err
		}
		return s.pass(filters.GetFilters(), a)
	}
	return answer{refused: refusedAtDoor}, nil
}

// turnsAway says why a connection does not even reach the filters; empty when it does.
func turnsAway(c *listenerv3.FilterChain, a arrival) (string, error) {
	if m := c.GetFilterChainMatch(); m != nil {
		inside := false
		for _, r := range m.GetSourcePrefixRanges() {
			prefix, err := netip.ParsePrefix(fmt.Sprintf("%s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
			if err != nil {
				return "", err
			}
			inside = inside || prefix.Masked().Contains(a.from)
		}
		if !inside {
			return "closed (not from here)", only(m, "source_prefix_ranges")
		}
	}
	if c.GetTransportSocket() == nil {
		if a.port == 0 {
			return "", fmt.Errorf("the listener of the mesh speaks plaintext")
		}
		return "", nil
	}
	var tls tlsv3.DownstreamTlsContext
	if err := c.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls); err != nil {
		return "", err
	}
	if tls.GetRequireClientCertificate().GetValue() && a.uri == "" {
		return "closed (no certificate)", nil
	}
	return "", nil
}

// pass takes a connection through the network filters.
func (s *simulator) pass(filters []*listenerv3.Filter, a arrival) (answer, error) {
	var notes []string
	for _, f := range filters {
		config, err := s.config(f.GetTypedConfig, f.GetConfigDiscovery(), f.GetName())
		if err != nil {
			return answer{}, err
		}
		switch c := config.(type) {
		case *netrbacv3.RBAC:
			if ok, err := allows(c.GetRules(), a); !ok || err != nil {
				return answer{refused: "closed (intentions)"}, err
			}
		case *limitv3.ConnectionLimit:
			notes = append(notes, fmt.Sprintf("connections<=%d", c.GetMaxConnections().GetValue()))
		case *tcpv3.TcpProxy:
			if a.request != nil {
				return answer{}, errNotHTTP
			}
			shares, err := s.spread(c.GetCluster())
			return answer{shares: shares, notes: notes}, err
		case *hcmv3.HttpConnectionManager:
			out, err := s.handle(c, a)
			out.notes = append(notes, out.notes...)
			return out, err
		default:
			return answer{}, fmt.Errorf("the simulator does not know the network filter %T", config)
		}
	}
	return answer{}, fmt.Errorf("no filter ends the chain")
}

// config is that of a filter, in place or discovered under its name.
func (s *simulator) config(typed func() *anyConfig, source *corev3.ExtensionConfigSource, name string) (proto.Message, error) {
	if source == nil {
		return typed().UnmarshalNew()
	}
	found := s.extensions[name]
	if found == nil {
		return nil, fmt.Errorf("nothing is discovered under the name %s", name)
	}
	for _, url := range source.GetTypeUrls() {
		if found.GetTypedConfig().GetTypeUrl() == url {
			return found.GetTypedConfig().UnmarshalNew()
		}
	}
	return nil, fmt.Errorf("%s is a %s, which the listener does not take", name, found.GetTypedConfig().GetTypeUrl())
}

// handle takes a request through the HTTP filters and along its route.
func (s *simulator) handle(hcm *hcmv3.HttpConnectionManager, a arrival) (answer, error) {
	if a.request == nil {
		return answer{}, fmt.Errorf("the service takes requests: write METHOD /PATH")
	}
	var told []string
	if hcm.GetForwardClientCertDetails() == hcmv3.HttpConnectionManager_APPEND_FORWARD {
		told = append(told, "tells-who-calls")
	}
	for _, f := range hcm.GetHttpFilters() {
		config, err := s.config(f.GetTypedConfig, f.GetConfigDiscovery(), f.GetName())
		if err != nil {
			return answer{}, err
		}
		if rbac, ok := config.(*httprbacv3.RBAC); ok {
			if ok, err := allows(rbac.GetRules(), a); !ok || err != nil {
				return answer{refused: "403 (intentions)"}, err
			}
		}
	}
	route, err := findRoute(hcm.GetRouteConfig(), *a.request)
	if route == nil || err != nil {
		return answer{refused: "404 (no route)"}, err
	}
	out, err := s.follow(route, *a.request)
	out.notes = append(out.notes, told...)
	return out, err
}
