package consulwatch

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/facts/factstest"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestConformsToTheSuiteOfSources(t *testing.T) {
	t.Parallel()
	c := testenv.StartConsul(t)
	for _, how := range []Follow{FollowStream, FollowPoll} {
		t.Run(string(how), func(t *testing.T) {
			factstest.Run(t, func(*testing.T) factstest.Harness { return &harness{consul: c, store: facts.New(), follow: how} })
		})
	}
}

// harness is a source on a Consul that several harnesses share.
type harness struct {
	consul *testenv.Consul
	store  *facts.Store
	follow Follow
}

func (h *harness) Store() *facts.Store { return h.store }

func (h *harness) Datacenter() string { return h.consul.Datacenter() }

// Start returns when what is always followed is loaded: the suite counts changes from then on.
func (h *harness) Start(t testing.TB) {
	t.Helper()
	cfg := with(h.consul, "")
	cfg.Limits, cfg.Follow = impatient(), h.follow
	source, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, h.store) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	testenv.Eventually(t, soon, func() error {
		if ok, reason := h.store.View().Ready(h.Datacenter()); !ok {
			return errors.New(reason)
		}
		return nil
	})
}

func (h *harness) PutEntry(t testing.TB, json string) {
	t.Helper()
	h.consul.WriteEntry(json)
}

func (h *harness) DeleteEntry(t testing.TB, kind chain.Kind, name string) {
	t.Helper()
	h.consul.DeleteEntry(string(kind), name)
}

func (h *harness) Register(t testing.TB, s factstest.ServiceSpec) {
	t.Helper()
	s = s.WithDefaults()
	out := testenv.Service{
		Name: s.Name, ID: s.ID, Address: s.Address, Port: s.Port, Tags: s.Tags, Meta: s.Meta, Status: string(s.Status),
		Weights: &api.AgentWeights{Passing: s.Weights.Passing, Warning: s.Weights.Warning},
	}
	if s.Proxy != nil {
		out.Kind = api.ServiceKindConnectProxy
		out.Proxy = &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: s.Proxy.DestinationServiceName, DestinationServiceID: s.Proxy.DestinationServiceID,
			LocalServiceAddress: s.Proxy.LocalServiceAddress, LocalServicePort: s.Proxy.LocalServicePort,
		}
		for _, u := range s.Proxy.Upstreams {
			out.Proxy.Upstreams = append(out.Proxy.Upstreams, api.Upstream{
				DestinationName: u.DestinationName, LocalBindAddress: u.LocalBindAddress, LocalBindPort: u.LocalBindPort,
				Datacenter: u.Datacenter,
			})
		}
	}
	h.consul.RegisterService(out)
}

func (h *harness) Deregister(t testing.TB, id string) {
	t.Helper()
	h.consul.Deregister(id)
}
