package snapshot

import (
	"fmt"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Preview is how one upstream is planned, for whoever wants to know and not to be served.
type Preview struct {
	Part *Part
	// Key is the chain of the upstream, and Chain what is known of it; its chain is nil when none compiles.
	Key   ChainKey
	Chain ChainState
	// Needs are the topics that must be followed for it, in order.
	Needs []facts.Topic
}

// NewPreview plans an upstream without a cache. last is the chain that is in force where the entries do not
// compile any more; nil for none.
func NewPreview(cfg Config, view facts.View, k UpstreamKey, last *chain.Chain) Preview {
	var p Preview
	prev := ChainState{Chain: last}
	if last != nil {
		prev.Protocol = last.Protocol
	}
	r := view.Read()
	p.Part = k.plan(&planner{cfg: cfg, r: r, chains: func(key ChainKey) ChainState {
		p.Key, p.Chain = key, makeChain(cfg, key, r, prev)
		return p.Chain
	}})
	p.Needs = p.Part.needs
	return p
}

// FailoverName is the name of the cluster that stands for a member of a failover: 0 for the target that fails
// over, whose cluster is given, and then the targets that it fails over to. A name tells of its member also
// where others are left out.
func FailoverName(member int, cluster string) string {
	return fmt.Sprintf("failover-target~%d~%s", member, cluster)
}

// Member is an instance that an endpoint set looks at, and what clients are told of it.
type Member struct {
	Instance *facts.Instance
	Endpoint Endpoint
	// Left says why clients are told nothing of it; empty when they are.
	Left string
}

// Known reports whether the facts suffice to make the endpoint set.
func (k EndpointSetKey) Known(r *facts.Reader) bool { return k.known(r) }

// Members returns what an endpoint set is made of, in the order of the facts: what of it is not left out is the
// set. outside is how many instances of the topic are not in the subset.
func (k EndpointSetKey) Members(v facts.View) (list []Member, outside int) {
	return k.MembersBy(v.Read())
}

// MembersBy is [EndpointSetKey.Members] for a reader, which remembers what that took.
func (k EndpointSetKey) MembersBy(r *facts.Reader) (list []Member, outside int) {
	instances, _ := r.Instances(k.Topic)
	total := len(instances)
	if k.Filter != "" {
		keep, err := filter(k.Filter)
		if err != nil {
			return nil, total
		}
		instances = selected(instances, keep)
	}
	outside = total - len(instances)
	judge := k.judge(r)
	set := k.endpoints(r)
	if k.Gateways != (facts.Topic{}) {
		instances, _ = r.Instances(k.Gateways)
		judge = func(in *facts.Instance) (Health, uint32) {
			_, weight := Judge(in, false)
			return set.Endpoints[0].Health, weight // all have that of what is behind them
		}
	}
	told := make(map[Endpoint]bool, len(set.Endpoints))
	for _, e := range set.Endpoints {
		told[e] = true
	}
	for _, in := range instances {
		m := Member{Instance: in}
		address, port := Dial(in, k.WAN)
		if !dialable(address, port) {
			m.Endpoint = Endpoint{Address: address, Port: uint32(max(port, 0)), Health: Unhealthy}
			m.Left = "its address and port are not what Envoy can dial"
		} else {
			m.Endpoint = k.list([]*facts.Instance{in}, judge).Endpoints[0]
			if !told[m.Endpoint] {
				m.Left = "another instance has the same address"
			}
			delete(told, m.Endpoint)
		}
		list = append(list, m)
	}
	return list, outside
}
