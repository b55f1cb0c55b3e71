package scenario

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// simulator says what Envoy does with a request, given its resources and nothing else. It knows the
// part of Envoy's configuration that Catenary writes, and fails on everything beyond.
type simulator struct {
	listeners map[string]*listenerv3.Listener // by address
	routes    map[string]*routev3.RouteConfiguration
	clusters  map[string]*clusterv3.Cluster
	endpoints map[string]*endpointv3.ClusterLoadAssignment
	// extensions are filters that listeners discover.
	extensions map[string]*corev3.TypedExtensionConfig
	// doors are the addresses at which the client's service finds its upstreams.
	doors map[string]string
	// names are the instances by address.
	names map[string]string
}

func newSimulator(resources map[string][]proto.Message, doors, names map[string]string) (*simulator, error) {
	s := &simulator{
		listeners: map[string]*listenerv3.Listener{},
		routes:    map[string]*routev3.RouteConfiguration{},
		clusters:  map[string]*clusterv3.Cluster{},
		endpoints: map[string]*endpointv3.ClusterLoadAssignment{}, extensions: map[string]*corev3.TypedExtensionConfig{},
		doors: doors, names: names,
	}
	for _, list := range resources {
		for _, msg := range list {
			if err := s.add(msg); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *simulator) add(msg proto.Message) error {
	switch m := msg.(type) {
	case *listenerv3.Listener:
		s.listeners[socket(m.GetAddress())] = m
		return only(m, "name", "address", "filter_chains", "traffic_direction", "connection_balance_config")
	case *routev3.RouteConfiguration:
		s.routes[m.GetName()] = m
		return only(m, "name", "virtual_hosts", "validate_clusters")
	case *clusterv3.Cluster:
		s.clusters[m.GetName()] = m
		return knownCluster(m)
	case *endpointv3.ClusterLoadAssignment:
		s.endpoints[m.GetClusterName()] = m
		return only(m, "cluster_name", "endpoints")
	case *corev3.TypedExtensionConfig:
		s.extensions[m.GetName()] = m
		return only(m, "name", "typed_config")
	case *tlsv3.Secret:
		return nil
	}
	return fmt.Errorf("the simulator does not know a %T", msg)
}

// only fails on a message with a field beyond those that the simulator understands.
func only(m proto.Message, fields ...string) error {
	var err error
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		for _, known := range fields {
			if string(f.Name()) == known {
				return true
			}
		}
		err = fmt.Errorf("the simulator does not know %s = %v", f.FullName(), v)
		return false
	})
	return err
}

func socket(a *corev3.Address) string {
	if pipe := a.GetPipe(); pipe != nil {
		return pipe.GetPath()
	}
	s := a.GetSocketAddress()
	return net.JoinHostPort(s.GetAddress(), strconv.FormatUint(uint64(s.GetPortValue()), 10))
}

// answer is what becomes of a call.
type answer struct {
	// refused says why there is none from an instance; the shares are then empty.
	refused string
	shares  []share
	// notes are what else happens to the call, as it is printed.
	notes []string
}

// filter returns the only network filter of the listener for an upstream, nil when nothing listens.
func (s *simulator) filter(upstream string) (proto.Message, error) {
	door, ok := s.doors[upstream]
	if !ok {
		return nil, fmt.Errorf("the client has no upstream %q", upstream)
	}
	l, ok := s.listeners[door]
	if !ok {
		return nil, nil
	}
	if len(l.GetFilterChains()) != 1 || len(l.GetFilterChains()[0].GetFilters()) != 1 {
		return nil, fmt.Errorf("listener %s has not just one filter", l.GetName())
	}
	filters := l.GetFilterChains()[0]
	if err := only(filters, "filters"); err != nil {
		return nil, err
	}
	return filters.GetFilters()[0].GetTypedConfig().UnmarshalNew()
}

var errNotHTTP = errors.New("the upstream takes connections, not requests: write CONNECT")

const refusedAtDoor = "refused: nothing listens"

// request is what becomes of an HTTP request.
func (s *simulator) request(r request) (answer, error) {
	filter, err := s.filter(r.upstream)
	if filter == nil || err != nil {
		return answer{refused: refusedAtDoor}, err
	}
	hcm, ok := filter.(*hcmv3.HttpConnectionManager)
	if !ok {
		return answer{}, errNotHTTP
	}
	if err := only(hcm, "stat_prefix", "rds", "http_filters", "upgrade_configs", "tracing", "http2_protocol_options", "max_request_headers_kb"); err != nil {
		return answer{}, err
	}
	if err := knownFilters(hcm); err != nil {
		return answer{}, err
	}
	config := s.routes[hcm.GetRds().GetRouteConfigName()]
	if config == nil {
		return answer{refused: "404 (no route configuration)"}, nil
	}
	route, err := findRoute(config, r)
	if route == nil || err != nil {
		return answer{refused: "404 (no route)"}, err
	}
	return s.follow(route, r)
}

// knownFilters checks that the HTTP filters are those that leave requests as they are, and that they
// end with the router.
func knownFilters(hcm *hcmv3.HttpConnectionManager) error {
	const prefix = "type.googleapis.com/envoy.extensions.filters.http."
	names := make([]string, 0, len(hcm.GetHttpFilters()))
	for _, f := range hcm.GetHttpFilters() {
		names = append(names, strings.TrimPrefix(f.GetTypedConfig().GetTypeUrl(), prefix))
	}
	switch got := strings.Join(names, " "); got {
	case "router.v3.Router",
		"grpc_stats.v3.FilterConfig grpc_http1_bridge.v3.Config router.v3.Router":
		return nil
	default:
		return fmt.Errorf("the simulator does not know the HTTP filters %s", got)
	}
}

// connection is what becomes of a TCP connection.
func (s *simulator) connection(upstream string) (answer, error) {
	filter, err := s.filter(upstream)
	if filter == nil || err != nil {
		return answer{refused: refusedAtDoor}, err
	}
	tcp, ok := filter.(*tcpv3.TcpProxy)
	if !ok {
		return answer{}, fmt.Errorf("the upstream takes requests: write GET %s/", upstream)
	}
	if err := only(tcp, "stat_prefix", "cluster"); err != nil {
		return answer{}, err
	}
	shares, err := s.spread(tcp.GetCluster())
	if err != nil {
		return answer{}, err
	}
	for i := range shares {
		if shares[i].failed {
			shares[i].to = "closed (" + shares[i].to + ")"
		}
	}
	return answer{shares: shares, notes: speaks(shares)}, nil
}
