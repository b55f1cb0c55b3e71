package journey

import (
	"fmt"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
)

// Route is one way that requests can take from the start of the chain.
type Route struct {
	// Number counts from 1; 0 is for the one way of a chain without a router.
	Number int `json:",omitempty"`
	// Match says in words which requests it takes.
	Match string
	// Verdict is what it does with the request: one of the constants below; empty where there is no request.
	Verdict string `json:",omitempty"`
	// Why says what of the match does not hold.
	Why []string `json:",omitempty"`
	// Facts are what it does to the requests that it sends on.
	Facts []explain.Fact `json:",omitempty"`
	// Arrives is the path that the instance sees where it is another than that of the request.
	Arrives string `json:",omitempty"`
	// Legs are where it leads: one, or those of a splitter. Traffic is what that comes to after failover. Both
	// are left out of routes that do not take the request.
	Legs    []Leg   `json:",omitempty"`
	Traffic []Share `json:",omitempty"`
}

// The verdicts of a route about a request.
const (
	Takes      = "takes"
	Refuses    = "refuses"
	NotReached = "not reached"
)

// Leg is one way from a route.
type Leg struct {
	// Target is the ID of its target, which may fail over.
	Target string
	// Percent is its share of the route's requests.
	Percent float64
	// Facts are the headers that it changes.
	Facts []explain.Fact `json:",omitempty"`
	// Traffic is where its requests end.
	Traffic []Share `json:",omitempty"`
}

// routes tells of all routes, what they do with a request if there is one.
func (m *maker) routes(r *explain.Request) {
	start := m.chain.Nodes[m.chain.StartNode]
	if !chain.IsLayer7(m.chain.Protocol) {
		if r != nil {
			m.Notes = append(m.Notes, "the protocol is "+m.chain.Protocol+": connections are forwarded whole, and nothing looks at requests")
		}
		m.Routes = []Route{{Match: "any connection", Legs: m.legs(start)}}
		return
	}
	if start.Type != chain.NodeRouter {
		m.Routes = []Route{{Match: "any request", Legs: m.legs(start)}}
		if r != nil {
			m.Routes[0].Verdict = Takes
		}
		return
	}
	taken := 0
	for i, route := range start.Routes {
		out := m.route(i+1, route, r, taken > 0)
		if i == len(start.Routes)-1 {
			out.Match = "otherwise" // the compiler adds it
		}
		if out.Verdict == Takes {
			taken = out.Number
		}
		m.Routes = append(m.Routes, out)
	}
	if r != nil {
		m.noteOlder(start, r.Joined(), taken)
	}
}

// noteOlder says where an older Envoy takes another route.
func (m *maker) noteOlder(start *chain.Node, joined explain.Request, taken int) {
	for i, route := range start.Routes {
		if len(joined.Refuses(route.Definition)) > 0 {
			continue
		}
		if i+1 != taken {
			m.Notes = append(m.Notes, fmt.Sprintf("Envoy before 1.39 joins the values of a header that repeats by commas: there route %d takes the request", i+1))
		}
		return
	}
}

func (m *maker) route(number int, route *chain.Route, r *explain.Request, taken bool) Route {
	out := Route{Number: number, Match: explain.Match(route.Definition)}
	switch {
	case r == nil:
	case taken:
		out.Verdict = NotReached
		return out
	default:
		out.Verdict = Takes
		if out.Why = r.Refuses(route.Definition); len(out.Why) > 0 {
			out.Verdict = Refuses
			return out
		}
		if path := r.Arrives(route.Definition); path != r.Path {
			out.Arrives = path
		}
	}
	out.Facts = explain.Does(route.Definition)
	out.Legs = m.legs(m.chain.Nodes[route.NextNode])
	return out
}

// legs are the ways from a splitter, or the one to a resolver's target.
func (m *maker) legs(node *chain.Node) []Leg {
	switch {
	case node == nil:
		return nil
	case node.Resolver != nil:
		return []Leg{{Target: node.Resolver.Target, Percent: 100}}
	}
	sum := 0.0
	for _, s := range node.Splits {
		sum += hundredths(s.Weight)
	}
	var list []Leg
	for _, s := range node.Splits {
		next := m.chain.Nodes[s.NextNode]
		if next == nil || next.Resolver == nil || sum == 0 {
			continue
		}
		leg := Leg{Target: next.Resolver.Target, Percent: round(100 * hundredths(s.Weight) / sum)}
		if d := s.Definition; d != nil {
			leg.Facts = explain.Headers(d.RequestHeaders, d.ResponseHeaders)
		}
		list = append(list, leg)
	}
	return list
}
