package snapshot_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// splitting is a fleet in which api is a and b, and b fails over to c. None of their instances is read.
func splitting(t *testing.T) *fleet {
	f := loaded(t, snapshot.Config{}, "api", "a", "b", "c")
	var defaults []chain.Entry
	for _, name := range []string{"api", "a", "b", "c"} {
		defaults = append(defaults, &chain.ServiceDefaults{Header: chain.Header{Name: name}, Protocol: "http"})
	}
	f.entries(chain.KindServiceDefaults, defaults...)
	f.entries(chain.KindServiceSplitter, &chain.ServiceSplitter{
		Header: chain.Header{Name: "api"}, Splits: []chain.ServiceSplit{{Weight: 50, Service: "a"}, {Weight: 50, Service: "b"}},
	})
	f.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "b"}, Failover: map[string]chain.Failover{"*": {Service: "c"}},
	})
	return f
}

func TestAllThatAChainLacksIsNeededAtOnce(t *testing.T) {
	f := splitting(t)
	plan := f.put(client("p1", "api")).Plans["p1"]
	for _, s := range []string{"a", "b", "c"} {
		if !slices.Contains(plan.Needs, facts.Health("dc1", s)) {
			t.Errorf("%s is not needed: %v", s, plan.Needs)
		}
	}
	if plan.Hold == "" || len(plan.Resources()) > 0 {
		t.Errorf("a client that waits gets %v, hold %q", names(plan), plan.Hold)
	}

	reader := client("p2", "api")
	reader.Reader = "r1"
	may := func(services ...string) {
		f.store.Commit(func(tx *facts.Tx) {
			for _, s := range services {
				tx.Right(facts.Rights("r1", s), true)
			}
		})
		f.update()
	}
	f.put(reader)
	may("api")
	for _, s := range []string{"a", "b", "c"} {
		if needs := f.cache.Plan("p2").Needs; !slices.Contains(needs, facts.Rights("r1", s)) {
			t.Errorf("whether %s may be read is not needed: %v", s, needs)
		}
	}
}

func TestATargetThatMustNotBeReadIsTakenAwayWhateverElseIsNotKnown(t *testing.T) {
	f := splitting(t)
	for _, s := range []string{"a", "b", "c"} {
		f.instances(facts.Health("dc1", s), confirmed, instance(s, s+"-v1", 8001, facts.StatusPassing))
	}
	reader := client("p1", "api")
	reader.Reader = "r1"
	f.put(reader)
	f.store.Commit(func(tx *facts.Tx) {
		for _, s := range []string{"api", "a", "b", "c"} {
			tx.Right(facts.Rights("r1", s), true)
		}
	})
	f.update()
	if plan := f.cache.Plan("p1"); !plan.Complete() || len(plan.Resources()) == 0 {
		t.Fatalf("gets %v, complete %v", names(plan), plan.Complete())
	}
	f.store.Commit(func(tx *facts.Tx) {
		tx.ForgetRight(facts.Rights("r1", "a"), "nobody says")
		tx.Right(facts.Rights("r1", "b"), false)
	})
	f.update()
	plan := f.cache.Plan("p1")
	if !plan.Complete() || len(plan.Resources()) > 0 || !strings.Contains(plan.Parts[0].Missing[0], `service:read on "b"`) {
		t.Errorf("still gets %v, pending %q, missing %q", names(plan), plan.Parts[0].Pending, plan.Parts[0].Missing)
	}
}

func TestClientsThatWaitForTheSameShareASelectionUnlessOneHadSomething(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api", "db")
	f.instances(facts.Health("dc1", "api"), confirmed, instance("api", "api-v1", 8001, facts.StatusPassing))
	f.put(client("p1", "api", "db"))
	f.put(client("p2", "api", "db"))
	if f.cache.Plan("p1").Selection != f.cache.Plan("p2").Selection {
		t.Error("clients that had nothing of what is pending have selections of their own")
	}
	f.instances(facts.Health("dc1", "db"), confirmed, instance("db", "db-v1", 8002, facts.StatusPassing))
	f.update()
	had := names(f.cache.Plan("p1"))
	limit := 7
	f.store.Commit(func(tx *facts.Tx) { // db is another upstream from now on, and not known
		tx.Forget(facts.Health("dc1", "db"))
		tx.Entries(chain.KindServiceDefaults, []chain.Entry{&chain.ServiceDefaults{
			Header: chain.Header{Name: "web"},
			UpstreamConfig: &chain.UpstreamConfiguration{Overrides: []*chain.UpstreamConfig{{
				Name: "db", Limits: &chain.UpstreamLimits{MaxConnections: &limit},
			}}},
		}}, confirmed)
	})
	f.update()
	late := f.put(client("p3", "api", "db")).Plans["p3"]
	f.put(client("p4", "api", "db"))
	if got := names(f.cache.Plan("p1")); !slices.Equal(got, had) {
		t.Errorf("a client that had %q has %q", had, got)
	}
	if len(late.Resources()) >= len(had) || f.cache.Plan("p4").Selection != late.Selection {
		t.Errorf("clients that come now get %q, and selections of their own", names(late))
	}
}

// TestAnUpstreamWithoutAnAddressOfItsOwnHoldsNothingUp: it is a mistake, and nothing to wait for. While a
// plan waits nothing is taken away, and a client of the state of the world that comes back is told nothing.
func TestAnUpstreamWithoutAnAddressOfItsOwnHoldsNothingUp(t *testing.T) {
	f := loaded(t, snapshot.Config{}, "api", "db")
	for _, s := range []string{"api", "db"} {
		f.instances(facts.Health("dc1", s), confirmed, instance(s, s+"-v1", 8001, facts.StatusPassing))
	}
	c := client("p1", "api", "db")
	c.Upstreams[1].BindPort = c.Upstreams[0].BindPort
	plan := f.put(c).Plans["p1"]
	if list := plan.Parts[1].Missing; len(list) != 1 || !strings.Contains(list[0], "already the address of upstream api") {
		t.Errorf("missing is %q", list)
	}
	if got := names(plan); !plan.Complete() || len(got) != 3 {
		t.Errorf("gets %q, complete %v", got, plan.Complete())
	}
}
