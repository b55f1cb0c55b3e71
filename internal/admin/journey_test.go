package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/snapshot"
)

func TestQuestionsAboutRequestsArriveAsTheyAreAsked(t *testing.T) {
	cfg := config()
	var asked journey.Question
	cfg.Journey = func(_ context.Context, q journey.Question) (journey.Journey, error) {
		asked = q
		switch q.Service {
		case "wrong":
			return journey.Journey{}, &journey.UnknownTargetError{Name: "x", Targets: []string{"y"}}
		case "early":
			return journey.Journey{}, errors.New("not yet")
		}
		return journey.Journey{Service: q.Service, Request: q.Request}, nil
	}
	c := serve(t, admin.New(cfg))
	j, err := c.Journey(t.Context(), journey.Words{
		Service: "a/b?c", Datacenter: "dc2", Kind: "mesh", Method: "post", Path: "/x?y=1&z",
		Headers: []string{"a=&b", "a=c"}, Query: []string{"q=ä"}, Without: []string{"v1", "v2"},
	})
	if err != nil || j.Service != "a/b?c" || j.Request.String() != "POST a/b?c/x?y=1&z&q=ä, a: &b, a: c" {
		t.Errorf("%+v %v", j.Request, err)
	}
	if asked.Datacenter != "dc2" || asked.Kind != snapshot.Mesh || strings.Join(asked.Without, " ") != "v1 v2" {
		t.Errorf("asked %+v", asked)
	}
	for w, status := range map[*journey.Words]int{
		{Service: "wrong"}: 400, {Service: "api", Path: "x"}: 400, {Service: "early"}: 503,
	} {
		_, err := c.Journey(t.Context(), *w)
		if refused, ok := errors.AsType[*admin.RefusedError](err); !ok || refused.Status != status {
			t.Errorf("%+v: %v, want status %d", w, err, status)
		}
	}
	plain := serve(t, admin.New(config()))
	if _, err := plain.Journey(t.Context(), journey.Words{Service: "api"}); err == nil || !strings.Contains(err.Error(), "explains nothing") {
		t.Errorf("a server that cannot: %v", err)
	}
}

func TestAJourneyHasReadWhatNobodyNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		store.Commit(func(tx *facts.Tx) {
			for _, kind := range chain.AllKinds() {
				tx.Entries(kind, nil, facts.Reading{Confirmed: true})
			}
			tx.Services("dc1", []string{"api"}, facts.Reading{Confirmed: true})
		})
		bell, end := store.NeedsBell()
		defer end()
		go func() {
			<-bell
			store.Commit(func(tx *facts.Tx) {
				tx.Instances(facts.Health("dc1", "api"), []*facts.Instance{{
					Node: facts.Node{Address: "10.0.0.1"}, Service: facts.Service{ID: "api-1", Service: "api", Port: 80},
				}}, facts.Reading{Confirmed: true})
			})
		}()
		j, err := admin.NewAsker(store).Journey(t.Context(), snapshot.Config{Datacenter: "dc1"}, journey.Question{Service: "api"}, nil)
		if err != nil || j.Pending != "" || len(j.Targets) != 1 || j.Targets[0].Healthy != 1 {
			t.Errorf("%+v %v", j, err)
		}
		if topics, _ := store.Needs(); len(topics) != 0 {
			t.Errorf("the question left the needs %v", topics)
		}
	})
}

func TestWhatAProxyWasSent(t *testing.T) {
	cfg := config()
	inside, leave := make(chan struct{}), make(chan struct{})
	cfg.Resources = func(id string) []admin.ProxyResources {
		switch id {
		case "slow":
			inside <- struct{}{}
			<-leave
		case "nobody":
			return nil
		}
		return []admin.ProxyResources{{ID: id}}
	}
	server := admin.New(cfg)
	c := serve(t, server)
	if list, err := c.Resources(t.Context(), "ns/web"); err != nil || len(list) != 1 || list[0].ID != "ns/web" {
		t.Errorf("%v %v", list, err)
	}
	_, err := c.Resources(t.Context(), "nobody")
	if refused, ok := errors.AsType[*admin.RefusedError](err); !ok || refused.Status != http.StatusNotFound {
		t.Errorf("nobody: %v", err)
	}
	const most = 4
	done := make(chan struct{})
	for range most {
		go func() {
			server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/v1/resources/slow", http.NoBody))
			done <- struct{}{}
		}()
		<-inside
	}
	if status, body := do(server, "GET", "/api/v1/resources/web"); status != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", status, body)
	}
	close(leave)
	for range most {
		<-done
	}
	if status, _ := do(admin.New(config()), "GET", "/api/v1/resources/web"); status != http.StatusNotFound {
		t.Errorf("a server that knows none: %d", status)
	}
}
