package integration_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// TestWhatNobodyNeedsIsFollowedForAWhile holds that what only a client needed that left is needed no longer,
// and followed for one while more.
func TestWhatNobodyNeedsIsFollowedForAWhile(t *testing.T) {
	t.Parallel()
	const linger = 4 * time.Second
	consul := testenv.StartConsul(t)
	for _, s := range []string{"api", "stock"} {
		consul.RegisterService(testenv.Service{Name: s, Port: 8080})
	}
	source, err := consulwatch.New(consulwatch.Config{API: consul.Config(), Limits: consulwatch.Limits{Linger: linger}})
	if err != nil {
		t.Fatal(err)
	}
	store := facts.New()
	server := xds.NewServer(xds.Config{
		Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
		Datacenter: "dc1", TrustDomain: trustDomain, Linger: linger,
	})
	conn := running(t, source, store, server)
	var endpoints atomic.Int64
	imitate(t, conn, "web-1", &endpoints)
	topic := facts.Health("dc1", "api")
	// follows reports whether the topic is followed, and whether somebody needs it.
	follows := func() (followed, needed bool) {
		for _, s := range source.Status() {
			if s.Topic == topic {
				return true, !s.Lingering
			}
		}
		return false, false
	}
	is := func(followed, needed bool) func() error {
		return func() error {
			if f, n := follows(); f != followed || n != needed {
				return fmt.Errorf("followed %v, needed %v; want %v and %v", f, n, followed, needed)
			}
			return nil
		}
	}
	testenv.Eventually(t, patience, is(true, true))
	testenv.Eventually(t, patience, func() error {
		if n := endpoints.Load(); n < 2 {
			return fmt.Errorf("%d endpoint sets came", n)
		}
		return nil
	})
	left := time.Now()
	_ = conn.Close()
	testenv.Eventually(t, linger/2, is(true, false))
	testenv.Throughout(t, linger/4, is(true, false))
	testenv.Eventually(t, patience, is(false, false))
	t.Logf("followed for %v after the client left", time.Since(left))
	if d, most := time.Since(left), linger+linger/2; d > most {
		t.Errorf("followed for %v after the last client left; want %v at most", d, most)
	}
}

// running runs a source and a server of what it says, and returns a connection to the server.
func running(t *testing.T, source *consulwatch.Source, store *facts.Store, server *xds.Server) *grpc.ClientConn {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(xds.ServerOptions()...)
	server.Register(g)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = source.Run(ctx, store) }) // it returns nothing else than nil
	group.Go(func() { _ = server.Run(ctx) })
	group.Go(func() { _ = g.Serve(lis) })
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		g.Stop()
		group.Wait()
	})
	return conn
}
