package destination

import (
	"maps"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Description is a profile, and what it was made of. Of the fields of its resolution Set is the endpoint to use where
// the profile is that of one, and Chain is the whole chain, with routers and splitters.
type Description struct {
	Resolution
	Profile Profile
}

// Describe makes the profile of a name. That of one that does not exist says nothing. last is the whole chain that
// compiled last, if one did.
func (p Place) Describe(view facts.View, name Name, reader string, last *chain.Chain) Description {
	r := &resolver{Place: p, name: name, reader: reader, r: view.Read(), out: Resolution{Chain: last}}
	d := Description{Profile: r.describe()}
	r.out.Reads, r.out.Needs = r.r.Reads(), distinct(r.out.Needs)
	d.Resolution = r.out
	return d
}

func (r *resolver) describe() Profile {
	if !r.mayRead(r.name.Service) {
		return DefaultProfile()
	}
	switch r.exists() {
	case facts.Absent:
		r.out.State, r.out.Chain = NoService, nil
		return DefaultProfile()
	case facts.Unknown:
		r.wait(r.why())
		return DefaultProfile()
	case facts.Present, facts.Suspect:
	}
	c, problems := chain.Compile(chain.Request{
		Service: r.name.start(), Datacenter: r.name.Datacenter, TrustDomain: r.TrustDomain,
	}, subsetOf{r.r, r.name})
	if len(r.r.Unknown()) > 0 {
		r.wait(r.why())
		return DefaultProfile()
	}
	r.out.State, r.out.Problems = Some, problems
	if c != nil {
		r.out.Chain = c
	}
	if r.out.Chain != nil {
		return NewProfile(r.out.Chain, r.name)
	}
	if r.out.State = r.uncompiled(); r.out.State == NoService {
		return DefaultProfile()
	}
	profile := NewProfile(nil, r.name)
	profile.OpaqueProtocol = !chain.IsLayer7(r.protocol(&chain.Target{Service: r.name.Service, Datacenter: r.name.Datacenter}))
	return profile
}

// DescribeInstance makes the profile of an instance that was asked for by its address: it is used as it is. Set has
// it alone.
func (p Place) DescribeInstance(view facts.View, in *facts.Instance, addr netip.AddrPort, reader string) Description {
	r := &resolver{Place: p, reader: reader, r: view.Read()}
	service, meshed := serviceOf(in)
	if !r.mayRead(service) {
		r.out.Reads = r.r.Reads()
		return Description{Resolution: r.out, Profile: DefaultProfile()}
	}
	ep := Endpoint{Addr: addr, Instance: clean(in.Service.ID), Node: clean(in.Node.Node)}
	_, ep.Weight = snapshot.Judge(in, false)
	if l := snapshot.LocalityOf(in); l != nil {
		ep.Region, ep.Zone = clean(l.Region), clean(l.Zone)
	}
	t := &chain.Target{Service: service, Datacenter: p.Datacenter}
	if meshed && !p.Plain {
		ep.Identity = snapshot.SpiffeID(p.TrustDomain, t)
		ep.ServerName = strings.ToLower(service) + "." + namespace + "." + p.Datacenter + ".internal." + p.TrustDomain
	}
	ep.Opaque = !chain.IsLayer7(r.protocol(t))
	profile := DefaultProfile()
	profile.OpaqueProtocol = ep.Opaque
	set := NewSet(Labels{Service: service, Datacenter: p.Datacenter}, []Endpoint{ep})
	d := Description{Profile: profile, Resolution: Resolution{State: Some, Set: set, Reads: r.r.Reads(), Needs: r.out.Needs}}
	if unknown := r.r.Unknown(); len(unknown) > 0 {
		d.State, d.Set, d.Pending = Unknown, nil, r.r.Why(unknown[0])
	}
	return d
}

// At is the profile with the endpoint of a set of one, as seen from where a proxy runs; a nil set has none.
func (p Profile) At(s *Set, e Encoder) Profile {
	if p.DestinationProfile == nil || len(s.endpoints()) == 0 {
		return p
	}
	at := proto.CloneOf(p.DestinationProfile)
	at.Endpoint = e.For(s).Weighted(&s.Endpoints[0])
	maps.Copy(at.Endpoint.MetricLabels, s.Labels.words()) // there is no set to have them
	p.DestinationProfile = at
	return p
}

// serviceOf is the service that an instance belongs to, and whether it takes mesh traffic.
func serviceOf(in *facts.Instance) (service string, meshed bool) {
	if in.Service.Kind == "connect-proxy" && in.Service.Proxy != nil {
		return in.Service.Proxy.DestinationServiceName, true
	}
	return in.Service.Service, in.Service.Connect.Native
}

// encoded is a profile as it is sent.
func (p Profile) encoded() []byte {
	if p.DestinationProfile == nil {
		return nil
	}
	return marshal((*pb.DestinationProfile)(p.DestinationProfile))
}
