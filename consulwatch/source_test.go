package consulwatch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// soon is more than anything that happens takes.
	soon = 20 * time.Second
	// generous is how many times what is promised of a machine of its own a busy one may take.
	generous = 3
	// awhile is how long a test looks that something does not happen.
	awhile = 600 * time.Millisecond
)

// impatient are limits for tests: failures and doubts are looked into again soon.
func impatient() Limits {
	return Limits{RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond, ConfirmMax: 200 * time.Millisecond}
}

// rig is a source that runs into a store.
type rig struct {
	*testing.T
	store  *facts.Store
	source *Source
	stop   func()
}

// run starts a source, which ends with the test or with the rig's stop.
func run(t *testing.T, cfg Config) *rig {
	t.Helper()
	if cfg.Limits == (Limits{}) {
		cfg.Limits = impatient()
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Debug})
	}
	source, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, store: facts.New(), source: source}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, r.store) }()
	ended := false
	r.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// with is the configuration for a Consul of the test environment and a token.
func with(c *testenv.Consul, token string) Config {
	cfg := c.Config()
	cfg.Token = token
	return Config{API: cfg}
}

// eventually waits for a condition of the facts.
func (r *rig) eventually(check func(facts.View) error) {
	r.Helper()
	testenv.Eventually(r.T, soon, func() error { return check(r.store.View()) })
}

// throughout looks that a condition of the facts stays.
func (r *rig) throughout(check func(facts.View) error) {
	r.Helper()
	testenv.Throughout(r.T, awhile, func() error { return check(r.store.View()) })
}

// ready waits until what is always followed is loaded.
func (r *rig) ready(datacenter string) {
	r.Helper()
	r.eventually(func(v facts.View) error {
		if ok, reason := v.Ready(datacenter); !ok {
			return fmt.Errorf("not ready: %s", reason)
		}
		return nil
	})
}

func all(checks ...func(facts.View) error) func(facts.View) error {
	return func(v facts.View) error {
		for _, c := range checks {
			if err := c(v); err != nil {
				return err
			}
		}
		return nil
	}
}

// instances checks the state of a topic and its instances, as ID:status.
func instances(topic facts.Topic, state facts.State, want ...string) func(facts.View) error {
	return func(v facts.View) error {
		list, got := v.Instances(topic)
		var names []string
		for _, in := range list {
			status := facts.StatusPassing
			for _, c := range in.Checks {
				if c.Status != facts.StatusPassing {
					status = c.Status
				}
			}
			names = append(names, fmt.Sprintf("%s:%s", in.Service.ID, status))
		}
		if got != state || fmt.Sprint(names) != fmt.Sprint(want) {
			return fmt.Errorf("%s: %s %v; want %s %v (failure %q)", topic, got, names, state, want, v.Topic(topic).Failure)
		}
		return nil
	}
}

func serviceIs(datacenter, name string, state facts.State) func(facts.View) error {
	return func(v facts.View) error {
		if got := v.Service(datacenter, name); got != state {
			return fmt.Errorf("service %s is %s; want %s", name, got, state)
		}
		return nil
	}
}

func entryIs(kind chain.Kind, name string, state facts.State) func(facts.View) error {
	return func(v facts.View) error {
		if _, got := v.Entry(kind, name); got != state {
			return fmt.Errorf("%s/%s is %s; want %s", kind, name, got, state)
		}
		return nil
	}
}

func failing(topic facts.Topic, want bool) func(facts.View) error {
	return func(v facts.View) error {
		if f := v.Topic(topic).Failure; (f != "") != want {
			return fmt.Errorf("the failure of %s is %q", topic, f)
		}
		return nil
	}
}

var apiHealth = facts.Health("dc1", "api")

// writeSplitter writes a splitter for api, and what makes it valid.
func writeSplitter(c *testenv.Consul, splits string) {
	c.WriteEntry(`{"Kind":"service-defaults","Name":"api","Protocol":"http"}`)
	c.WriteEntry(fmt.Sprintf(`{"Kind":"service-splitter","Name":"api","Splits":[%s]}`, splits))
}

func TestFollowsAConsulWithoutACLs(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", ID: "api-1", Port: 8080, Meta: map[string]string{"version": "v1"}})
	c.WriteEntry(`Kind = "service-defaults"
Name = "api"
Protocol = "http"`)
	r := run(t, with(c, ""))
	r.store.Need("test", apiHealth, facts.Health("dc1", "ghost"))
	r.ready("dc1")
	r.eventually(all(
		instances(apiHealth, facts.Present, "api-1:passing"),
		instances(facts.Health("dc1", "ghost"), facts.Absent),
		serviceIs("dc1", "api", facts.Present), serviceIs("dc1", "ghost", facts.Absent),
		entryIs(chain.KindServiceDefaults, "api", facts.Present), entryIs(chain.KindServiceSplitter, "api", facts.Absent)))

	t.Run("a check flips", func(t *testing.T) {
		c.SetCheck("api-1", api.HealthCritical)
		r.eventually(instances(apiHealth, facts.Present, "api-1:critical"))
		c.SetCheck("api-1", api.HealthPassing)
		r.eventually(instances(apiHealth, facts.Present, "api-1:passing"))
	})
	t.Run("an instance comes and goes", func(t *testing.T) {
		c.RegisterService(testenv.Service{Name: "api", ID: "api-2", Port: 8081})
		r.eventually(instances(apiHealth, facts.Present, "api-1:passing", "api-2:passing"))
		c.Deregister("api-2")
		r.eventually(instances(apiHealth, facts.Present, "api-1:passing"))
	})
	t.Run("the last instance goes soon", func(t *testing.T) {
		c.Deregister("api-1")
		start := time.Now()
		r.eventually(all(instances(apiHealth, facts.Absent), serviceIs("dc1", "api", facts.Absent)))
		took := time.Since(start)
		t.Logf("it took %v", took)
		if took > generous*2*time.Second {
			t.Errorf("it took %v; want 2 s, and no machine takes %d times as long", took, generous)
		}
	})
	t.Run("an entry comes and goes", func(t *testing.T) {
		c.WriteEntry(`{"Kind":"service-defaults","Name":"web","Protocol":"http"}`)
		writeSplitter(c, `{"Weight":90},{"Weight":10,"Service":"web"}`)
		r.eventually(entryIs(chain.KindServiceSplitter, "api", facts.Present))
		e, _ := r.store.View().Entry(chain.KindServiceSplitter, "api")
		if got := e.(*chain.ServiceSplitter).Splits; len(got) != 2 || got[1].Service != "web" {
			t.Errorf("splits: %+v", got)
		}
		c.DeleteEntry("service-splitter", "api")
		r.eventually(entryIs(chain.KindServiceSplitter, "api", facts.Absent))
	})
}

func TestReadsRegistrationsWithCentralConfiguration(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.WriteEntry(`Kind = "proxy-defaults"
Name = "global"
Config { local_connect_timeout_ms = 1234 }`)
	c.RegisterService(testenv.Service{
		Name: "web-sidecar-proxy", ID: "web-1-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Port: 21000,
		Weights: &api.AgentWeights{Passing: 7, Warning: 3}, Tags: []string{"blue"},
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: "web", DestinationServiceID: "web-1", LocalServicePort: 8080,
			Upstreams: []api.Upstream{{DestinationName: "api", LocalBindPort: 9191, Datacenter: "dc2"}},
		},
	})
	proxies, connect := facts.Proxies("dc1", "web"), facts.Connect("dc1", "web")
	r := run(t, with(c, ""))
	r.store.Need("test", proxies, connect)
	r.eventually(all(instances(proxies, facts.Present, "web-1-sidecar-proxy:passing"), instances(connect, facts.Present, "web-1-sidecar-proxy:passing")))
	list, _ := r.store.View().Instances(proxies)
	s := list[0].Service
	switch {
	case s.Proxy == nil || s.Proxy.DestinationServiceName != "web" || s.Proxy.DestinationServiceID != "web-1" || s.Proxy.LocalServicePort != 8080:
		t.Errorf("proxy: %+v", s.Proxy)
	case len(s.Proxy.Upstreams) != 1 || s.Proxy.Upstreams[0].DestinationName != "api" || s.Proxy.Upstreams[0].LocalBindPort != 9191 || s.Proxy.Upstreams[0].Datacenter != "dc2":
		t.Errorf("upstreams: %+v", s.Proxy.Upstreams)
	case fmt.Sprint(s.Proxy.Config["local_connect_timeout_ms"]) != "1234":
		t.Errorf("config: %v", s.Proxy.Config)
	case s.Weights != facts.Weights{Passing: 7, Warning: 3} || s.ModifyIndex == 0 || s.Kind != "connect-proxy" || s.Port != 21000 || s.Tags[0] != "blue":
		t.Errorf("service: %+v", s)
	case list[0].Node.Node != "node-1" || list[0].Node.Datacenter != "dc1" || list[0].Node.ModifyIndex == 0:
		t.Errorf("node: %+v", list[0].Node)
	}
	list, _ = r.store.View().Instances(connect)
	if checks := list[0].Checks; len(checks) != 1 || checks[0].CheckID != "service:web-1-sidecar-proxy" || checks[0].ModifyIndex == 0 {
		t.Errorf("checks: %+v", checks)
	}
	c.WriteEntry(`Kind = "proxy-defaults"
Name = "global"
Config { local_connect_timeout_ms = 99 }`)
	r.eventually(func(v facts.View) error {
		list, _ := v.Instances(proxies)
		if got := fmt.Sprint(list[0].Service.Proxy.Config["local_connect_timeout_ms"]); got != "99" {
			return fmt.Errorf("the merged timeout is %s", got)
		}
		return nil
	})
}

func TestALostConsulTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	writeSplitter(c, `{"Weight":100}`)
	r := run(t, with(c, ""))
	r.store.Need("test", apiHealth)
	held := all(instances(apiHealth, facts.Present, "api:passing"), serviceIs("dc1", "api", facts.Present),
		entryIs(chain.KindServiceSplitter, "api", facts.Present))
	r.ready("dc1")
	r.eventually(held)

	c.Stop()
	r.eventually(all(failing(apiHealth, true), failing(facts.Services("dc1"), true), failing(facts.Entries(chain.KindServiceSplitter), true)))
	r.throughout(held)

	c.Restart() // its data are lost, so what it has now is the truth, though its indexes are lower
	c.RegisterService(testenv.Service{Name: "api", ID: "api", Port: 9999, Status: api.HealthCritical})
	r.eventually(all(instances(apiHealth, facts.Present, "api:critical"), entryIs(chain.KindServiceSplitter, "api", facts.Absent),
		failing(apiHealth, false), failing(facts.Services("dc1"), false)))
	if list, _ := r.store.View().Instances(apiHealth); list[0].Service.Port != 9999 {
		t.Errorf("port %d of before the restart is served", list[0].Service.Port)
	}
}

func TestWaitsForAConsulThatIsAwayAtStart(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.Stop()
	r := run(t, with(c, ""))
	r.store.Need("test", apiHealth)
	r.eventually(failing(facts.Entries(chain.KindServiceRouter), true))
	r.throughout(all(instances(apiHealth, facts.Unknown), serviceIs("dc1", "api", facts.Unknown), entryIs(chain.KindServiceRouter, "api", facts.Unknown)))
	c.Restart()
	r.ready("dc1")
	r.eventually(instances(apiHealth, facts.Absent))
}

func TestARestoredConsulIsReadAgain(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	r := run(t, with(c, ""))
	r.store.Need("test", apiHealth)
	r.eventually(instances(apiHealth, facts.Present, "api:passing"))
	snapshot := t.TempDir() + "/snapshot"
	c.CLI("", "snapshot", "save", snapshot)
	c.SetCheck("api", api.HealthCritical)
	c.RegisterService(testenv.Service{Name: "api", ID: "api-2", Port: 8081})
	writeSplitter(c, `{"Weight":100}`)
	r.eventually(all(instances(apiHealth, facts.Present, "api:critical", "api-2:passing"), entryIs(chain.KindServiceSplitter, "api", facts.Present)))
	c.CLI("", "snapshot", "restore", snapshot)
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), entryIs(chain.KindServiceSplitter, "api", facts.Absent)))
}

func TestAnUnknownDatacenterFailsOnlyItsOwnTopics(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	r := run(t, with(c, ""))
	far := facts.Health("dc2", "api")
	r.store.Need("test", far, apiHealth)
	r.eventually(all(failing(far, true), failing(facts.Services("dc2"), true), instances(apiHealth, facts.Present, "api:passing")))
	r.ready("dc1")
	r.throughout(all(instances(far, facts.Unknown), failing(apiHealth, false)))
	c.SetCheck("api", api.HealthWarning)
	r.eventually(instances(apiHealth, facts.Present, "api:warning"))
}

func TestATopicIsForgottenSomeTimeAfterItsLastNeed(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	cfg := with(c, "")
	cfg.Limits = impatient()
	cfg.Limits.Linger = 300 * time.Millisecond
	r := run(t, cfg)
	r.store.Need("a", apiHealth)
	r.store.Need("b", apiHealth)
	present := instances(apiHealth, facts.Present, "api:passing")
	r.eventually(present)
	r.store.Need("a")
	r.throughout(present)
	r.store.Need("b")
	r.eventually(func(v facts.View) error {
		if v.Topic(apiHealth).Read {
			return fmt.Errorf("the topic is still known")
		}
		return nil
	})
	for _, s := range r.source.Status() {
		if s.Topic == apiHealth {
			t.Errorf("the topic is still followed: %+v", s)
		}
	}
	r.store.Need("a", apiHealth)
	r.eventually(present)
}
