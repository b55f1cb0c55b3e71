package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// selector finds out which parts the plan of a client has.
type selector struct {
	cfg  Config
	r    *facts.Reader
	kind Kind
	// hold says why that cannot be known yet, unregistered why the client has none.
	hold, unregistered string
	needs              []facts.Topic
}

// parts lists the parts of a client's plan.
func (s *selector) parts(c Client) []PartKey {
	if c.Dialect.GRPC() {
		s.kind = Plain
		if c.Mesh {
			s.kind = Mesh
		}
		return s.asked(c)
	}
	if c.Declared {
		s.kind = Plain
		return s.upstreams(c, c.Upstreams, &facts.Proxy{})
	}
	s.kind = Mesh
	in := s.registered(c)
	if in == nil {
		return nil
	}
	if !s.identified(c, in.Service.Proxy.DestinationServiceName) {
		return nil
	}
	keys := []PartKey{IdentityKey{Service: in.Service.Proxy.DestinationServiceName}, inboundKey(c, in)}
	return append(keys, s.upstreams(c, fromProxy(in.Service.Proxy), in.Service.Proxy)...)
}

// upstreams lists the parts that upstreams make up, with what central configuration says of each.
func (s *selector) upstreams(c Client, list []Upstream, p *facts.Proxy) []PartKey {
	keys := make([]PartKey, 0, len(list))
	bound := map[string]string{}
	central := centralOf(s.r, s.kind, c.Service)
	settings := central.settings(p)
	for _, u := range list {
		key := UpstreamKey{Kind: s.kind, Reader: c.Reader, Upstream: u, Settings: settings}
		if u.unsupported == "" {
			key.Upstream.Config = central.upstream(u, p.MeshGateway.Mode)
			bind := u.bind().String()
			if key.Taken = bound[bind]; key.Taken == "" {
				bound[bind] = u.EnvoyID()
			}
		}
		keys = append(keys, key)
	}
	return keys
}

// registered finds the registration of a client.
func (s *selector) registered(c Client) *facts.Instance {
	if c.Service == "" {
		s.unregistered = "the node names neither upstreams (metadata.catenary) nor the service whose sidecar it is (node.cluster)"
		return nil
	}
	topic := facts.Proxies(s.cfg.Datacenter, c.Service)
	s.needs = append(s.needs, topic)
	rows, _ := s.r.Instances(topic)
	in, reason := match(c, rows)
	switch {
	case in != nil:
		return in
	case !s.r.Known(topic) || len(rows) > 0 && !s.r.Topic(topic).Complete:
		s.hold = s.r.Why(facts.ID{Topic: topic})
	default:
		s.unregistered = reason
	}
	return nil
}

// match picks the registration of a client: by ID, and among several by node name or by the address
// the client connects from.
func match(c Client, rows []*facts.Instance) (*facts.Instance, string) {
	var found []*facts.Instance
	for _, in := range rows {
		if in.Service.ID == c.ID && in.Service.Proxy != nil && (c.Node == "" || c.Node == in.Node.Node) {
			found = append(found, in)
		}
	}
	if n := len(found); n > 1 {
		found = slices.DeleteFunc(found, func(in *facts.Instance) bool { return !sameAddress(in.Node.Address, c.Address) })
		if len(found) != 1 {
			return nil, fmt.Sprintf("%d registrations of this ID: pass -node-name", n)
		}
	}
	if len(found) == 1 {
		return found[0], ""
	}
	return nil, fmt.Sprintf("no sidecar with the ID %q is registered for service %q", c.ID, c.Service)
}

// sameAddress reports whether two texts are one address: a node may spell its IPv6 address in any way.
func sameAddress(a, b string) bool {
	one, err := netip.ParseAddr(a)
	two, err2 := netip.ParseAddr(b)
	return a == b || err == nil && err2 == nil && one.Unmap() == two.Unmap()
}

// defaultBind is where a sidecar listens for an upstream that names no address.
const defaultBind = "127.0.0.1"

// fromProxy lists the upstreams of a registration. Those that Consul adds from central configuration,
// for services the sidecar does not name itself, have no address of their own.
func fromProxy(p *facts.Proxy) []Upstream {
	var list []Upstream
	for _, u := range p.Upstreams {
		if u.CentrallyConfigured || u.DestinationName == "*" {
			continue
		}
		list = append(list, fromUpstream(u))
	}
	return list
}

func fromUpstream(u facts.Upstream) Upstream {
	out := Upstream{
		Service: u.DestinationName, Datacenter: u.Datacenter,
		BindAddress: cmp.Or(u.LocalBindAddress, defaultBind), BindPort: u.LocalBindPort,
		Config: fromRegistration(u),
		peer:   u.DestinationPeer, query: u.DestinationType == preparedQuery, unsupported: unsupported(u),
	}
	if u.LocalBindSocketPath == "" {
		return out
	}
	out.SocketPath, out.BindAddress, out.BindPort = u.LocalBindSocketPath, "", 0
	mode, ok := socketMode(u.LocalBindSocketMode)
	out.SocketMode = mode
	if !ok {
		out.Config.ignored = strings.Trim(out.Config.ignored+fmt.Sprintf(
			"\nlocal_bind_socket_mode %s is ignored: write one up to 0777 in octal, such as 0600", shown(u.LocalBindSocketMode)), "\n")
	}
	return out
}

// preparedQuery is the type of an upstream that is no service.
const preparedQuery = "prepared_query"

// unsupported says why a registered upstream is not served; empty when it is.
func unsupported(u facts.Upstream) string {
	switch {
	case u.DestinationPeer != "":
		return "cluster peering is not supported"
	case u.DestinationType == preparedQuery:
		return "prepared queries are not supported: write a service-resolver with the failover that the query has, and name its service"
	case u.DestinationType != "" && u.DestinationType != "service":
		return "upstreams of the type " + u.DestinationType + " are not supported"
	case u.LocalBindPort == 0 && u.LocalBindSocketPath == "":
		return "it has neither local_bind_port nor local_bind_socket_path"
	}
	return ""
}
