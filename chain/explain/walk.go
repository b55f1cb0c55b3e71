package explain

import (
	"fmt"
	"strconv"

	"github.com/catenary-mesh/catenary/chain"
)

// arrive explains the node of a key, which a request reaches by way of a place.
func (w *walker) arrive(key string, p place) *Step {
	node := w.chain.Nodes[key]
	if node == nil {
		return &Step{Kind: KindTarget, Name: key}
	}
	switch node.Type {
	case chain.NodeRouter:
		return w.router(node)
	case chain.NodeSplitter:
		return w.splitter(node, p)
	}
	return w.resolver(node, p)
}

func (w *walker) router(node *chain.Node) *Step {
	entry := lookup[*chain.ServiceRouter](w.entries, chain.KindServiceRouter, w.chain.ServiceName)
	step := &Step{Kind: KindRouter, Name: w.chain.ServiceName, From: source(entry)}
	for i, r := range node.Routes {
		next := w.arrive(r.NextNode, w.destination(r.Definition))
		next.Via = fmt.Sprintf("route %d: %s", i+1, Match(r.Definition))
		if i == len(node.Routes)-1 {
			next.Via = "otherwise"
		}
		if r.Definition != nil {
			next.Facts = append(routeFacts(r.Definition.Destination), next.Facts...)
		}
		step.Next = append(step.Next, next)
	}
	return step
}

// destination is where a route leads to, before redirects.
func (w *walker) destination(r *chain.ServiceRoute) place {
	p := w.start()
	if r == nil || r.Destination == nil {
		return p
	}
	d := r.Destination
	return w.moved(p, place{service: d.Service, subset: d.ServiceSubset, namespace: d.Namespace, partition: d.Partition})
}

// splitter explains a splitter node. Its legs are those of all splitters below it, in order: the
// entries tell which leg is whose.
func (w *walker) splitter(node *chain.Node, p place) *Step {
	step, again := w.first(KindSplitter, p.service, p.service)
	entry := w.splitterOf(p)
	step.From = source(entry)
	if again {
		return step
	}
	if node.LoadBalancer != nil {
		step.Facts = append(step.Facts, Fact{What: "load balancer " + node.LoadBalancer.Policy})
	}
	l := &legs{walker: w, left: node.Splits}
	if entry != nil && l.follow(step, entry, false) && len(l.left) == 0 {
		return step
	}
	// The entries are not those of the chain: say what the chain has.
	step.Next = nil
	for _, s := range node.Splits {
		next := w.arrive(s.NextNode, place{})
		next.Via = percent(s.Weight)
		step.Next = append(step.Next, next)
	}
	return step
}

// splitterOf is the splitter that traffic to a place goes through first, if any.
func (w *walker) splitterOf(p place) *chain.ServiceSplitter {
	if p.subset != "" {
		return nil
	}
	return lookup[*chain.ServiceSplitter](w.entries, chain.KindServiceSplitter, p.service)
}

// legs hands out the legs of a compiled splitter.
type legs struct {
	*walker
	left []*chain.Split
}

// follow adds the legs of an entry to its step. It reports whether the compiled legs suffice for that.
func (l *legs) follow(step *Step, entry *chain.ServiceSplitter, nested bool) bool {
	for i := range entry.Splits {
		leg := &entry.Splits[i]
		to := l.local(step.Name, leg.ServiceSubset)
		if leg.Service != "" {
			to.service = leg.Service
		}
		var next *Step
		if below := l.splitterOf(to); below != nil && to.service != step.Name {
			next = &Step{Kind: KindSplitter, Name: to.service, From: source(below)}
			if !l.follow(next, below, true) {
				return false
			}
		} else if len(l.left) == 0 {
			return false
		} else {
			next = l.arrive(l.left[0].NextNode, to)
			if nested {
				next.Share = percent(l.left[0].Weight)
			}
			l.left = l.left[1:]
		}
		next.Via = percent(leg.Weight)
		next.Facts = append(Headers(leg.RequestHeaders, leg.ResponseHeaders), next.Facts...)
		step.Next = append(step.Next, next)
	}
	return true
}

// resolver explains the way from a place to the target of a resolver node, and that.
func (w *walker) resolver(node *chain.Node, p place) *Step {
	target := w.chain.Targets[node.Resolver.Target]
	return w.follow(KindTarget, p, target, func() *Step {
		step, again := w.first(KindTarget, target.ID, target.ID)
		r := w.service(target.Service).resolver
		step.From = source(r)
		if again {
			return step
		}
		step.Facts = w.targetFacts(target, node)
		if f := node.Resolver.Failover; f != nil {
			w.failover(step, target, f)
		}
		return step
	})
}

// failover adds the targets of a failover to the step of the one they stand in for.
func (w *walker) failover(step *Step, t *chain.Target, f *chain.ResolverFailover) {
	var places []place
	if r := w.service(t.Service).resolver; r != nil {
		places = w.failoverPlaces(t, r)
	}
	for i, id := range f.Targets {
		target := w.chain.Targets[id]
		p := of(target)
		if len(places) == len(f.Targets) {
			p = places[i]
		}
		next := w.follow(KindFailover, p, target, func() *Step {
			last, again := w.first(KindFailover, target.ID, target.ID)
			last.From = source(w.service(target.Service).resolver)
			if !again {
				last.Facts = w.targetFacts(target, nil)
			}
			return last
		})
		next.Via = "failover " + strconv.Itoa(i+1)
		step.Next = append(step.Next, next)
	}
	if f.Policy != nil {
		step.Facts = append(step.Facts, w.policyFact(f.Policy))
	}
}

// follow makes the steps from a place to a target, and the last one with end.
func (w *walker) follow(kind string, p place, target *chain.Target, end func() *Step) *Step {
	var first, last *Step
	next := func(s *Step) {
		if first == nil {
			first = s
		} else {
			last.Next = []*Step{s}
		}
		last = s
	}
	via := ""
	for _, h := range w.hops(p, target.ID) {
		step, again := w.first(KindRedirect, h.at.id(), kind+" "+h.at.id())
		step.Via, step.From = via, source(w.service(h.at.service).resolver)
		next(step)
		if again {
			return first
		}
		via = h.by
	}
	step := end()
	step.Via = via
	next(step)
	return first
}

// first makes a step, and reports whether one of that kind and key is explained already.
func (w *walker) first(kind, name, key string) (*Step, bool) {
	key = kind + " " + key
	again := w.seen[key]
	w.seen[key] = true
	return &Step{Kind: kind, Name: name, Again: again}, again
}
