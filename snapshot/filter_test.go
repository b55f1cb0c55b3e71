package snapshot

import (
	"testing"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// simple are expressions that are compiled, general are left to the library.
var simple, general = []string{
	`Service.Meta.version == "v1"`,
	`Service.Meta.version != v1`,
	`Service.Meta["a.b"] == "x"`,
	`"/Service/Meta/version" == "v1"`,
	`Service.Meta.version is empty`,
	`Service.Meta.version is not empty`,
	`"1" in Service.Meta.version`,
	`"1" not in Service.Meta.version`,
	`Service.Meta.version contains "v"`,
	`Service.Meta.version not contains "v"`,
	`Service.Meta.version matches "^v[0-9]$"`,
	`Service.Meta.version not matches "^v[0-9]$"`,
	`Node.Meta.rack == "r1"`,
	`"v1" in Service.Tags`,
	`v1 not in Service.Tags`,
	`Service.Tags contains "v1"`,
	`Service.Tags not contains "v1"`,
	`Service.Tags is empty`,
	`Service.Tags is not empty`,
	`Service.ID == "api-1"`,
	`Node.Node matches "^n"`,
	`Node.Datacenter != "dc1"`,
	`Service.Meta.version == ""`,
}, []string{
	`Service.Port == 80`,
	`Service.Meta is empty`,
	`"version" in Service.Meta`,
	`Service.Meta.version == "v1" and Service.Weights.Passing == 1`,
	`any Checks as c { c.Status == "passing" }`,
	`Checks is empty`,
	`Service.Tags == "v1"`,
	`Service.Tags matches "v"`,
	`Service.Meta.version matches "("`,
	`Service.Nothing == "x"`,
	`Service.Meta.version.x == "x"`,
	`"/Service.Tags" is empty`,
	`Service.Proxy.Config.x == "x"`,
}

// samples are instances with and without what filters ask for.
func samples() []*facts.Instance {
	return []*facts.Instance{
		{},
		{Node: facts.Node{Node: "n1", Datacenter: "dc1"}, Service: facts.Service{ID: "api-1", Port: 80}},
		{
			Node: facts.Node{Node: "m1", Datacenter: "dc2", Meta: map[string]string{"rack": "r1"}},
			Service: facts.Service{
				Tags: []string{"v1", "x"}, Meta: map[string]string{"version": "v1", "a.b": "x"}, Weights: facts.Weights{Passing: 1},
			},
			Checks: []facts.Check{{CheckID: "c", Status: "passing"}},
		},
		{Service: facts.Service{
			Tags: []string{"v2"}, Meta: map[string]string{"version": "v2"}, Proxy: &facts.Proxy{DestinationServiceName: "api"},
		}},
		{Service: facts.Service{Tags: []string{}, Meta: map[string]string{"version": ""}}},
	}
}

// asTheLibrary compares what a filter selects with what the library says.
func asTheLibrary(t *testing.T, expression string) {
	t.Helper()
	eval, err := bexpr.CreateEvaluator(expression)
	keep, gotErr := filter(expression)
	if (err != nil) != (gotErr != nil) {
		t.Fatalf("%s: error %v, the library's %v", expression, gotErr, err)
	}
	if err != nil {
		return
	}
	for i, in := range samples() {
		want, err := eval.Evaluate(*in)
		want = want && err == nil
		if got := keep(in); got != want {
			t.Errorf("%s selects sample %d: %t, and for the library %t (%v)", expression, i, got, want, err)
		}
	}
}

func TestFiltersMeanWhatTheyMeanForTheLibrary(t *testing.T) {
	for _, a := range append(simple, general...) {
		asTheLibrary(t, a)
		asTheLibrary(t, "not ("+a+")")
		for _, b := range []string{simple[0], simple[1], general[0], general[7]} {
			asTheLibrary(t, a+" and "+b)
			asTheLibrary(t, b+" or not "+a)
		}
	}
	asTheLibrary(t, `Service.Meta.version ==`)
}

func TestWhatFiltersAreMadeOfIsCompiled(t *testing.T) {
	for want, expressions := range map[bool][]string{true: simple, false: general} {
		for _, e := range expressions {
			ast, err := grammar.Parse("", []byte(e))
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			if _, ok := compile(ast); ok != want {
				t.Errorf("%s is compiled: %t", e, ok)
			}
		}
	}
}

func FuzzFiltersMeanWhatTheyMeanForTheLibrary(f *testing.F) {
	for _, e := range append(simple, general...) {
		f.Add(e)
	}
	f.Add(`not ("v1" in Service.Tags or Service.Meta.version != "v2") and Node.Meta.rack is empty`)
	f.Fuzz(asTheLibrary)
}
