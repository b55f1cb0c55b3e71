package consulwatch

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestTellsWhereItIs(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t, testenv.WithDatacenter("paris"), testenv.WithACL())
	none := c.NewToken(`service_prefix "" { policy = "read" }`)
	for _, token := range []string{c.Token(), none} {
		s, err := New(with(c, token))
		if err != nil {
			t.Fatal(err)
		}
		defer s.transport.closeIdle()
		if dc, err := s.Datacenter(t.Context()); dc != "paris" || err != nil {
			t.Errorf("datacenter %q, %v", dc, err)
		}
		roots, _, err := c.Client().Connect().CARoots(nil)
		if err != nil {
			t.Fatal(err)
		}
		if td, err := s.TrustDomain(t.Context()); td != roots.TrustDomain || err != nil {
			t.Errorf("trust domain %q, %v; want %q", td, err, roots.TrustDomain)
		}
	}
	c.Stop()
	s, err := New(with(c, ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Datacenter(ctx); err == nil {
		t.Error("a Consul that is away has told its datacenter")
	} else {
		t.Log(err)
	}
}

func TestTheTrustDomainIsWaitedForUnlessThereIsNone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s, err := New(Config{API: f.config().API, Limits: impatient()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.transport.closeIdle()
	say := func(text string) {
		f.change(func() {
			f.fault = func(w http.ResponseWriter, r *http.Request) bool {
				http.Error(w, text, http.StatusInternalServerError)
				return true
			}
		})
	}
	say("rpc error: the authority is being made")
	got := make(chan string)
	go func() {
		td, _ := s.TrustDomain(t.Context())
		got <- td
	}()
	testenv.Eventually(t, soon, func() error {
		if _, reads := f.count("/v1/connect/ca/roots"); reads < 3 {
			return errors.New("asked less than three times")
		}
		return nil
	})
	f.set("/v1/connect/ca/roots", `{"TrustDomain":"AB-CD.consul"}`)
	f.change(func() { f.fault = nil })
	if td := <-got; td != "ab-cd.consul" {
		t.Errorf("trust domain %q", td)
	}
	say("Connect must be enabled in order to use this endpoint")
	if _, err := s.TrustDomain(t.Context()); !errors.Is(err, ErrNoConnect) {
		t.Errorf("without Connect: %v", err)
	}
}

// A token that may not even say where it is may say so later.
func TestTheDatacenterIsWaitedForUntilTheTokenMayTell(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.set("/v1/catalog/datacenters", `["east","west"]`)
	f.set("/v1/catalog/service/consul", `[]`)
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/agent/self" {
			http.Error(w, "Permission denied", http.StatusForbidden)
		}
		return r.URL.Path == "/v1/agent/self"
	}
	r := run(t, Config{API: f.config().API, Follow: FollowPoll, DefaultIntentions: "deny"})
	r.problem(CodeUnread, "there are several datacenters (east, west)", "--datacenter", "agent:read")
	f.set("/v1/catalog/service/consul", `[{"Datacenter":"west"}]`)
	r.ready("west")
	r.problem()
}
