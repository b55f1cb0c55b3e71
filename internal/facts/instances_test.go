package facts_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestOneInstanceIsPutAndRemovedAmongOthers(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n2", "b", 1, "passing"), row("N1", "b", 1, "passing"))
	before := s.View()
	change := func(f func(tx *facts.Tx)) { t.Helper(); s.Commit(f) }
	change(func(tx *facts.Tx) {
		tx.PutInstance(topic, row("n3", "a", 2, "passing"))
		tx.PutInstance(topic, row("n1", "a", 2, "passing"))
		tx.PutInstance(topic, row("n1", "B", 2, "critical"))
		tx.RemoveInstance(topic, "N3", "A", 2)
	})
	want(t, s, facts.Present, "n1/a/passing", "n1/B/critical", "n2/b/passing")
	if list, _ := before.Instances(topic); len(list) != 2 || list[0].Node.Node != "N1" || list[1].Node.Node != "n2" {
		t.Error("a view changed under its reader")
	}
	change(func(tx *facts.Tx) {
		if tx.RemoveInstance(topic, "n1", "b", 1) {
			t.Error("an instance was removed by what happened before it")
		}
		if tx.PutInstance(topic, row("n1", "a", 3, "passing")) {
			t.Error("an index alone is a change")
		}
	})
	want(t, s, facts.Present, "n1/a/passing", "n1/B/critical", "n2/b/passing")
}

func TestAnInstanceThatComesAgainIsNoLongerSuspect(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"), row("n2", "b", 1, "passing"))
	put(s, doubtful)
	want(t, s, facts.Suspect, "n1/a/passing", "n2/b/passing")
	s.Commit(func(tx *facts.Tx) {
		tx.PutInstance(topic, row("n0", "c", 1, "passing"))
		tx.RemoveInstance(topic, "n0", "c", 1)
	})
	want(t, s, facts.Suspect, "n1/a/passing", "n2/b/passing")
	s.Commit(func(tx *facts.Tx) { tx.PutInstance(topic, row("n1", "a", 1, "passing")) })
	want(t, s, facts.Present, "n1/a/passing", "n2/b/passing")
	if out := put(s, doubtful, row("n1", "a", 1, "passing"), row("n2", "b", 1, "passing")); out.Suspects != 0 || out.Changed {
		t.Errorf("%+v", out)
	}
	want(t, s, facts.Present, "n1/a/passing", "n2/b/passing")
}

func TestWhatIsReadAgainUnchangedStaysOne(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"), row("n2", "b", 1, "passing"))
	first, _ := s.View().Instances(topic)
	put(s, confirmed, row("n1", "a", 1, "passing"), row("n2", "b", 2, "critical"))
	second, _ := s.View().Instances(topic)
	if first[0] != second[0] || first[1] == second[1] {
		t.Error("the instance that is as it was is another, or the one that changed is the same")
	}
}

func TestOfTwoRowsWithOneKeyTheLatterCounts(t *testing.T) {
	s := facts.New()
	put(s, confirmed, row("n1", "a", 1, "passing"), row("N1", "a", 2, "critical"))
	want(t, s, facts.Present, "N1/a/critical")
}

// full is an instance whose every field is set.
func full() *facts.Instance {
	at := &facts.Locality{Region: "eu", Zone: "a"}
	return &facts.Instance{
		Node: facts.Node{
			ID: "1", Node: "n", Address: "10.0.0.1", Datacenter: "dc1", Locality: at, ModifyIndex: 1,
			TaggedAddresses: map[string]string{"wan": "a"}, Meta: map[string]string{"a": "b"},
		},
		Service: facts.Service{
			Kind: "connect-proxy", ID: "a", Service: "api", Tags: []string{"v1"}, Address: "10.0.0.1", Port: 1,
			TaggedAddresses: map[string]facts.Address{"wan": {Address: "a", Port: 1}}, Meta: map[string]string{"a": "b"},
			Weights: facts.Weights{Passing: 1, Warning: 1}, EnableTagOverride: true, ModifyIndex: 1,
			Proxy:   &facts.Proxy{DestinationServiceName: "api", Upstreams: []facts.Upstream{{DestinationName: "db"}}},
			Connect: facts.Native{Native: true}, Locality: at,
		},
		Checks: []facts.Check{{
			Node: "n", CheckID: "c", Name: "c", Status: "passing", Notes: "n", ServiceID: "a", ServiceName: "api",
			ServiceTags: []string{"v1"}, Type: "http", ModifyIndex: 1,
			Definition: &facts.CheckDefinition{HTTP: "http://127.0.0.1/"},
		}},
	}
}

func TestEveryFieldOfAnInstanceIsContentButIndexes(t *testing.T) {
	for name, part := range map[string]func(*facts.Instance) reflect.Value{
		"Node":    func(in *facts.Instance) reflect.Value { return reflect.ValueOf(&in.Node).Elem() },
		"Service": func(in *facts.Instance) reflect.Value { return reflect.ValueOf(&in.Service).Elem() },
		"Check":   func(in *facts.Instance) reflect.Value { return reflect.ValueOf(&in.Checks[0]).Elem() },
	} {
		fields := part(full())
		for i := range fields.NumField() {
			field := fields.Type().Field(i).Name
			if fields.Field(i).IsZero() {
				t.Fatalf("%s.%s is not set in the test's instance", name, field)
			}
			s := facts.New()
			put(s, confirmed, full())
			other := full()
			part(other).Field(i).SetZero()
			if out := put(s, facts.Reading{Confirmed: true, Reset: true}, other); out.Changed != (field != "ModifyIndex") {
				t.Errorf("without its %s.%s an instance is changed: %t", name, field, out.Changed)
			}
		}
	}
}

func many(n int) []*facts.Instance {
	list := make([]*facts.Instance, n)
	for i := range list {
		list[i] = full()
		list[i].Node.Node, list[i].Service.ID = fmt.Sprintf("node-%d", i), fmt.Sprintf("api-%d", i)
		list[i].Service.Proxy = nil
		list[i].Checks = append(list[i].Checks, facts.Check{CheckID: "serfHealth", Status: "passing"})
	}
	return list
}

func BenchmarkFlip(b *testing.B) {
	const n = 10_000
	s := facts.New()
	put(s, confirmed, many(n)...)
	index := uint64(1)
	statuses := []facts.CheckStatus{"critical", "passing"}
	for name, commit := range map[string]func(*facts.Instance){
		"one":     func(in *facts.Instance) { s.Commit(func(tx *facts.Tx) { tx.PutInstance(topic, in) }) },
		"reading": nil,
	} {
		b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
			b.ReportAllocs()
			list := many(n)
			for b.Loop() {
				index++
				in := *list[5]
				in.Checks = slices.Clone(in.Checks)
				in.Checks[0].Status, in.Checks[0].ModifyIndex = statuses[index%2], index
				list[5] = &in
				if commit != nil {
					commit(&in)
				} else {
					put(s, confirmed, list...)
				}
			}
		})
	}
}
