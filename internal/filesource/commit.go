package filesource

import (
	"slices"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// kindProxy is the kind of a sidecar's registration.
const kindProxy = "connect-proxy"

// World is what files do not say.
type World struct {
	Datacenter string
	// DenyByDefault means that services may not talk to each other where no intention says anything. With
	// files they may, as in a Consul without ACLs.
	DenyByDefault bool
}

// noRoots is why there is no certificate authority.
const noRoots = "files have no certificate authority: the identities of a mesh need Consul"

// Commit makes a set all there is: what the store had before and the set has not is gone.
func Commit(store *facts.Store, world World, set Set) {
	datacenter := world.Datacenter
	confirmed := facts.Reading{Confirmed: true, Reset: true}
	topics := map[facts.Topic][]*facts.Instance{}
	// What was there before is read as empty unless it is there still.
	for _, status := range store.View().Topics() {
		switch status.Topic.Kind {
		case facts.TopicHealth, facts.TopicConnect, facts.TopicProxies:
			topics[status.Topic] = nil
		case facts.TopicEntries, facts.TopicServices: // committed whole below
		case facts.TopicRights, facts.TopicRoots, facts.TopicLeaf, facts.TopicGateways, facts.TopicDefaultIntention, facts.TopicVerdicts, facts.TopicVirtualIPs:
			// files know none, or others have it
		}
	}
	var names []string
	for _, in := range set.Instances {
		c := *in
		c.Node.Datacenter = datacenter
		for _, t := range topicsOf(datacenter, &c) {
			topics[t] = append(topics[t], &c)
		}
		names = append(names, c.Service.Service)
	}
	slices.Sort(names)
	byKind := map[chain.Kind][]chain.Entry{}
	for _, e := range set.Entries {
		byKind[e.Kind()] = append(byKind[e.Kind()], e)
	}
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, byKind[kind], confirmed)
		}
		tx.Services(datacenter, slices.Compact(names), confirmed)
		for topic, instances := range topics {
			tx.Instances(topic, instances, confirmed)
		}
		tx.DefaultIntention(!world.DenyByDefault)
		tx.Off(facts.CARoots(), noRoots)
		tx.CloseWorld()
	})
}

// topicsOf lists where an instance appears: in the health of its own service, and where it accepts
// mesh traffic for a service, there too.
func topicsOf(datacenter string, in *facts.Instance) []facts.Topic {
	s := &in.Service
	topics := []facts.Topic{facts.Health(datacenter, s.Service)}
	switch {
	case s.Kind == kindProxy && s.Proxy != nil:
		destination := s.Proxy.DestinationServiceName
		topics = append(topics, facts.Connect(datacenter, destination), facts.Proxies(datacenter, destination))
	case s.Connect.Native:
		topics = append(topics, facts.Connect(datacenter, s.Service))
	}
	return topics
}
