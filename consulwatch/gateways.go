package consulwatch

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// onlyGateways is the expression for the services that have mesh gateways among their instances.
const onlyGateways = `ServiceKind == "` + string(api.ServiceKindMeshGateway) + `"`

// gateways makes the mesh gateways of a datacenter of the instances of all services that have any: Consul
// knows them by the kind of a service, and their names are whatever the operator likes. It follows the
// names, and needs the instances as anybody may.
type gateways struct {
	to   *sink
	bell chan struct{}

	mu    sync.Mutex
	names []string
	whole bool // the names were confirmed to be all
}

// followGateways is the [follower] of mesh gateways.
func (s *Source) followGateways(ctx context.Context, to *sink) {
	to.gateways = &gateways{to: to, bell: make(chan struct{}, 1)}
	var collecting sync.WaitGroup
	collecting.Go(func() { to.gateways.collect(ctx) })
	s.follow(ctx, to)
	collecting.Wait()
}

// named takes the names of a reading. What is missing from one that is not confirmed stays.
func (g *gateways) named(names []string, confirmed bool) facts.Outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out facts.Outcome
	if !confirmed {
		for _, name := range g.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
				out.Suspects++
			}
		}
		slices.Sort(names)
	}
	out.Changed = !slices.Equal(names, g.names) || confirmed && !g.whole
	g.names, g.whole = names, g.whole || confirmed
	out.Unconfirmed = !g.whole
	ring(g.bell)
	return out
}

// topics returns where the instances are.
func (g *gateways) topics() (list []facts.Topic, whole bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range g.names {
		list = append(list, facts.Health(g.to.topic.Datacenter, name))
	}
	return list, g.whole
}

// collect needs the instances, and commits which of them are gateways whenever that may have changed,
// until ctx ends.
func (g *gateways) collect(ctx context.Context) {
	store, who := g.to.store, g.to.topic.String()
	sub := store.Subscribe()
	defer sub.Close()
	defer store.Need(who)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.bell:
			topics, _ := g.topics()
			store.Need(who, topics...)
			g.commit(store.View())
		case <-sub.Bell():
			topics, _ := g.topics()
			view, changed := sub.Drain()
			if slices.ContainsFunc(changed, func(id facts.ID) bool { return slices.Contains(topics, id.Topic) }) {
				g.commit(view)
			}
		}
	}
}

// commit commits the gateways among the instances, once all of these were asked for.
func (g *gateways) commit(view facts.View) {
	topics, whole := g.topics()
	var list []*facts.Instance
	for _, t := range topics {
		status := view.Topic(t)
		if !status.Read && status.Failure == "" {
			return
		}
		whole = whole && status.Complete
		instances, _ := view.Instances(t)
		for _, in := range instances {
			if in.Service.Kind == string(api.ServiceKindMeshGateway) {
				list = append(list, in)
			}
		}
	}
	// Whether an index may be lower was judged where the instances were read.
	r := facts.Reading{Confirmed: whole, Reset: true}
	g.to.store.Commit(func(tx *facts.Tx) { tx.Instances(g.to.topic, list, r) })
}
