package consulwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// alarmed waits until a problem says that something may be hidden or cannot be read.
func (r *rig) alarmed(code string) {
	r.Helper()
	r.alarmedSince(time.Now(), code)
}

// alarmedSince is alarmed for what began at a moment.
func (r *rig) alarmedSince(start time.Time, code string) {
	r.Helper()
	testenv.Eventually(r.T, soon, func() error {
		for _, p := range r.source.Problems() {
			if p.Code == code {
				return nil
			}
		}
		return fmt.Errorf("there is no problem %s: %v", code, r.source.Problems())
	})
	took := time.Since(start)
	r.Logf("the alarm came after %v", took)
	if took > 5*time.Second {
		r.Errorf("the alarm took %v", took)
	}
}

func (r *rig) calm() {
	r.Helper()
	testenv.Eventually(r.T, soon, func() error {
		if list := r.source.Problems(); len(list) > 0 {
			return fmt.Errorf("there are still problems: %v", list)
		}
		return nil
	})
}

// Nothing else happens in Consul while the rights change: events alone must tell, and a second loss of
// rights as well as the first.
func TestACutOfTheTokenIsNoticedAndHarmless(t *testing.T) {
	t.Parallel()
	c := shop(t)
	c.RegisterService(testenv.Service{Name: "split", Port: 8082})
	c.WriteEntry(`{"Kind":"service-defaults","Name":"split","Protocol":"http"}`)
	c.WriteEntry(`{"Kind":"service-splitter","Name":"split","Splits":[{"Weight":100}]}`)
	token := c.NewToken(readAll)
	r := run(t, with(c, token))
	r.store.Need("test", apiHealth, apiConnect)
	r.ready("dc1")
	held := func(v facts.View) error {
		for _, topic := range []facts.Topic{apiHealth, apiConnect} {
			if list, state := v.Instances(topic); len(list) != 1 {
				return fmt.Errorf("%s is %s with %d instances", topic, state, len(list))
			}
		}
		for _, name := range []string{"api", "split"} {
			if e, state := v.Entry(chain.KindServiceSplitter, name); e == nil {
				return fmt.Errorf("the splitter %s is %s", name, state)
			}
			if state := v.Service("dc1", name); state != facts.Present && state != facts.Suspect {
				return fmt.Errorf("the service %s is %s", name, state)
			}
		}
		return nil
	}
	r.eventually(held)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
	end := r.watchful(held)
	defer end()
	for name, rules := range map[string]string{
		"services":           `node_prefix "" { policy = "read" }`,
		"nodes":              `service_prefix "" { policy = "read" }`,
		"one splitter alone": readAll + ` service "split" { policy = "deny" }`,
		"everything":         ``,
	} {
		t.Run(name, func(t *testing.T) {
			c.SetPolicy(token, rules)
			r.alarmed(CodeHidden)
			r.throughout(held)
			c.SetPolicy(token, readAll)
			r.calm()
			r.eventually(all(instances(apiHealth, facts.Present, "api:passing"), serviceIs("dc1", "split", facts.Present),
				entryIs(chain.KindServiceSplitter, "split", facts.Present)))
		})
	}
}

func TestADeletedTokenIsNoticedAndReplaced(t *testing.T) {
	t.Parallel()
	c := shop(t)
	token := c.NewToken(readAll)
	r := run(t, with(c, token))
	r.store.Need("test", apiHealth)
	r.ready("dc1")
	held := instances(apiHealth, facts.Present, "api:passing")
	r.eventually(held)
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
	c.DeleteToken(token)
	r.alarmed(CodeUnread)
	said := ""
	for _, p := range r.source.Problems() {
		said += p.Message
	}
	if !strings.Contains(said, "the token does not exist") || strings.Contains(said, token) {
		t.Errorf("it says %q", said)
	}
	if list, _ := r.store.View().Instances(apiHealth); len(list) != 1 {
		t.Errorf("%d instances", len(list))
	}
}

// A restore ends all streams at once. What was written since goes, what was deregistered since is back,
// and everything else is never away.
func TestARestoreWithEvents(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	c.RegisterService(testenv.Service{Name: "api", ID: "api-old", Port: 8081})
	r := run(t, with(c, ""))
	web := facts.Health("dc1", "web")
	c.RegisterService(testenv.Service{Name: "web", Port: 8082})
	r.store.Need("test", apiHealth, web)
	r.eventually(all(instances(apiHealth, facts.Present, "api:passing", "api-old:passing"), instances(web, facts.Present, "web:passing")))
	testenv.Eventually(t, soon, func() error { return r.follows(apiHealth, ModeStreaming, c.RPCAddr()) })
	end := r.watchful(func(v facts.View) error {
		for _, topic := range []facts.Topic{apiHealth, web} {
			if list, state := v.Instances(topic); len(list) == 0 {
				return fmt.Errorf("%s has nothing: %s", topic, state)
			}
		}
		return nil
	})
	defer end()
	for round := range 2 {
		snapshot := fmt.Sprintf("%s/snapshot-%d", t.TempDir(), round)
		c.CLI("", "snapshot", "save", snapshot)
		c.SetCheck("api", api.HealthCritical)
		c.Deregister("api-old")
		c.RegisterService(testenv.Service{Name: "api", ID: "api-new", Port: 8083})
		r.eventually(instances(apiHealth, facts.Present, "api:critical", "api-new:passing"))
		c.CLI("", "snapshot", "restore", snapshot)
		start := time.Now()
		r.eventually(all(instances(apiHealth, facts.Present, "api:passing", "api-old:passing"), instances(web, facts.Present, "web:passing")))
		t.Logf("as restored after %v", time.Since(start))
		testenv.Eventually(t, soon, func() error { return r.follows(web, ModeStreaming, c.RPCAddr()) })
	}
}

// agentOf is a fake Consul with ACLs, which names the accessor of each token, and remembers who asked.
func agentOf(t *testing.T, asked chan<- string) *Source {
	f := startFake(t)
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/acl/token/self" {
			return false
		}
		token := r.Header.Get("X-Consul-Token")
		asked <- token
		accessor := anonymousID
		if token == "named" {
			accessor = "11111111-0000-0000-0000-000000000000"
		}
		fmt.Fprintf(w, `{"AccessorID":%q}`, accessor)
		return true
	}
	s, err := New(f.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.transport.closeIdle)
	return s
}

// A token that is read between an answer and the question what it is worth says nothing of the answer.
func TestAnAnswerIsJudgedByItsOwnToken(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	s := agentOf(t, asked)
	a, err := s.ask(t.Context(), queryFor(apiHealth, ""), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.access.token = "named"
	if seen, err := s.rights.verified(t.Context(), a.token); seen || err != nil {
		t.Errorf("what was asked without a token is confirmed by the one there is now: %t, %v", seen, err)
	}
	if token := <-asked; token != "" {
		t.Errorf("asked with %q", token)
	}
	a, err = s.ask(t.Context(), queryFor(apiHealth, ""), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.access.token = anonymous
	if seen, err := s.rights.verified(t.Context(), a.token); !seen || err != nil || len(asked) > 0 {
		t.Errorf("what was asked with a token: %t, %v", seen, err)
	}
	if seen, err := s.rights.verified(t.Context(), anonymous); seen || err != nil {
		t.Errorf("the anonymous token by its name: %t, %v", seen, err)
	}
	if token := <-asked; token != anonymous {
		t.Errorf("what is known of one token is taken for another, asked with %q", token)
	}
}

// Who waits for another's question must not wait longer than it may.
func TestWhoWaitsForRightsMayGiveUp(t *testing.T) {
	t.Parallel()
	asked := make(chan string) // nobody listens at first: the agent hangs
	s := agentOf(t, asked)
	first := make(chan error, 1)
	go func() {
		_, err := s.rights.verified(t.Context(), "")
		first <- err
	}()
	testenv.Eventually(t, soon, func() error {
		if s.rights.turn.TryAcquire(1) {
			s.rights.turn.Release(1)
			return errors.New("it does not ask yet")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := s.rights.verified(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it says %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	<-asked
	if err := <-first; err != nil {
		t.Error(err)
	}
}
