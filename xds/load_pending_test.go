package xds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// afar is the upstreams of a client as it brings them: some are in other datacenters.
func afar(t *testing.T, id string, ups ...snapshot.Upstream) (*corev3.Node, snapshot.Client) {
	t.Helper()
	list := make([]any, len(ups))
	for i := range ups {
		ups[i].BindAddress, ups[i].BindPort = "127.0.0.1", 9000+i
		list[i] = map[string]any{"service": ups[i].Service, "datacenter": ups[i].Datacenter, "bind_port": ups[i].BindPort}
	}
	metadata, err := structpb.NewStruct(map[string]any{
		bootstrap.MetadataKey: map[string]any{"service": "web", "upstreams": list},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: id, Cluster: "web", Metadata: metadata},
		snapshot.Client{ID: id, Service: "web", Declared: true, Upstreams: ups}
}

// elsewhere is a datacenter that is known at times.
type elsewhere struct{ *control }

func (e elsewhere) known(n uint32) {
	e.store.Commit(func(tx *facts.Tx) {
		tx.Services("dc2", []string{"stock", "api"}, confirmed)
		for _, s := range []string{"stock", "api"} {
			tx.Instances(facts.Health("dc2", s), []*facts.Instance{numbered(s, n)}, confirmed)
		}
	})
}

func (e elsewhere) unknown() {
	e.store.Commit(func(tx *facts.Tx) {
		for _, topic := range []facts.Topic{facts.Services("dc2"), facts.Health("dc2", "stock"), facts.Health("dc2", "api")} {
			tx.Forget(topic)
		}
		tx.Fail(facts.Services("dc2"), "no path to datacenter dc2")
	})
}

// redirect sends what goes to api to the other datacenter, or not.
func (e elsewhere) redirect(on bool) {
	if !on {
		e.entries(chain.KindServiceResolver)
		return
	}
	e.entries(chain.KindServiceResolver, &chain.ServiceResolver{
		Header: chain.Header{Name: "api"}, Redirect: &chain.Redirect{Datacenter: "dc2"},
	})
}

// step changes something.
func (e elsewhere) step(n uint32) {
	switch rand.IntN(6) {
	case 0:
		e.unknown()
	case 1, 2:
		e.known(n)
	case 3:
		e.redirect(rand.IntN(2) == 0)
	default:
		e.number("api", n)
	}
}

// tells waits until a follower was told the number of a service.
func (f *follower) tells(t *testing.T, service string, n uint32) {
	t.Helper()
	testenv.Eventually(t, 10*time.Second, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		set := parsed(f.held[session.EndpointURL][clusterOf(service)], &endpointv3.ClusterLoadAssignment{})
		if got := numberOf(set); got != n {
			return fmt.Errorf("%s was told %d of %s, want %d", f.node.GetId(), got, service, n)
		}
		return nil
	})
}

// TestPlansThatBecomePendingAndComeBackEndAsTheyAre has clients come and go while what they need becomes
// unknown and known again. What is known all the time is told all the time.
func TestPlansThatBecomePendingAndComeBackEndAsTheyAre(t *testing.T) {
	const rounds, clients = 25, 8
	c := startControl(t, func(cfg *xds.Config) { cfg.Linger = 50 * time.Millisecond })
	e := elsewhere{c}
	c.load("api", "db")
	c.number("db", 0)
	c.number("api", 0)
	e.unknown()
	truth := &fleet{store: c.store}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var guests []*guest
	for i := range clients {
		g := newGuest(t, i)
		guests = append(guests, g)
		conn := c.dial()
		all.Go(func() {
			if err := rejoin(ctx, conn, g.follower, g.again); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	n := uint32(0)
	for range rounds {
		for range 8 {
			n++
			e.step(n)
			if i := rand.IntN(2 * clients); i < clients {
				guests[i].rejoin(ctx)
			}
		}
		n++
		c.number("db", n) // is not held up by what is unknown
		for _, g := range guests {
			g.tells(t, "db", n)
		}
		e.known(n)
		e.redirect(false)
		for _, g := range guests {
			testenv.Eventually(t, 10*time.Second, func() error {
				want, err := truth.wanted(g.client)
				return errors.Join(err, g.differs(want))
			})
		}
	}
	cancel()
	all.Wait()
	c.forgotten()
}

// guest is a client that comes again when it is told to.
type guest struct {
	*follower
	client snapshot.Client
	again  chan struct{}
}

// newGuest is a client of one to three upstreams.
func newGuest(t *testing.T, i int) *guest {
	t.Helper()
	ups := []snapshot.Upstream{{Service: "db"}, {Service: "api"}, {Service: "stock", Datacenter: "dc2"}}[:1+i%3]
	node, client := afar(t, fmt.Sprintf("web-%d", i), ups...)
	return &guest{newFollower(node, i%2 == 0), client, make(chan struct{})}
}

func (g *guest) rejoin(ctx context.Context) {
	select {
	case g.again <- struct{}{}:
	case <-ctx.Done(): // it has failed, and said so
	}
}
