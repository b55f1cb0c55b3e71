package chain_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
)

// FuzzFlatten holds the splitters of a chain against flattenSlowly. A router leads to all of them, so
// that each is flattened on its own and as part of others.
func FuzzFlatten(f *testing.F) {
	f.Add([]byte("0"))
	f.Add([]byte{2, 1, 0, 10, 100, 0, 0, 2, 0, 10, 100, 0, 0, 1, 1, 0, 50})
	f.Fuzz(func(t *testing.T, data []byte) {
		ch := chooser(data)
		splitters := map[string]*chain.ServiceSplitter{}
		router := &chain.ServiceRouter{Header: chain.Header{Name: "web"}}
		entries := chain.NewEntrySet(http(), router, ch.leaf("s5"))
		for i := range 5 {
			name := fmt.Sprintf("s%d", i)
			splitters[name] = ch.splitterAbove(i)
			entries.Put(splitters[name])
			entries.Put(ch.leaf(name))
			router.Routes = append(router.Routes, chain.ServiceRoute{Destination: &chain.RouteDestination{Service: name}})
		}
		c, problems := chain.Compile(chain.Request{Service: "web"}, entries)
		if c == nil {
			t.Fatal(problems)
		}
		for name := range splitters {
			got := c.Nodes["splitter:"+name+".default.default"]
			want := flattenSlowly(splitters, name)
			if a, b := toJSON(t, got.Splits), toJSON(t, want); a != b && len(want)+len(got.Splits) > 0 {
				t.Fatalf("%s\ngot  %s\nwant %s", name, a, b)
			}
			if want := hashOf(entries, splitters, name); toJSON(t, got.LoadBalancer) != toJSON(t, want) {
				t.Fatalf("%s: got the load balancer %+v, want %+v", name, got.LoadBalancer, want)
			}
		}
	})
}

// splitterAbove is one of service i, with legs to those after it, or to none.
func (c *chooser) splitterAbove(i int) *chain.ServiceSplitter {
	e := &chain.ServiceSplitter{Header: chain.Header{Name: fmt.Sprintf("s%d", i)}}
	for range c.below(4) {
		leg := chain.ServiceSplit{
			Weight:         float32(c.below(110)) + float32(c.below(100))/100 - 5,
			ServiceSubset:  c.of("", "", "", "v1"),
			RequestHeaders: c.modifiers(), ResponseHeaders: c.modifiers(),
		}
		if next := i + c.below(6-i); next > i {
			leg.Service = fmt.Sprintf("s%d", next)
		}
		e.Splits = append(e.Splits, leg)
	}
	return e
}

func (c *chooser) leaf(name string) *chain.ServiceResolver {
	r := &chain.ServiceResolver{Header: chain.Header{Name: name}, Subsets: map[string]chain.Subset{"v1": {}}}
	if c.maybe() {
		r.LoadBalancer = &chain.LoadBalancer{Policy: c.of("ring_hash", "maglev", "random")}
	}
	return r
}

// flattenSlowly replaces the first leg that leads to a splitter by the legs of that splitter, until there
// is none. So it replaces the outermost first.
func flattenSlowly(splitters map[string]*chain.ServiceSplitter, name string) []chain.Split {
	legs := rawLegs(splitters[name])
	for {
		i := slices.IndexFunc(legs, func(leg chain.Split) bool { return leadsToSplitter(splitters, leg) })
		if i < 0 {
			return named(legs)
		}
		inner := rawLegs(splitters[legs[i].Definition.Service])
		for j := range inner {
			combineSlowly(legs[i], &inner[j])
		}
		legs = slices.Concat(legs[:i], inner, legs[i+1:])
	}
}

// rawLegs are the legs of one splitter. NextNode is empty for one that leads to another splitter.
func rawLegs(s *chain.ServiceSplitter) []chain.Split {
	var legs []chain.Split
	for _, definition := range s.Splits {
		leg := chain.Split{Definition: &definition, Weight: definition.Weight}
		service, subset := definition.Service, definition.ServiceSubset
		if service == "" {
			service = s.Name
		}
		if subset != "" {
			service = subset + "." + service
		}
		if definition.Service == "" || subset != "" {
			leg.NextNode = "resolver:" + service + ".default.default.dc1"
		}
		legs = append(legs, leg)
	}
	return legs
}

func leadsToSplitter(splitters map[string]*chain.ServiceSplitter, leg chain.Split) bool {
	return leg.NextNode == "" && splitters[leg.Definition.Service] != nil
}

// named names the resolvers of the services without a splitter.
func named(legs []chain.Split) []chain.Split {
	for i := range legs {
		if legs[i].NextNode == "" {
			legs[i].NextNode = "resolver:" + legs[i].Definition.Service + ".default.default.dc1"
		}
	}
	return legs
}

// combineSlowly makes the inner leg one that is reached through the outer.
func combineSlowly(outer chain.Split, inner *chain.Split) {
	percent := outer.Weight * inner.Weight / 100
	inner.Weight = float32(math.Round(float64(percent*100)) / 100)
	d := *inner.Definition
	d.RequestHeaders = combineHeaders(outer.Definition.RequestHeaders, d.RequestHeaders)
	d.ResponseHeaders = combineHeaders(d.ResponseHeaders, outer.Definition.ResponseHeaders)
	inner.Definition = &d
}

// combineHeaders starts with the base and adds what over says.
func combineHeaders(base, over *chain.HeaderModifiers) *chain.HeaderModifiers {
	if noHeaders(base) {
		return over
	}
	if noHeaders(over) {
		return base
	}
	out := &chain.HeaderModifiers{Add: map[string]string{}, Set: map[string]string{}}
	for _, m := range []*chain.HeaderModifiers{base, over} {
		maps.Copy(out.Add, m.Add)
		maps.Copy(out.Set, m.Set)
	}
	out.Remove = append(out.Remove, base.Remove...)
	for _, name := range over.Remove {
		if !slices.Contains(base.Remove, name) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out
}

func noHeaders(m *chain.HeaderModifiers) bool {
	return m == nil || len(m.Add)+len(m.Set)+len(m.Remove) == 0
}

// hashOf is the first policy that hashes, of the resolvers to which the splitter leads straight.
func hashOf(entries chain.Entries, splitters map[string]*chain.ServiceSplitter, name string) *chain.LoadBalancer {
	for _, leg := range rawLegs(splitters[name]) {
		service := leg.Definition.Service
		if service == "" {
			service = name
		}
		r, _ := entries.Entry(chain.KindServiceResolver, service).(*chain.ServiceResolver)
		if leadsToSplitter(splitters, leg) || r == nil || r.LoadBalancer == nil {
			continue
		}
		if p := r.LoadBalancer.Policy; p == "ring_hash" || p == "maglev" {
			return r.LoadBalancer
		}
	}
	return nil
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
