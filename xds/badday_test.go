package xds_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// badRegex is a router that Consul accepts and Envoy refuses: Consul does not compile expressions.
func badRegex(service string) chain.Entry {
	return &chain.ServiceRouter{
		Header: chain.Header{Name: service},
		Routes: []chain.ServiceRoute{{
			Match: &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathRegex: "/("}},
		}},
	}
}

func TestARefusedRouteIsShownAndHarmsNothingElse(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1 := testenv.StartBackend(t, "v1")
		c.load("api", "stock")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("stock"))
		c.instances("api", at("api", v1, "v1", facts.StatusPassing))
		c.instances("stock", at("stock", v1, "v1", facts.StatusPassing))
		api, stock := upstream(t, "api"), upstream(t, "stock")
		c.envoy(sotw, api, stock).WaitReady()
		answers(t, api.BindPort, "v1")

		c.entries(chain.KindServiceRouter, badRegex("api"))
		p := c.proxy("web-1", xds.StateNacked)
		if !strings.Contains(p.Reason, "route") {
			t.Errorf("the reason is %q, want the type and Envoy's text", p.Reason)
		}
		answers(t, api.BindPort, "v1")
		answers(t, stock.BindPort, "v1")
		sent := responses(c)
		v2 := testenv.StartBackend(t, "v2")
		c.instances("stock", at("stock", v2, "v2", facts.StatusPassing))
		answers(t, stock.BindPort, "v2")
		if n := responses(c); n["route"] != sent["route"] {
			t.Errorf("the refused routes were sent %d times more", n["route"]-sent["route"])
		}

		c.entries(chain.KindServiceRouter)
		c.proxy("web-1", xds.StateSynced)
	})
}

func responses(c *control) map[string]int {
	n := map[string]int{}
	for _, p := range c.server.Proxies() {
		for _, t := range p.Types {
			n[t.Type] += t.Responses
		}
	}
	return n
}

func TestAChainThatNeverCompiledAnswersWithItsProblem(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1 := testenv.StartBackend(t, "v1")
		tcp := testenv.StartTCPBackend(t, "raw")
		c.load("api", "db", "ok")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"), httpDefaults("api2"), httpDefaults("ok"))
		broken := func(name string) chain.Entry {
			return &chain.ServiceResolver{Header: chain.Header{Name: name}, Redirect: &chain.Redirect{Service: name + "2", ServiceSubset: "nowhere"}}
		}
		c.entries(chain.KindServiceResolver, broken("api"), broken("db"))
		c.instances("ok", at("ok", v1, "v1", facts.StatusPassing))
		c.instances("db", at("db", tcp, "raw", facts.StatusPassing))
		api, db, ok := upstream(t, "api"), upstream(t, "db"), upstream(t, "ok")
		c.envoy(sotw, api, db, ok).WaitReady()

		answers(t, ok.BindPort, "v1")
		code, body, err := testenv.Get(fmt.Sprintf("http://127.0.0.1:%d/", api.BindPort), nil)
		if err != nil || code != 503 || !strings.Contains(body, `does not have a subset named "nowhere"`) {
			t.Errorf("a chain that never compiled answers %d %q %v", code, body, err)
		}
		if line, err := readLine(db.BindPort); err == nil {
			t.Errorf("a tcp chain that never compiled answers %q, want a closed connection", line)
		}
		if p := c.proxy("web-1", xds.StateSynced); len(p.Problems) != 2 {
			t.Errorf("problems %q", p.Problems)
		}
		if n := len(c.server.Problems()); n != 2 {
			t.Errorf("%d chains have problems, want 2", n)
		}
		c.entries(chain.KindServiceResolver)
		testenv.Eventually(t, 5*time.Second, func() error {
			line, err := readLine(db.BindPort)
			if err == nil && line != "raw\n" {
				err = fmt.Errorf("mended, but answers %q", line)
			}
			return err
		})
	})
}

// readLine connects and returns the first line of what the server says.
func readLine(port int) (string, error) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	return bufio.NewReader(io.LimitReader(conn, 100)).ReadString('\n')
}

func TestFailoverAndReturn(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		main, backup := testenv.StartBackend(t, "main"), testenv.StartBackend(t, "backup")
		c.load("stock", "stock-backup")
		c.entries(chain.KindServiceDefaults, httpDefaults("stock"), httpDefaults("stock-backup"))
		c.entries(chain.KindServiceResolver, &chain.ServiceResolver{
			Header:   chain.Header{Name: "stock"},
			Failover: map[string]chain.Failover{"*": {Service: "stock-backup"}},
		})
		c.instances("stock", at("stock", main, "main", facts.StatusPassing))
		c.instances("stock-backup", at("stock-backup", backup, "backup", facts.StatusPassing))
		up := upstream(t, "stock")
		c.envoy(sotw, up).WaitReady()
		answers(t, up.BindPort, "main")
		c.instances("stock", at("stock", main, "main", facts.StatusCritical))
		answers(t, up.BindPort, "backup")
		c.instances("stock")
		answers(t, up.BindPort, "backup")
		c.instances("stock", at("stock", main, "main", facts.StatusPassing))
		answers(t, up.BindPort, "main")
	})
}

func TestALiveEnvoyOutlivesARestartThatKnowsNothing(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1 := testenv.StartBackend(t, "v1")
		fill := func(c *control) {
			c.load("api")
			c.entries(chain.KindServiceDefaults, httpDefaults("api"))
			c.instances("api", at("api", v1, "v1", facts.StatusPassing))
		}
		fill(c)
		up := upstream(t, "api")
		e := c.envoy(sotw, up)
		e.WaitReady()
		answers(t, up.BindPort, "v1")
		c.proxy("web-1", xds.StateSynced)
		c.stop()
		answers(t, up.BindPort, "v1")

		again := startControlAt(t, c.addr, nil)
		again.t = t
		if p := again.proxy("web-1", xds.StatePending); !strings.Contains(p.Reason, "not read yet") {
			t.Errorf("pending because %q", p.Reason)
		}
		answers(t, up.BindPort, "v1")
		updates := e.Stats()["cluster_manager.cluster_updated"]
		fill(again)
		again.proxy("web-1", xds.StateSynced)
		answers(t, up.BindPort, "v1")
		if n := e.Stats()["cluster_manager.cluster_updated"]; n != updates {
			t.Errorf("the restart updated %d clusters that did not change", n-updates)
		}
	})
}

func TestNoRequestFailsWhileTheChainChanges(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
		c.load("api")
		c.entries(chain.KindServiceDefaults, httpDefaults("api"))
		c.instances("api", at("api", v1, "v1", facts.StatusPassing), at("api", v2, "v2", facts.StatusPassing))
		up := upstream(t, "api")
		c.envoy(sotw, up).WaitReady()

		stop, result := make(chan struct{}), make(chan map[string]int)
		go func() {
			total := map[string]int{}
			for {
				select {
				case <-stop:
					result <- total
					return
				default:
				}
				for k, n := range split(up.BindPort, 1) {
					total[k] += n
				}
			}
		}()
		for _, want := range []string{"v2", "v1", "v2", "v1"} {
			// Each step brings a cluster that the last one did not have, and takes one away.
			c.entries(chain.KindServiceResolver, &chain.ServiceResolver{
				Header: chain.Header{Name: "api"}, DefaultSubset: want,
				Subsets: map[string]chain.Subset{want: {Filter: "Service.Meta.version == " + want}},
			})
			answers(t, up.BindPort, want)
		}
		close(stop)
		got := <-result
		if got["v1"] == 0 || got["v2"] == 0 || len(got) != 2 {
			t.Errorf("while the chain changed, requests were answered %v, want v1 and v2 only", got)
		}
	})
}
