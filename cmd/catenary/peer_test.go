package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// startAdmin starts the HTTP side of a server in which something of each kind is connected, and tells
// the script where: $ADMIN, $NACKED of one with a proxy that refuses, and $EARLY of one that knows
// nothing yet.
func startAdmin(env *testscript.Env) error {
	synced := admin.Proxy{
		ID: "web-proxy", Service: "web", Kind: "plain", Address: "127.0.0.1:5", Protocol: "delta",
		Version: "1.40.0", ConnectedAt: time.Now(), State: xds.StateSynced,
		Types: []xds.TypeStatus{
			{Type: "cluster", State: xds.StateSynced, Resources: 2, Sent: "c1c1c1c1c1", Acked: "c1c1c1c1c1"},
			{Type: "route", State: xds.StateSynced, Sent: "e2", Acked: "e1"},
			{Type: "listener", State: xds.StateNotSent, Resources: 3},
		},
	}
	nacked := admin.Proxy{
		ID: "bad", Service: "web", State: xds.StateNacked, Reason: "listener: no such port",
		Pending:  []xds.PendingStatus{{Upstream: "db?dc=dc2", Reason: "not read yet"}},
		Notes:    []string{"nope: nobody knows it"},
		Problems: []string{"api: no such subset"},
		Types: []xds.TypeStatus{{
			Type: "listener", State: xds.StateNacked, Sent: "b2", Acked: "b1", Nacks: 1,
			Nack: &xds.NackStatus{Message: "no such port", Version: "b2"},
		}},
	}
	for name, list := range map[string][]admin.Proxy{"ADMIN": {synced}, "NACKED": {nacked, synced}} {
		server := httptest.NewServer(admin.New(adminConfig(list, knownEntries())))
		env.Defer(server.Close)
		env.Setenv(name, strings.TrimPrefix(server.URL, "http://"))
	}
	early := httptest.NewServer(admin.New(adminConfig(nil, unknownEntries())))
	env.Defer(early.Close)
	env.Setenv("EARLY", strings.TrimPrefix(early.URL, "http://"))
	return nil
}

// knownEntries are those of a server that has read them all.
func knownEntries() *admin.Discovery {
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.Kinds() {
			var list []chain.Entry
			switch kind {
			case chain.KindServiceResolver:
				list = []chain.Entry{&chain.ServiceResolver{
					Header: chain.Header{Name: "web", Origin: "consul"}, Redirect: &chain.Redirect{Service: "api"},
				}}
			case chain.KindServiceSplitter:
				list = []chain.Entry{&chain.ServiceSplitter{
					Header: chain.Header{Name: "split"}, Splits: []chain.ServiceSplit{{Weight: 100}},
				}}
			default:
			}
			tx.Entries(kind, list, facts.Reading{Confirmed: true})
		}
	})
	return admin.NewDiscovery(store, func() (admin.Place, string) {
		return admin.Place{Datacenter: "dc1", TrustDomain: "d.consul"}, ""
	})
}

// unknownEntries are those of a server that has just begun.
func unknownEntries() *admin.Discovery {
	return admin.NewDiscovery(facts.New(), func() (admin.Place, string) { return admin.Place{}, "Consul has not answered yet" })
}

func adminConfig(list []admin.Proxy, discovery *admin.Discovery) admin.Config {
	return admin.Config{
		Ready:     func() (bool, string) { return true, "" },
		Proxies:   func() []admin.Proxy { return list },
		Chain:     func(string) admin.Chain { return admin.Chain{Chain: &chain.Chain{}} },
		Discovery: discovery,
		Problems:  func() []admin.Problem { return nil },
		Journey:   journeys(discovery),
		Metrics:   http.NotFoundHandler(),
		Watches: func() []admin.Watch {
			return []admin.Watch{
				{Topic: "health/dc1/api", Mode: "streaming", Server: "10.0.0.1:8300", Index: 42, AgeSeconds: 3.4, State: admin.WatchCurrent, Needs: 2},
				{Topic: "services/dc1", Mode: "retrying", AgeSeconds: -1, State: admin.WatchFailing, Reason: "Consul is away"},
			}
		},
		Endpoints: func(_ context.Context, service string) admin.Endpoints {
			e := admin.Endpoints{Service: service, Datacenter: "dc1", State: "present"}
			switch service {
			case "gone":
				e.State = "absent"
			case "strange":
				e.State, e.Reason = "unknown", "health/dc1/strange: not read yet"
			case "api":
				e.Instances = []admin.Instance{{
					ID: "api-1", Node: "n1", Address: "127.0.0.1", Port: 80, Health: "HEALTHY", Weight: 3,
					Meta:   map[string]string{"version": "v1"},
					Checks: []admin.Check{{ID: "alive", Status: "passing"}},
				}}
			}
			return e
		},
	}
}

// journeys answers with what it was asked, unless nothing is known yet.
func journeys(discovery *admin.Discovery) func(context.Context, journey.Question) (journey.Journey, error) {
	return func(_ context.Context, q journey.Question) (journey.Journey, error) {
		if d := discovery.Chain(snapshot.ChainKey{Service: q.Service}); d.Unknown != "" {
			return journey.Journey{}, errors.New("nothing is known yet: " + d.Unknown)
		}
		if q.Service == "other" {
			return journey.Journey{}, &journey.UnknownTargetError{Name: "x", Targets: []string{"y"}}
		}
		return journey.Journey{Service: q.Service, Datacenter: "dc1", Request: q.Request, Traffic: []journey.Share{{
			Target: fmt.Sprintf("%s.default.default.dc1 of %s without %s", q.Service, "dc1", q.Without), Percent: 100,
		}}}, nil
	}
}
