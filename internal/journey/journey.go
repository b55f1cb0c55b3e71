// Package journey says what becomes of a request to a service, and why: the route it takes and why earlier
// ones do not take it, the targets it may go to, the endpoints behind each with their health, and what failover
// does without one of them.
//
// Facts and a question go in, an answer comes out. It is pure, and trusts the planner: what it tells of is what
// a client with that upstream would be served.
package journey

import (
	"fmt"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Question is what is asked.
type Question struct {
	Service string
	// Datacenter is empty for the control plane's own.
	Datacenter string
	// Kind of the client; empty for a plain one.
	Kind snapshot.Kind
	// Request is nil where all routes are asked about.
	Request *explain.Request
	// Without names targets that are taken to have no healthy endpoint: by ID, or by the beginning of one.
	Without []string
}

// Journey is the answer to a [Question].
type Journey struct {
	Service    string
	Datacenter string
	Kind       snapshot.Kind
	Request    *explain.Request `json:",omitempty"`
	// Refused says what becomes of every request where there is no chain to follow.
	Refused string `json:",omitempty"`
	// Pending says what must be known before clients are served; what is known is told all the same.
	Pending string `json:",omitempty"`
	// Problems are those of the entries as they are now. LastGood holds where the chain is older than they are.
	Problems []chain.Problem `json:",omitempty"`
	LastGood bool            `json:",omitempty"`
	// Missing says what is left out, and Notes what is likely a mistake.
	Missing []string `json:",omitempty"`
	Notes   []string `json:",omitempty"`
	// Explanation is how the chain came about; nil without a chain.
	Explanation *explain.Explanation `json:",omitempty"`
	// Routes are in the order in which they are tried; without a router there is one, for any request.
	Routes []Route `json:",omitempty"`
	// Traffic is where the request ends. Without a request, and with several routes, it is each route's own.
	Traffic []Share `json:",omitempty"`
	// Targets are those of the chain, in the order in which a request may meet them.
	Targets []*Target `json:",omitempty"`
}

// Share is a part of the requests.
type Share struct {
	// Target is its ID; empty where no instance gets the requests.
	Target string `json:",omitempty"`
	// Percent is of the requests that are divided: all of them, those of a route, or of a leg.
	Percent float64
	// Fails says what becomes of requests that no instance gets.
	Fails string `json:",omitempty"`
}

// Make answers a question from the facts there are. last is the chain in force where the entries do not compile
// any more; nil for none. needs are the topics that must be followed for the answer to be whole.
func Make(cfg snapshot.Config, view facts.View, q Question, last *chain.Chain) (j Journey, needs []facts.Topic, err error) {
	if q.Kind == "" {
		q.Kind = snapshot.Plain
	}
	p := snapshot.NewPreview(cfg, view, snapshot.UpstreamKey{
		Kind: q.Kind, Upstream: snapshot.Upstream{Service: q.Service, Datacenter: q.Datacenter},
	}, last)
	j = Journey{
		Service: q.Service, Datacenter: p.Key.Datacenter, Kind: q.Kind, Request: q.Request,
		Pending: p.Part.Pending, Problems: p.Chain.Problems, LastGood: p.Chain.LastGood,
		Missing: p.Part.Missing, Notes: p.Part.Notes,
	}
	if p.Chain.Chain == nil {
		j.refuse(p.Chain)
		return j, p.Needs, nil
	}
	req := chain.Request{
		Service: p.Key.Service, Datacenter: p.Key.Datacenter, TrustDomain: cfg.TrustDomain, Overrides: p.Key.Overrides,
	}
	j.Explanation = explain.Explain(req, p.Chain.Chain, view.Read())
	m := newMaker(p, view, &j)
	if err := m.without(q.Without); err != nil {
		return j, p.Needs, err
	}
	m.routes(q.Request)
	m.settle()
	return j, p.Needs, nil
}

// refuse says what becomes of requests without a chain.
func (j *Journey) refuse(state snapshot.ChainState) {
	switch {
	case len(state.Problems) == 0:
		return // what is pending says it
	case chain.IsLayer7(state.Protocol):
		j.Refused = "every request is answered with 503 and the problem's text"
	default:
		j.Refused = "every connection is closed"
	}
}

// maker makes a journey.
type maker struct {
	*Journey
	preview snapshot.Preview
	chain   *chain.Chain
	view    facts.View
	// clusters are the endpoint sets by the names of their clusters, and known the targets by their IDs.
	clusters map[string]snapshot.EndpointSetKey
	known    map[string]*Target
}

func newMaker(p snapshot.Preview, view facts.View, j *Journey) *maker {
	m := &maker{
		Journey: j, preview: p, chain: p.Chain.Chain, view: view,
		clusters: map[string]snapshot.EndpointSetKey{}, known: map[string]*Target{},
	}
	for _, ref := range p.Part.Resources {
		if k, ok := ref.Key.(snapshot.EndpointSetKey); ok {
			m.clusters[ref.Name] = k
		}
	}
	m.targets(j.Explanation.Start)
	return m
}

// without marks the targets that are taken to be down.
func (m *maker) without(names []string) error {
	for _, name := range names {
		found := slices.DeleteFunc(slices.Clone(m.Targets), func(t *Target) bool { return !t.named(name) })
		if len(found) != 1 {
			return &UnknownTargetError{Name: name, Matches: ids(found), Targets: ids(m.Targets)}
		}
		found[0].Without = true
	}
	return nil
}

// UnknownTargetError is that a question names no target of the chain, or more than one.
type UnknownTargetError struct {
	Name             string
	Matches, Targets []string
}

// Error implements error.
func (e *UnknownTargetError) Error() string {
	if len(e.Matches) > 0 {
		return fmt.Sprintf("%q may be any of the targets %s: name one", e.Name, strings.Join(e.Matches, ", "))
	}
	return fmt.Sprintf("there is no target %q; those of the chain are %s", e.Name, strings.Join(e.Targets, ", "))
}

func ids(list []*Target) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = t.ID
	}
	return out
}
