package journey

import (
	"math"
	"slices"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// overprovisioning is Envoy's default factor in percent: a target counts as fully healthy while that many
// percent of its healthy endpoints are all of them. Below, failover takes over what is missing.
const overprovisioning = 140

// settle works out where requests end: of each target, leg and route, and of the request.
func (m *maker) settle() {
	for _, node := range m.chain.Nodes {
		if node.Resolver != nil && m.known[node.Resolver.Target] != nil {
			m.levels(node)
		}
	}
	for _, t := range m.Targets {
		if t.levels != nil && t.first {
			down := t.Without
			t.Without = true
			t.Then = m.spread(t.levels)
			t.Without = down
		}
	}
	for i := range m.Routes {
		m.follow(&m.Routes[i])
		if r := &m.Routes[i]; r.Verdict == Takes || len(m.Routes) == 1 {
			m.Traffic = r.Traffic
		}
	}
}

// levels finds who takes over for the target of a resolver: of its failover those that clients are told of.
func (m *maker) levels(node *chain.Node) {
	t := m.known[node.Resolver.Target]
	if _, served := m.clusters[t.Cluster]; served {
		t.levels = []level{{t}}
		return
	}
	for i, id := range members(node) {
		if _, served := m.clusters[snapshot.FailoverName(i, t.Cluster)]; !served || m.known[id] == nil {
			continue
		}
		if t.levels = append(t.levels, level{m.known[id]}); i > 0 {
			t.Failover = append(t.Failover, id)
		}
	}
}

// follow fills in where the requests of a route end. Where a target is not known well enough it stays open.
func (m *maker) follow(r *Route) {
	var total []Share
	whole := true
	for i := range r.Legs {
		leg := &r.Legs[i]
		t := m.known[leg.Target]
		if t == nil || t.levels == nil {
			whole = false
			continue
		}
		leg.Traffic = m.spread(t.levels)
		for _, s := range leg.Traffic {
			total = add(total, Share{Target: s.Target, Percent: s.Percent * leg.Percent / 100, Fails: s.Fails})
		}
	}
	if whole {
		r.Traffic = rounded(total)
	}
}

// spread divides requests among the levels of a failover as Envoy does: each takes what the ones before it are
// not healthy enough for, in whole percents.
func (m *maker) spread(levels []level) []Share {
	health := make([]int, len(levels))
	sum := 0
	for i, l := range levels {
		if l.target.Total > 0 && !l.target.Without {
			health[i] = min(100, overprovisioning*l.target.Healthy/l.target.Total)
		}
		sum += health[i]
	}
	if sum = min(sum, 100); sum == 0 {
		return []Share{{Percent: 100, Fails: m.failure()}}
	}
	loads, left := make([]int, len(levels)), 100
	for i, h := range health {
		loads[i] = min(left, 100*h/sum)
		left -= loads[i]
	}
	first := slices.IndexFunc(health, func(h int) bool { return h > 0 })
	loads[first] += left // what is lost by rounding
	var out []Share
	for i, load := range loads {
		if load > 0 {
			out = add(out, Share{Target: levels[i].target.ID, Percent: float64(load)})
		}
	}
	return out
}

// failure is what becomes of requests that no instance can take.
func (m *maker) failure() string {
	if chain.IsLayer7(m.chain.Protocol) {
		return "503: no healthy endpoint"
	}
	return "closed: no healthy endpoint"
}

// add adds a share to those there are.
func add(list []Share, s Share) []Share {
	for i := range list {
		if list[i].Target == s.Target && list[i].Fails == s.Fails {
			list[i].Percent += s.Percent
			return list
		}
	}
	return append(list, s)
}

func rounded(list []Share) []Share {
	for i := range list {
		list[i].Percent = round(list[i].Percent)
	}
	return list
}

// round leaves two decimals, the finest that weights have.
func round(percent float64) float64 { return math.Round(percent*100) / 100 }

// hundredths is a weight as Envoy is sent it.
func hundredths(weight float32) float64 { return max(0, math.Round(float64(weight)*100)) }
