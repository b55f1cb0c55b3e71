package consulwatch

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// setVirtualIPs gives a service virtual IPs by hand.
func setVirtualIPs(t *testing.T, c *testenv.Consul, service string, ips ...string) {
	t.Helper()
	body := fmt.Sprintf(`{"Service": %q, "ManualVIPs": ["%s"]}`, service, strings.Join(ips, `","`))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+c.HTTPAddr()+"/v1/internal/service-virtual-ip", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("Consul answered %s", answer.Status)
	}
}

// virtualIPs wants services with as many automatic virtual IPs and these by hand, such as api:1:10.0.0.1.
func virtualIPs(want ...string) func(facts.View) error {
	return func(view facts.View) error {
		all, state := view.VirtualIPs("dc1")
		var got []string
		for _, name := range slices.Sorted(maps.Keys(all.Services)) {
			ips := all.Services[name]
			text := fmt.Sprintf("%s:%d:", name, len(ips.Automatic))
			for _, ip := range ips.Manual {
				text += ip.String()
			}
			got = append(got, text)
		}
		if state != facts.Present || !slices.Equal(got, want) || len(all.Unread) > 0 {
			return fmt.Errorf("%s: %q and %v, want %q", state, got, all.Unread, want)
		}
		return nil
	}
}

// TestVirtualIPsAreThoseOfConsul has them by each reason that a service can have one for: a sidecar, a Connect-native
// instance, an entry, a terminating gateway.
func TestVirtualIPsAreThoseOfConsul(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	cfg := with(c, "")
	cfg.Limits = impatient()
	cfg.Limits.VirtualIPs = 100 * time.Millisecond
	r := run(t, cfg)
	r.ready("dc1")
	c.RegisterService(testenv.Service{Name: "plain", ID: "plain", Port: 8080})
	c.RegisterService(testenv.Service{Name: "api", ID: "api", Port: 8080})
	topics := []facts.Topic{
		facts.VirtualIPs("dc1"), facts.Health("dc1", "plain"), facts.Health("dc1", "api"), facts.Health("dc1", "api-sidecar-proxy"),
	}
	r.store.Need("test", topics...)
	r.eventually(virtualIPs())
	c.RegisterService(testenv.Service{
		Name: "api-sidecar-proxy", ID: "api-sidecar-proxy", Port: 21000, Kind: api.ServiceKindConnectProxy,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "api"},
	})
	r.eventually(virtualIPs("api:1:"))
	setVirtualIPs(t, c, "api", "10.1.2.3")
	r.eventually(virtualIPs("api:1:10.1.2.3"))
	c.WriteEntry(`{"Kind": "service-resolver", "Name": "other", "Redirect": {"Service": "api"}}`)
	r.eventually(virtualIPs("api:1:10.1.2.3", "other:1:"))
	end := r.watchful(func(view facts.View) error {
		all, _ := view.VirtualIPs("dc1")
		if len(all.Services["api"].Manual)+len(all.Services["other"].Manual) > 1 {
			return fmt.Errorf("an IP that moves has two owners: %v", all)
		}
		return nil
	})
	setVirtualIPs(t, c, "other", "10.1.2.3")
	r.eventually(virtualIPs("api:1:", "other:1:10.1.2.3"))
	end()
	c.DeleteEntry("service-resolver", "other")
	r.eventually(virtualIPs("api:1:"))
	c.Deregister("api-sidecar-proxy")
	r.eventually(virtualIPs())
}

// TestVirtualIPsAreAskedForOnceAndKept counts the questions, and has Consul fail for one service and for all.
func TestVirtualIPsAreAskedForOnceAndKept(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.set("/v1/config/service-defaults", `[{"Kind": "service-defaults", "Name": "api"}, {"Kind": "service-defaults", "Name": "web"}]`)
	f.set("/v1/discovery-chain/api", `{"Chain": {"AutoVirtualIPs": ["240.0.0.1"], "ManualVirtualIPs": ["::ffff:10.0.0.1", "nonsense"]}}`)
	f.set("/v1/discovery-chain/web", `no chain`)
	cfg := f.config()
	cfg.Limits = impatient()
	cfg.Limits.VirtualIPs = time.Hour
	r := run(t, cfg)
	r.ready("dc1")
	r.store.Need("one", facts.VirtualIPs("dc1"))
	r.store.Need("two", facts.VirtualIPs("dc1"))
	r.eventually(func(view facts.View) error {
		all, state := view.VirtualIPs("dc1")
		if state != facts.Present || len(all.Services) != 1 || fmt.Sprint(all.Services["api"].Manual) != "[10.0.0.1]" || all.Unread["web"] == "" {
			return fmt.Errorf("%s: %v", state, all)
		}
		return nil
	})
	if _, reads := f.count("/v1/discovery-chain/api"); reads != 1 {
		t.Errorf("asked %d times", reads)
	}
	if s, _ := r.watches(facts.VirtualIPs("dc1")); s.Failure == "" {
		t.Errorf("nobody says that the virtual IPs of web are not known: %+v", s)
	}
}

func TestVirtualIPsStayWhileConsulIsAway(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.set("/v1/config/service-defaults", `[{"Kind": "service-defaults", "Name": "api"}]`)
	f.set("/v1/discovery-chain/api", `{"Chain": {"ManualVirtualIPs": ["10.0.0.1"]}}`)
	cfg := f.config()
	cfg.Limits = impatient()
	cfg.Limits.VirtualIPs = 10 * time.Millisecond
	r := run(t, cfg)
	r.store.Need("test", facts.VirtualIPs("dc1"))
	has := virtualIPs("api:0:10.0.0.1")
	r.eventually(has)
	end := r.watchful(has)
	fail := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, q *http.Request) bool {
			if strings.HasPrefix(q.URL.Path, virtualIPsOf) && status > 0 {
				http.Error(w, "no", status)
				return true
			}
			return false
		}
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
		f.change(func() { f.fault = fail(status) })
		testenv.Eventually(t, soon, func() error {
			if s, _ := r.watches(facts.VirtualIPs("dc1")); s.Failure == "" {
				return fmt.Errorf("no failure is told: %+v", s)
			}
			return nil
		})
		f.change(func() { f.fault = nil })
		testenv.Eventually(t, soon, func() error {
			if s, _ := r.watches(facts.VirtualIPs("dc1")); s.Failure != "" {
				return fmt.Errorf("the failure is still told: %+v", s)
			}
			return nil
		})
	}
	end()
	f.set("/v1/discovery-chain/api", `{"Chain": {"ManualVirtualIPs": ["10.0.0.2"]}}`)
	r.eventually(virtualIPs("api:0:10.0.0.2"))
}
