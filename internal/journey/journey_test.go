package journey_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/snapshot"
)

func config() snapshot.Config {
	return snapshot.Config{Datacenter: "dc1", TrustDomain: "catenary.local"}
}

// store holds entries and instances, and nothing else exists.
func store(entries []chain.Entry, byTopic map[facts.Topic][]*facts.Instance) *facts.Store {
	s := facts.New()
	confirmed := facts.Reading{Confirmed: true}
	byKind := map[chain.Kind][]chain.Entry{}
	for _, e := range entries {
		byKind[e.Kind()] = append(byKind[e.Kind()], e)
	}
	names := map[string][]string{"dc1": nil}
	s.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, byKind[kind], confirmed)
		}
		for topic, list := range byTopic {
			tx.Instances(topic, list, confirmed)
			names[topic.Datacenter] = append(names[topic.Datacenter], topic.Name)
		}
		for dc, list := range names {
			tx.Services(dc, list, confirmed)
		}
	})
	return s
}

func instance(id, address string, checks ...facts.Check) *facts.Instance {
	return &facts.Instance{
		Node: facts.Node{Node: "n1", Address: "10.9.9.9"}, Checks: checks,
		Service: facts.Service{ID: id, Service: "api", Address: address, Port: 80},
	}
}

func check(name string, status facts.CheckStatus) facts.Check {
	return facts.Check{CheckID: name, Name: name, Status: status}
}

func http(name string) chain.Entry {
	return &chain.ServiceDefaults{Header: chain.Header{Name: name}, Protocol: "http"}
}

func ask(t *testing.T, s *facts.Store, q journey.Question) journey.Journey {
	t.Helper()
	j, _, err := journey.Make(config(), s.View(), q, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestWhatDecidesTheHealthOfAnEndpoint(t *testing.T) {
	maintenance := facts.Check{CheckID: "_service_maintenance:api-1", Name: "Service Maintenance Mode", Notes: "new disks", Status: facts.StatusCritical}
	weightless := instance("api-1", "10.0.0.1", check("disk", facts.StatusWarning))
	weightless.Service.Weights = facts.Weights{Passing: 2}
	for _, tt := range []struct {
		name        string
		in          *facts.Instance
		onlyPassing bool
		health, why string
	}{
		{"no-checks", instance("api-1", "10.0.0.1"), false, "HEALTHY", "it has no checks"},
		{"passing", instance("api-1", "10.0.0.1", check("up", facts.StatusPassing)), false, "HEALTHY", "all checks pass"},
		{"warning", instance("api-1", "10.0.0.1", check("up", facts.StatusPassing), check("disk", facts.StatusWarning)), false, "HEALTHY", "warning, with the weight of that: disk"},
		{"warning-where-it-must-pass", instance("api-1", "10.0.0.1", check("disk", facts.StatusWarning)), true, "UNHEALTHY", "warning, where the subset takes only passing instances: disk"},
		{"critical", instance("api-1", "10.0.0.1", check("up", facts.StatusCritical), check("disk", facts.StatusWarning), check("cpu", facts.StatusCritical)), false, "UNHEALTHY", "critical: cpu, up"},
		{"a-status-of-its-own", instance("api-1", "10.0.0.1", check("odd", "strange")), false, "UNHEALTHY", "critical: odd"},
		{"maintenance", instance("api-1", "10.0.0.1", maintenance), false, "UNHEALTHY", "in maintenance: Service Maintenance Mode (new disks)"},
		{"no-weight", weightless, false, "UNHEALTHY", "its weight while warning is 0"},
		{"no-address", instance("api-1", "localhost"), false, "LEFT OUT", "its address and port are not what Envoy can dial"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := store([]chain.Entry{&chain.ServiceResolver{
				Header: chain.Header{Name: "api"}, DefaultSubset: "all", Subsets: map[string]chain.Subset{"all": {OnlyPassing: tt.onlyPassing}},
			}}, map[facts.Topic][]*facts.Instance{facts.Health("dc1", "api"): {tt.in}})
			e := ask(t, s, journey.Question{Service: "api"}).Targets[0].Endpoints[0]
			if e.Health != tt.health || e.Why != tt.why {
				t.Errorf("%s: %s; want %s: %s", e.Health, e.Why, tt.health, tt.why)
			}
		})
	}
}

// failing over: api to b, and then to c.
func threeDeep(healthy ...int) *facts.Store {
	names := []string{"api", "b", "c"}
	topics := map[facts.Topic][]*facts.Instance{}
	const of = 4
	for i, name := range names {
		for n := range of {
			status := facts.StatusCritical
			if n < healthy[i] {
				status = facts.StatusPassing
			}
			topic := facts.Health("dc1", name)
			topics[topic] = append(topics[topic], instance(fmt.Sprint(name, n), fmt.Sprintf("10.0.%d.%d", i, n+1), check("up", status)))
		}
	}
	return store([]chain.Entry{http("api"), http("b"), http("c"), &chain.ServiceResolver{
		Header:   chain.Header{Name: "api"},
		Failover: map[string]chain.Failover{"*": {Targets: []chain.FailoverTarget{{Service: "b"}, {Service: "c"}}}},
	}}, topics)
}

func shares(list []journey.Share) map[string]float64 {
	out := map[string]float64{}
	for _, s := range list {
		name, _, _ := strings.Cut(s.Target+s.Fails, ".")
		out[name] += s.Percent
	}
	return out
}

func TestFailoverIsGradual(t *testing.T) {
	for _, tt := range []struct {
		healthy []int
		without []string
		want    map[string]float64
		then    map[string]float64
	}{
		{[]int{4, 4, 4}, nil, map[string]float64{"api": 100}, map[string]float64{"b": 100}},
		{[]int{3, 4, 4}, nil, map[string]float64{"api": 100}, map[string]float64{"b": 100}},
		{[]int{2, 4, 4}, nil, map[string]float64{"api": 70, "b": 30}, map[string]float64{"b": 100}},
		{[]int{1, 1, 4}, nil, map[string]float64{"api": 35, "b": 35, "c": 30}, map[string]float64{"b": 35, "c": 65}},
		{[]int{1, 1, 0}, nil, map[string]float64{"api": 50, "b": 50}, map[string]float64{"b": 100}},
		{[]int{1, 0, 1}, []string{"api"}, map[string]float64{"c": 100}, map[string]float64{"c": 100}},
		{[]int{4, 4, 4}, []string{"api.default", "B"}, map[string]float64{"c": 100}, map[string]float64{"c": 100}},
		{[]int{0, 0, 0}, nil, map[string]float64{"503: no healthy endpoint": 100}, map[string]float64{"503: no healthy endpoint": 100}},
	} {
		j := ask(t, threeDeep(tt.healthy...), journey.Question{Service: "api", Without: tt.without})
		if got := shares(j.Traffic); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v without %v: %v, want %v", tt.healthy, tt.without, got, tt.want)
		}
		if got := shares(j.Targets[0].Then); !reflect.DeepEqual(got, tt.then) {
			t.Errorf("%v without the first: %v, want %v", tt.healthy, got, tt.then)
		}
	}
}

func TestATargetThatIsNotNamedOrNotAlone(t *testing.T) {
	s := threeDeep(4, 4, 4)
	for name, want := range map[string]string{
		"d": `there is no target "d"; those of the chain are api.default.default.dc1, b.default.default.dc1, c.default.default.dc1`,
		"":  `there is no target ""`,
	} {
		_, _, err := journey.Make(config(), s.View(), journey.Question{Service: "api", Without: []string{name}}, nil)
		if unknown := (*journey.UnknownTargetError)(nil); !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	err := &journey.UnknownTargetError{Name: "v1", Matches: []string{"v1.a", "v1.b"}}
	if !strings.Contains(err.Error(), "may be any of the targets v1.a, v1.b") {
		t.Error(err)
	}
}

func TestAChainThatDoesNotCompile(t *testing.T) {
	broken := &chain.ServiceSplitter{Header: chain.Header{Name: "api"}, Splits: []chain.ServiceSplit{{Weight: 100, ServiceSubset: "no"}}}
	s := store([]chain.Entry{http("api"), broken}, nil)
	if j := ask(t, s, journey.Question{Service: "api"}); j.Refused != "every request is answered with 503 and the problem's text" || len(j.Problems) != 1 || j.LastGood {
		t.Errorf("%+v", j)
	}
	last, _ := chain.Compile(chain.Request{Service: "api", Datacenter: "dc1", TrustDomain: "catenary.local"}, chain.NewEntrySet(http("api")))
	j, _, err := journey.Make(config(), s.View(), journey.Question{Service: "api"}, last)
	if err != nil || j.Refused != "" || !j.LastGood || len(j.Problems) != 1 || len(j.Targets) != 1 {
		t.Errorf("with a last good one: %+v %v", j, err)
	}
	tcp := store([]chain.Entry{&chain.ServiceSplitter{Header: chain.Header{Name: "api"}, Splits: broken.Splits}}, nil)
	if j := ask(t, tcp, journey.Question{Service: "api"}); j.Refused != "every connection is closed" {
		t.Errorf("%+v", j)
	}
}

func TestWhatIsNotKnownYet(t *testing.T) {
	j, _, err := journey.Make(config(), facts.New().View(), journey.Question{Service: "api"}, nil)
	if err != nil || j.Pending == "" || j.Refused != "" || j.Explanation != nil {
		t.Errorf("nothing known: %+v %v", j, err)
	}
	s := facts.New()
	s.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, nil, facts.Reading{Confirmed: true})
		}
		tx.Services("dc1", []string{"api"}, facts.Reading{Confirmed: true})
	})
	j, needs, err := journey.Make(config(), s.View(), journey.Question{Service: "api"}, nil)
	if err != nil || j.Pending == "" || len(j.Traffic) != 0 || len(j.Targets) != 1 || j.Targets[0].State != "unknown" {
		t.Errorf("no instances known: %+v %v", j, err)
	}
	if !reflect.DeepEqual(needs, []facts.Topic{facts.Health("dc1", "api"), facts.Services("dc1")}) {
		t.Errorf("it needs %v", needs)
	}
}

func TestGatewaysAreHealthyAsWhatIsBehindThem(t *testing.T) {
	local := &chain.ServiceResolver{Header: chain.Header{Name: "api"}, Redirect: &chain.Redirect{Service: "api", Datacenter: "dc2"}}
	mode := &chain.ProxyDefaults{Header: chain.Header{Name: "global"}, MeshGateway: chain.MeshGateway{Mode: chain.MeshGatewayLocal}}
	for status, want := range map[facts.CheckStatus]string{
		facts.StatusPassing:  "a gateway, healthy as an instance behind it is",
		facts.StatusCritical: "a gateway: no instance behind it is healthy",
	} {
		s := store([]chain.Entry{local, mode}, map[facts.Topic][]*facts.Instance{
			facts.Connect("dc2", "api"): {instance("api-1", "10.0.0.1", check("up", status))},
			facts.Gateways("dc1"):       {instance("gateway", "10.0.0.9", check("up", facts.StatusCritical))},
		})
		j := ask(t, s, journey.Question{Service: "api", Kind: snapshot.Mesh})
		if e := j.Targets[0].Endpoints; len(e) != 1 || e[0].ID != "gateway" || e[0].Why != want {
			t.Errorf("%s: %+v", status, e)
		}
	}
}

func TestARandomChoiceMindsNoWeights(t *testing.T) {
	heavy, light := instance("heavy", "10.0.0.1"), instance("light", "10.0.0.2")
	heavy.Service.Weights = facts.Weights{Passing: 9, Warning: 1}
	for policy, want := range map[string]float64{"random": 50, "least_request": 90, "": 90} {
		r := &chain.ServiceResolver{Header: chain.Header{Name: "api"}, LoadBalancer: &chain.LoadBalancer{Policy: policy}}
		s := store([]chain.Entry{r}, map[facts.Topic][]*facts.Instance{facts.Health("dc1", "api"): {heavy, light}})
		if e := ask(t, s, journey.Question{Service: "api"}).Targets[0].Endpoints[0]; e.Percent != want {
			t.Errorf("%q: %+v, want %v %%", policy, e, want)
		}
	}
}

func TestQuestionsInWords(t *testing.T) {
	q, err := journey.Words{
		Service: "api", Datacenter: "DC2", Kind: "mesh", Method: "post", Path: "/a?x=1&y", Headers: []string{"a = b=c", "n", "Host=shop"}, Query: []string{"z="},
	}.Question()
	want := &explain.Request{
		Method: "POST", Host: "shop", Path: "/a", Headers: []explain.Pair{{Name: "a", Value: "b=c"}, {Name: "n"}},
		Query: []explain.Pair{{Name: "x", Value: "1"}, {Name: "y"}, {Name: "z"}},
	}
	if err != nil || q.Datacenter != "dc2" || q.Kind != snapshot.Mesh || !reflect.DeepEqual(q.Request, want) {
		t.Errorf("%+v %+v %v", q, q.Request, err)
	}
	if q, err := (journey.Words{Service: "api"}).Question(); err != nil || q.Request != nil {
		t.Errorf("no request: %+v %v", q, err)
	}
	for want, w := range map[string]journey.Words{
		"the service is empty":         {},
		"want plain or mesh":           {Service: "a", Kind: "odd"},
		"does not begin with a slash":  {Service: "a", Path: "x"},
		"has a #":                      {Service: "a", Path: "/x#y"},
		`the header "=1" has no name`:  {Service: "a", Headers: []string{"=1"}},
		`query parameter "" has no na`: {Service: "a", Query: []string{""}},
	} {
		if _, err := w.Question(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", w, err, want)
		}
	}
}
