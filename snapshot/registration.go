package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// selector finds out which upstreams a client has.
type selector struct {
	cfg  Config
	r    *facts.Reader
	kind Kind
	// hold says why that cannot be known yet, unregistered why the client has none.
	hold, unregistered string
	needs              []facts.Topic
}

// upstreams lists the upstreams of a client, with what central configuration says of each.
func (s *selector) upstreams(c Client) []UpstreamKey {
	list := c.Upstreams
	s.kind = Plain
	if !c.Declared {
		s.kind = Mesh
		list = s.registered(c)
	}
	keys := make([]UpstreamKey, 0, len(list))
	bound := map[string]string{}
	central := centralConfig(s.r, c.Service)
	for _, u := range list {
		key := UpstreamKey{Kind: s.kind, Reader: c.Reader, Upstream: u}
		if u.unsupported == "" {
			key.Upstream.Config = u.Config.or(central.of(u.Service))
			bind := u.bind()
			if key.Taken = bound[bind]; key.Taken == "" {
				bound[bind] = u.EnvoyID()
			}
		}
		keys = append(keys, key)
	}
	return keys
}

// registered finds the upstreams of a client by its registration.
func (s *selector) registered(c Client) []Upstream {
	if c.Service == "" {
		s.unregistered = "the node names neither upstreams (metadata.catenary) nor the service whose sidecar it is (node.cluster)"
		return nil
	}
	topic := facts.Proxies(s.cfg.Datacenter, c.Service)
	s.needs = append(s.needs, topic)
	rows, _ := s.r.Instances(topic)
	in, reason := match(c, rows)
	switch {
	case in != nil && !s.cfg.PlaintextMesh:
		s.hold = "a mesh sidecar is served once it can be given its identity; " +
			"for measuring, serve --experimental-plaintext-mesh gives it plaintext"
	case in != nil:
		return fromProxy(in.Service.Proxy)
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
	if len(found) > 1 {
		found = slices.DeleteFunc(slices.Clone(found), func(in *facts.Instance) bool {
			return in.Node.Address != c.Address
		})
		if len(found) != 1 {
			return nil, fmt.Sprintf("several registrations of the ID %q: pass -node-name", c.ID)
		}
	}
	if len(found) == 1 {
		return found[0], ""
	}
	return nil, fmt.Sprintf("no sidecar with the ID %q is registered for service %q", c.ID, c.Service)
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
		list = append(list, Upstream{
			Service: u.DestinationName, Datacenter: u.Datacenter,
			BindAddress: cmp.Or(u.LocalBindAddress, defaultBind), BindPort: u.LocalBindPort,
			Config: fromRegistration(u), unsupported: unsupported(u),
		})
	}
	return list
}

// unsupported says why a registered upstream is not served; empty when it is.
func unsupported(u facts.Upstream) string {
	switch {
	case u.DestinationPeer != "":
		return "cluster peering is not supported"
	case u.DestinationType != "" && u.DestinationType != "service":
		return "upstreams of the type " + u.DestinationType + " are not supported"
	case u.LocalBindSocketPath != "":
		return "upstreams on a socket are not supported: give it local_bind_port"
	case u.LocalBindPort == 0:
		return "it has no local_bind_port"
	}
	return ""
}
