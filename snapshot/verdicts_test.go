package snapshot_test

import (
	"net/netip"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

func (f *fleet) verdicts(service string, v facts.Verdicts) {
	f.store.Commit(func(tx *facts.Tx) { tx.Verdicts(facts.VerdictsOf("dc1", service), v) })
}

func (f *fleet) await(a facts.Awaiting) {
	f.store.Commit(func(tx *facts.Tx) { tx.Await(a) })
}

var secondDown = facts.Verdicts{netip.MustParseAddrPort("127.0.0.1:8002"): {}}

// health is that of the endpoints that an update changed, in order; nil when it changed none.
func health(d snapshot.Delta) []snapshot.Health {
	var list []snapshot.Health
	for _, p := range d.Products {
		if set, ok := p.(snapshot.EndpointSet); ok {
			for _, e := range set.Endpoints {
				list = append(list, e.Health)
			}
		}
	}
	return list
}

func TestAVerdictRemakesOneSetAndRunsNoPlan(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api", "db")
	for _, s := range []string{"api", "db"} {
		f.instances(facts.Health("dc1", s), confirmed,
			instance(s, s+"-v1", 8001, facts.StatusPassing), instance(s, s+"-v2", 8002, facts.StatusPassing))
	}
	f.put(client("p", "api", "db"))
	f.update()
	before := f.cache.Counts()
	f.verdicts("api", secondDown)
	d := f.update()
	if got := health(d); len(got) != 2 || got[0] != snapshot.Healthy || got[1] != snapshot.Unhealthy {
		t.Errorf("the set is %v", got)
	}
	f.verdicts("db", facts.Verdicts{netip.MustParseAddrPort("127.0.0.1:8001"): {Up: true}})
	if d := f.update(); len(d.Products) != 0 {
		t.Errorf("a verdict that says what was served changed %v", d.Products)
	}
	after := f.cache.Counts()
	if after.Plans != before.Plans || after.Parts != before.Parts || after.Chains != before.Chains {
		t.Errorf("verdicts ran plans: %+v, before %+v", after, before)
	}
	if made := after.Products[snapshot.ProductEndpoints] - before.Products[snapshot.ProductEndpoints]; made != 2 {
		t.Errorf("two verdicts made %d sets", made)
	}
}

func TestWhatIsProbedWaitsForVerdictsAtAStart(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api", "db")
	f.await(facts.Awaiting{Datacenter: "dc1"})
	f.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "api", Meta: map[string]string{"hds-protocol": "tcp"}}})
	for _, s := range []string{"api", "db"} {
		f.instances(facts.Health("dc1", s), confirmed,
			instance(s, s+"-v1", 8001, facts.StatusPassing), instance(s, s+"-v2", 8002, facts.StatusPassing))
	}
	f.update()
	if got := health(f.put(client("p", "api", "db"))); len(got) != 2 {
		t.Errorf("sets of %d endpoints are served, want only the two that are not probed", len(got))
	}
	f.verdicts("api", secondDown)
	if got := health(f.update()); len(got) != 2 || got[1] != snapshot.Unhealthy {
		t.Errorf("after the verdict the set is %v", got)
	}
}

func TestWhatIsProbedWaitsNoLongerThanItIsToldTo(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.await(facts.Awaiting{Datacenter: "dc1", All: true})
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.update()
	if got := health(f.put(client("p", "api"))); got != nil {
		t.Errorf("the set is served at once: %v", got)
	}
	f.await(facts.Awaiting{})
	if got := health(f.update()); len(got) != 1 || got[0] != snapshot.Healthy {
		t.Errorf("in the end the set is %v", got)
	}
}

func TestWhatNobodyProbesIsNotMadeAgainWhenNothingIsAwaitedAnyMore(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api")
	f.await(facts.Awaiting{Datacenter: "dc1"})
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.put(client("p", "api"))
	f.update()
	before := f.cache.Counts().Products[snapshot.ProductEndpoints]
	f.await(facts.Awaiting{})
	f.update()
	if made := f.cache.Counts().Products[snapshot.ProductEndpoints] - before; made != 0 {
		t.Errorf("%d sets were made again", made)
	}
}
