package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Endpoints is the instances of a service, as /api/v1/endpoints prints them.
type Endpoints struct {
	Service    string `json:"service"`
	Datacenter string `json:"datacenter"`
	// State is how well the instances are known: unknown, present, absent or suspect.
	State string `json:"state"`
	// Reason says why the state is unknown.
	Reason    string     `json:"reason,omitempty"`
	Instances []Instance `json:"instances"`
}

// Instance is one instance and what clients are told of it.
type Instance struct {
	ID      string `json:"id"`
	Node    string `json:"node"`
	Address string `json:"address"`
	Port    int    `json:"port"`
	// Health and Weight are what clients that want any usable instance are told.
	Health string            `json:"health"`
	Weight uint32            `json:"weight"`
	Meta   map[string]string `json:"meta,omitempty"`
	Checks []Check           `json:"checks,omitempty"`
}

// Check is one check of an instance.
type Check struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Status string `json:"status"`
}

// askTimeout is how long a question may wait for instances that nobody has needed so far.
const askTimeout = 5 * time.Second

// Asker answers what the instances of a service are. Instances that no client needs are read for the
// question; the source goes on following them for as long as it lets a need linger.
type Asker struct {
	store     *facts.Store
	questions atomic.Uint64 // numbered, so that each has a need of its own
}

// NewAsker returns an asker over a store.
func NewAsker(store *facts.Store) *Asker { return &Asker{store: store} }

// Endpoints describes the instances of a service, waiting for them a few seconds if need be.
func (a *Asker) Endpoints(ctx context.Context, datacenter, service string) (e Endpoints) {
	a.await(ctx, func(v facts.View) []facts.Topic {
		e = Describe(v, datacenter, service)
		return []facts.Topic{facts.Health(datacenter, service)}
	})
	return e
}

// await looks at the facts until all topics that the look needs are known, or a few seconds have passed.
func (a *Asker) await(ctx context.Context, look func(facts.View) (needs []facts.Topic)) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	sub := a.store.Subscribe()
	defer sub.Close()
	who := fmt.Sprintf("question %d", a.questions.Add(1))
	defer a.store.Need(who)
	for {
		view, _ := sub.Drain()
		needs := look(view)
		if !slices.ContainsFunc(needs, func(t facts.Topic) bool { return !view.Known(t) }) {
			return
		}
		a.store.Need(who, needs...)
		select {
		case <-ctx.Done():
			return
		case <-sub.Bell():
		}
	}
}

// Describe tells what the facts say of a service's instances.
func Describe(v facts.View, datacenter, service string) Endpoints {
	topic := facts.Health(datacenter, service)
	list, state := v.Instances(topic)
	e := Endpoints{Service: service, Datacenter: datacenter, State: state.String()}
	if state == facts.Unknown {
		e.Reason = v.Why(facts.ID{Topic: topic})
	}
	verdicts, _ := v.Verdicts(topic)
	for _, in := range list {
		health, weight := snapshot.JudgeBy(in, false, snapshot.VerdictOn(verdicts, in))
		shown := Instance{
			ID: in.Service.ID, Node: in.Node.Node,
			Address: cmp.Or(in.Service.Address, in.Node.Address), Port: in.Service.Port,
			Health: string(health), Weight: weight, Meta: in.Service.Meta,
		}
		for _, c := range in.Checks {
			shown.Checks = append(shown.Checks, Check{ID: c.CheckID, Name: c.Name, Status: string(c.Status)})
		}
		e.Instances = append(e.Instances, shown)
	}
	return e
}
