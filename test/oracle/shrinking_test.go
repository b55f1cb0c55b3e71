package oracle_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/catenary-mesh/catenary/chain"
)

func TestShrinkingKeepsWhatMatters(t *testing.T) {
	big := trial{
		docs: []object{
			{"Kind": "service-defaults", "Name": "a", "Protocol": "http"},
			{"Kind": "service-resolver", "Name": "a", "ConnectTimeout": "1s", "Subsets": object{"v1": object{}, "v2": object{"OnlyPassing": true}}},
			{"Kind": "service-resolver", "Name": "b"},
			{"Kind": "service-router", "Name": "a", "Routes": []object{{}, {"Match": object{"HTTP": object{"PathExact": "/x", "Methods": []string{"GET", "PUT"}}}}}},
		},
		question: &question{Service: "a", Datacenter: "dc2", Overrides: chain.Overrides{Protocol: "tcp", MeshGateway: "local"}},
	}
	s := &shrinker{tries: 1000, fails: func(t trial) bool {
		text := string(compact(t.docs))
		return strings.Contains(text, "v2") && strings.Contains(text, "PUT") && t.question.Overrides.MeshGateway != ""
	}}
	got := s.shrink(big)
	want := []any{
		map[string]any{"Kind": "service-resolver", "Name": "a", "Subsets": map[string]any{"v2": map[string]any{}}},
		map[string]any{"Kind": "service-router", "Name": "a", "Routes": []any{map[string]any{"Match": map[string]any{"HTTP": map[string]any{"Methods": []any{"PUT"}}}}}},
	}
	if diff := cmp.Diff(lines([]object{want[0].(object), want[1].(object)}), lines(got.docs)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if q := *got.question; q != (question{Service: "a", Overrides: chain.Overrides{MeshGateway: "local"}}) {
		t.Errorf("the question is %+v", q)
	}
}

func TestShrinkingEnds(t *testing.T) {
	tries := 0
	s := &shrinker{tries: 50, fails: func(trial) bool { tries++; return tries%2 == 0 }}
	g := newGenerator(1, 1, nil)
	var docs []object
	for range 40 {
		docs = append(docs, g.entry())
	}
	s.shrink(trial{docs: docs, question: &question{Service: "a"}})
	if tries > 50 {
		t.Errorf("%d tries", tries)
	}
}

func TestTheSameSeedMakesTheSame(t *testing.T) {
	entries := func() []object {
		g := newGenerator(3, 4, nil)
		g.strange = 0.5
		var docs []object
		for _, kind := range chain.Kinds() {
			for range 40 {
				docs = append(docs, g.of(kind, g.own()))
			}
		}
		return docs
	}
	if diff := cmp.Diff(lines(entries()), lines(entries())); diff != "" {
		t.Error(diff)
	}
}

// TestHeaderModifiersDoNotCrashConsul holds the generator to what it promises.
func TestHeaderModifiersDoNotCrashConsul(t *testing.T) {
	for group := range uint64(50) {
		g := newGenerator(1, group, nil)
		shapes := map[string]bool{}
		for range 50 {
			m := g.headers().(object)
			if len(m) == 0 {
				continue // Consul takes the other side as it is
			}
			_, add := m["Add"]
			_, set := m["Set"]
			shapes[string(compact([]bool{add, set}))] = true
		}
		if len(shapes) > 1 {
			t.Errorf("group %d has modifiers of the shapes %v", group, shapes)
		}
	}
}

func TestOnlyWeightsMayBeNearlyEqual(t *testing.T) {
	split := func(weight, defined float64) any {
		return object{"Weight": weight, "NextNode": "resolver:a", "Definition": object{"Weight": defined}}
	}
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{split(1.02, 50), split(1.03, 50), true},
		{split(1.02, 50), split(1.12, 50), false},
		{split(1.02, 50), split(1.02, 50.01), false},
		{object{"NextNode": "resolver:a"}, object{"NextNode": "resolver:a", "Weight": 0.01}, true},
		{object{"NextNode": "resolver:a"}, object{"NextNode": "resolver:b"}, false},
		{[]any{split(1, 1)}, []any{}, false},
		{object{"x": 1.0}, object{"x": 1.01}, false},
	} {
		if got := nearlyEqual(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}
