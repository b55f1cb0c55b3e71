package destination

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// target returns the healthy endpoints of a target; known is false while the facts do not suffice.
func (r *resolver) target(t *chain.Target) (set *Set, known bool) {
	if t.Peer != "" {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("target %s: cluster peering is not supported", t.ID))
		return NewSet(Labels{}, nil), true
	}
	r.need(facts.Services(t.Datacenter))
	present := r.r.Service(t.Datacenter, t.Service) != facts.Absent
	known = true
	mesh, plain := r.keys(t)
	for _, key := range []snapshot.EndpointSetKey{mesh, plain} {
		if key == (snapshot.EndpointSetKey{}) {
			continue
		}
		if present {
			r.need(key.Topic)
		}
		if key.Gateways != (facts.Topic{}) {
			r.need(key.Gateways)
		}
		if !key.Known(r.r) {
			known = false
			r.out.Pending = cmp.Or(r.out.Pending, r.lacks(key))
		}
	}
	if !known {
		return nil, false
	}
	return newSet(Labels{Service: t.Service, Subset: t.ServiceSubset, Datacenter: t.Datacenter}, r.endpoints(t, mesh, plain)), true
}

// keys are the endpoint sets of a target: what takes mesh traffic, unless all is dialled plainly, and the instances.
func (r *resolver) keys(t *chain.Target) (mesh, plain snapshot.EndpointSetKey) {
	plain = snapshot.EndpointSetKey{
		Topic:  facts.Health(t.Datacenter, t.Service),
		Filter: t.Subset.Filter, OnlyPassing: t.Subset.OnlyPassing, WAN: t.Datacenter != r.Datacenter,
	}
	if r.Plain {
		return snapshot.EndpointSetKey{}, plain
	}
	mesh = plain
	mesh.Topic, mesh.Gateways = facts.Connect(t.Datacenter, t.Service), r.gateways(t)
	mesh.WAN = plain.WAN && mesh.Gateways.Datacenter != r.Datacenter
	return mesh, plain
}

// lacks says what is not known of an endpoint set.
func (r *resolver) lacks(key snapshot.EndpointSetKey) string {
	if key.Gateways != (facts.Topic{}) && r.r.View.Known(key.Topic) {
		return r.r.Why(facts.ID{Topic: key.Gateways})
	}
	return r.r.Why(facts.ID{Topic: key.Topic})
}

// gateways are those through which mesh instances of another datacenter are reached, if they are.
func (r *resolver) gateways(t *chain.Target) facts.Topic {
	if r.Plain || t.Datacenter == r.Datacenter {
		return facts.Topic{}
	}
	switch t.MeshGateway.Mode {
	case chain.MeshGatewayLocal:
		return facts.Gateways(r.Datacenter)
	case chain.MeshGatewayRemote:
		return facts.Gateways(t.Datacenter)
	case chain.MeshGatewayDefault, chain.MeshGatewayNone:
	}
	return facts.Topic{}
}

// endpoints are the mesh instances of a target, with their identity, and the instances that have no sidecar.
func (r *resolver) endpoints(t *chain.Target, mesh, plain snapshot.EndpointSetKey) []Endpoint {
	opaque := !chain.IsLayer7(r.protocol(t))
	var list []Endpoint
	var meshed []*facts.Instance
	if !r.Plain {
		meshed, _ = r.r.Instances(mesh.Topic)
		identity := snapshot.SpiffeID(r.TrustDomain, identified(t, meshed))
		list = r.members(mesh, nil)
		if len(list) > 0 && !isServerName(t.SNI) {
			// A proxy takes an identity with such a name for none, and would dial in plaintext.
			r.out.Notes = append(r.out.Notes, fmt.Sprintf("sidecars left out: %d: %q is no name that TLS can ask for", len(list), clean(t.SNI)))
			list = nil
		}
		for i := range list {
			list[i].ServerName, list[i].Identity = t.SNI, identity
		}
	}
	list = append(list, r.members(plain, coveredBy(meshed))...)
	for i := range list {
		list[i].Opaque = opaque
	}
	return list
}

// identified is the target with its service spelled as in certificates, where case counts.
func identified(t *chain.Target, meshed []*facts.Instance) *chain.Target {
	named := *t
	for _, in := range meshed {
		service := in.Service.Service
		if in.Service.Proxy != nil {
			service = in.Service.Proxy.DestinationServiceName
		}
		if strings.EqualFold(service, t.Service) {
			named.Service = service
			break
		}
	}
	return &named
}

// members are the healthy endpoints of a set, but for instances that are covered.
func (r *resolver) members(key snapshot.EndpointSetKey, by covered) []Endpoint {
	members, _ := key.MembersBy(r.r)
	list := make([]Endpoint, 0, len(members))
	var odd []snapshot.Member
	for _, m := range members {
		e := Endpoint{
			Weight: m.Endpoint.Weight, Region: clean(m.Endpoint.Region), Zone: clean(m.Endpoint.Zone),
			Instance: clean(m.Instance.Service.ID), Node: clean(m.Instance.Node.Node),
		}
		if by.has(&e) {
			continue
		}
		ip, err := netip.ParseAddr(m.Endpoint.Address)
		if err != nil || m.Endpoint.Port == 0 || m.Endpoint.Port > math.MaxUint16 {
			odd = append(odd, m)
			continue
		}
		if m.Left == "" && m.Endpoint.Health == snapshot.Healthy {
			e.Addr = netip.AddrPortFrom(ip.Unmap(), uint16(m.Endpoint.Port))
			list = append(list, e)
		}
	}
	r.noteOdd(odd)
	return list
}

// noteOdd says that instances are left out because they have no address that can be told.
func (r *resolver) noteOdd(odd []snapshot.Member) {
	if len(odd) == 0 {
		return
	}
	first := odd[0]
	r.out.Notes = append(r.out.Notes, fmt.Sprintf("instances left out: %d, such as %q at %q, port %d: Linkerd dials only IPs with a port",
		len(odd), clean(first.Instance.Service.ID), clean(first.Endpoint.Address), first.Endpoint.Port))
}

// place is where an instance is. Names of nodes do not mind case.
type place struct{ node, instance string }

// covered are the instances that have a sidecar, however that fares: they are dialled through it or not at all. A
// sidecar that does not say of which instance it is covers all on its node.
type covered map[place]bool

func coveredBy(meshed []*facts.Instance) covered {
	c := make(covered, len(meshed))
	for _, in := range meshed {
		of := in.Service.ID
		if in.Service.Proxy != nil {
			of = in.Service.Proxy.DestinationServiceID
		}
		c[place{strings.ToLower(clean(in.Node.Node)), clean(of)}] = true
	}
	return c
}

func (c covered) has(e *Endpoint) bool {
	node := strings.ToLower(e.Node)
	return c[place{node, e.Instance}] || c[place{node, ""}]
}

// maxText bounds the texts of the catalog in what every proxy is told of an endpoint.
const maxText = 256

// clean is a text as messages can carry it.
func clean(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}

// protocol is that of a target's service.
func (r *resolver) protocol(t *chain.Target) string {
	c, _ := chain.Compile(chain.Request{Service: t.Service, Datacenter: t.Datacenter}, onlyDefaults{r.r})
	if c == nil {
		return ""
	}
	return c.Protocol
}

// onlyDefaults hides the entries that shape a chain.
type onlyDefaults struct{ chain.Entries }

// Entry implements [chain.Entries].
func (d onlyDefaults) Entry(kind chain.Kind, name string) chain.Entry {
	if kind == chain.KindServiceDefaults || kind == chain.KindProxyDefaults {
		return d.Entries.Entry(kind, name)
	}
	return nil
}
