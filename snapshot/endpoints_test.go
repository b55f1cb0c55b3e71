package snapshot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-bexpr/grammar"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// setOf is the endpoint set of instances, with a key that says what else it depends on.
func setOf(key EndpointSetKey, list ...*facts.Instance) EndpointSet {
	store := facts.New()
	key.Topic = facts.Health("dc1", "api")
	for i, in := range list {
		in.Service.ID = fmt.Sprintf("api-%d", i)
	}
	store.Commit(func(tx *facts.Tx) { tx.Instances(key.Topic, list, facts.Reading{Confirmed: true}) })
	return key.endpoints(store.View().Read())
}

func at(address string, port int, edit ...func(*facts.Instance)) *facts.Instance {
	in := &facts.Instance{
		Node:    facts.Node{Node: "n", Address: "10.9.9.9"},
		Service: facts.Service{Service: "api", Address: address, Port: port},
	}
	for _, f := range edit {
		f(in)
	}
	return in
}

func status(s facts.CheckStatus) func(*facts.Instance) {
	return func(in *facts.Instance) { in.Checks = []facts.Check{{CheckID: "c", Status: s}} }
}

func weight(n int) func(*facts.Instance) {
	return func(in *facts.Instance) { in.Service.Weights = facts.Weights{Passing: n, Warning: n} }
}

func addresses(set EndpointSet) []string {
	var list []string
	for _, e := range set.Endpoints {
		list = append(list, fmt.Sprintf("%s|%d", e.Address, e.Port))
	}
	return list
}

func TestOfOneAddressTwiceTheHealthyOneWithTheHighestWeightStays(t *testing.T) {
	set := setOf(EndpointSetKey{},
		at("10.0.0.1", 80, status("critical"), weight(100)), at("10.0.0.1", 80, weight(3)),
		at("10.0.0.1", 80, weight(7)), at("10.0.0.1", 81))
	if got := addresses(set); !slices.Equal(got, []string{"10.0.0.1|80", "10.0.0.1|81"}) {
		t.Fatalf("%v", got)
	}
	if e := set.Endpoints[0]; e.Health != Healthy || e.Weight != 7 {
		t.Errorf("%+v stays", e)
	}
}

func TestTheOrderIsThatOfTheAddressesAsText(t *testing.T) {
	want := []string{
		"10.0.0.1|80", "10.0.0.1|443", "10.0.0.10|80", "10.0.0.2|80", "2001:db8:0:1:2:3:4:10|80",
		"2001:db8:0:1:2:3:4:5|80", "2001:db8:0:1:2:3:4:6|80", "2001:db8::1|80", "255.255.255.255|80", "::1|80",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		var list []*facts.Instance
		for _, i := range random.Perm(len(want)) {
			address, port, _ := strings.Cut(want[i], "|")
			n := 80
			if port == "443" {
				n = 443
			}
			list = append(list, at(address, n))
		}
		if got := addresses(setOf(EndpointSetKey{}, list...)); !slices.Equal(got, want) {
			t.Fatalf("%v", got)
		}
	}
}

func TestWhatEnvoyCannotDialIsSkippedWithAReason(t *testing.T) {
	for _, c := range []struct {
		address string
		port    int
		ok      bool
	}{
		{"10.0.0.1", 80, true},
		{"10.0.0.1", 65535, true},
		{"2001:db8::1", 80, true},
		{"::ffff:10.0.0.1", 80, true},
		{"", 80, true}, // the node's
		{"10.0.0.1", 0, false},
		{"10.0.0.1", -1, false},
		{"10.0.0.1", 65536, false},
		{"api.example.com", 80, false},
		{"10.0.0", 80, false},
		{"010.0.0.1", 80, false},
		{"[::1]", 80, false},
		{"fe80::1%eth0", 80, false},
		{"10.0.0.1 ", 80, false},
	} {
		set := setOf(EndpointSetKey{}, at(c.address, c.port), at("10.0.0.2", 80))
		if got := len(set.Endpoints) == 2; got != c.ok || len(set.Skipped) > 0 == c.ok {
			t.Errorf("%q port %d: endpoints %v, skipped %q", c.address, c.port, set.Endpoints, set.Skipped)
		}
		if want := fmt.Sprintf("api-0 on n: %q", fmt.Sprintf("%s:%d", c.address, c.port)); !c.ok && !strings.HasPrefix(set.Skipped[0], want) {
			t.Errorf("skipped %q, want it to begin with %s", set.Skipped, want)
		}
	}
}

func TestThatManyAreSkippedIsSaidInFewWords(t *testing.T) {
	var list []*facts.Instance
	for i := range 1000 {
		list = append(list, at(fmt.Sprintf("host-%d", i), 80))
	}
	set := setOf(EndpointSetKey{}, list...)
	if n := len(set.Skipped); n != maxSkipped+1 || set.Skipped[maxSkipped] != "990 more" {
		t.Errorf("%d reasons: %q", n, set.Skipped)
	}
}

func TestSetsAreEqualByContent(t *testing.T) {
	make := func(edit ...func(*facts.Instance)) EndpointSet {
		return setOf(EndpointSetKey{}, at("10.0.0.1", 80, edit...), at("host", 80))
	}
	set := make()
	if !set.Equal(make()) {
		t.Error("two sets of the same instances differ")
	}
	zone := func(in *facts.Instance) { in.Node.Locality = &facts.Locality{Region: "eu", Zone: "a"} }
	for name, other := range map[string]EndpointSet{
		"weight": make(weight(2)), "health": make(status("critical")), "zone": make(zone), "skipped": setOf(EndpointSetKey{}, at("10.0.0.1", 80)),
	} {
		if set.Equal(other) || other.Equal(set) {
			t.Errorf("sets that differ in %s are equal", name)
		}
	}
}

func TestMakingASetTakesNoAllocationForEachInstance(t *testing.T) {
	store, topic := registered(1000)
	for name, filter := range map[string]string{"all": "", "a subset": `Service.Meta.version == "v1"`} {
		key, parse := EndpointSetKey{Topic: topic, Filter: filter}, 0.0
		if filter != "" {
			parse = testing.AllocsPerRun(10, func() {
				if _, err := grammar.Parse("", []byte(filter)); err != nil {
					t.Fatal(err)
				}
			})
		}
		if n := testing.AllocsPerRun(10, func() { key.endpoints(store.View().Read()) }) - parse; n > 50 {
			t.Errorf("%s of 1000 instances: %.0f allocations", name, n)
		}
	}
}
