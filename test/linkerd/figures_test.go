//go:build e2e

package linkerd_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// The figures that are promised of a crowd of streams on one service.
const (
	crowdStreams   = 1000
	crowdInstances = 100
	mostFlip       = 30 * time.Millisecond
	mostMemory     = 60 << 10
	// noise is by how much a busy machine may lengthen what is a matter of time.
	noise = 10
	// slower is by how much the race detector lengthens the work.
	slower = 8
)

// crowd is many streams on one name, all of which are told the same.
type crowd struct {
	messages atomic.Int64
	failed   atomic.Pointer[string]
	first    chan time.Time // when a message came to the first of all
	last     chan time.Time // and to the last
}

// gather opens streams on a few connections, as a fleet of proxies has them.
func gather(t *testing.T, addr, name string) *crowd {
	t.Helper()
	c := &crowd{first: make(chan time.Time, 10), last: make(chan time.Time, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	const connections = 4
	for range connections {
		client := pb.NewDestinationClient(dial(t, addr))
		for i := range crowdStreams / connections {
			st, err := client.Get(ctx, &pb.GetDestination{Path: name, ContextToken: fmt.Sprintf(`{"nodeName":"n%d"}`, i)})
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() { c.follow(st) })
		}
	}
	return c
}

// dial connects to a server that comes and goes.
func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	again := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond}, MinConnectTimeout: patience}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(again))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// follow counts the messages of a stream. Each change is one for each stream, and is over before the next.
func (c *crowd) follow(st grpc.ServerStreamingClient[pb.Update]) {
	for {
		if _, err := st.Recv(); err != nil {
			text := err.Error()
			c.failed.CompareAndSwap(nil, &text)
			return
		}
		switch c.messages.Add(1) % crowdStreams {
		case 1:
			c.first <- time.Now()
		case 0:
			c.last <- time.Now()
		}
	}
}

// all returns when a message came to the first stream and to the last.
func (c *crowd) all(t *testing.T) (first, last time.Time) {
	t.Helper()
	select {
	case last = <-c.last:
		return <-c.first, last
	case <-time.After(patience):
		t.Fatalf("%d messages came to %d streams; a stream ended: %v", c.messages.Load(), crowdStreams, c.failed.Load())
	}
	return first, last
}

// inUse is the memory that catenary needs, after its collector has run.
func inUse(t *testing.T, c *testenv.Catenary) (live, resident float64) {
	t.Helper()
	for range 2 { // what a pool has is let go by the second
		if code, _, err := testenv.Get("http://"+c.AdminAddr+"/debug/pprof/heap?gc=1", nil); err != nil || code != http.StatusOK {
			t.Fatalf("its collector cannot be run: %d, %v", code, err)
		}
	}
	m := c.Metrics()
	return m["go_memstats_heap_alloc_bytes"] + m["go_memstats_stack_inuse_bytes"], m["process_resident_memory_bytes"]
}

func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(raw))[:3], " ")
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func TestWhatACrowdCosts(t *testing.T) {
	s := start(t)
	var ids []string
	for i := range crowdInstances {
		id := fmt.Sprintf("api-%d", i)
		ids = append(ids, id)
		s.RegisterService(testenv.Service{Name: "api", ID: id, Address: fmt.Sprintf("10.0.1.%d", i+1), Port: 8080})
	}
	s.heard(t, "api", "10.0.1.1:", fmt.Sprintf("10.0.1.%d:", crowdInstances))
	heapBefore, residentBefore := inUse(t, s.catenary)
	c := gather(t, s.catenary.GRPCAddr, "api.service.consul:8080")
	c.all(t)
	heap, resident := inUse(t, s.catenary)
	each := (heap - heapBefore) / crowdStreams
	t.Logf("a stream takes %.1f KiB of heap and stacks, %.1f KiB resident", each/1024, (resident-residentBefore)/crowdStreams/1024)
	if each > mostMemory {
		t.Errorf("a stream takes %.0f bytes, want %d at most", each, mostMemory)
	}

	before := s.catenary.Metrics()
	flips, most := 30, mostFlip
	if testenv.Race() {
		flips, most = 10, slower*mostFlip
	}
	var fanOut, fromWrite, written []time.Duration
	pace := time.NewTicker(50 * time.Millisecond) // each flip is alone
	defer pace.Stop()
	for flip := range flips {
		<-pace.C
		status := []string{api.HealthCritical, api.HealthPassing}[flip%2]
		began := time.Now()
		s.SetCheck(ids[7], status)
		done := time.Since(began)
		first, last := c.all(t)
		fanOut, fromWrite, written = append(fanOut, last.Sub(first)), append(fromWrite, last.Sub(began)), append(written, done)
	}
	after := s.catenary.Metrics()
	cpu := time.Duration((after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / float64(flips) * float64(time.Second))
	t.Logf("a flip to the last of %d streams: %v p50 from the first that has it, %v p50 from the call of Consul, which took %v; %v of CPU; load %s",
		crowdStreams, median(fanOut), median(fromWrite), median(written), cpu, load())
	for name, want := range map[string]float64{
		`catenary_xds_resources_encoded_total{type="linkerd-endpoints"}`: float64(flips),
		`catenary_xds_responses_total{type="linkerd-endpoints"}`:         float64(flips * crowdStreams),
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%d flips changed %s by %v, want %v", flips, name, got, want)
		}
	}
	// The time that catenary works is the same however busy the machine is; the time that passes is not.
	if took := median(fromWrite); took > noise*most {
		t.Errorf("a flip took %v to the last of %d streams", took, crowdStreams)
	}
	if cpu > most {
		t.Errorf("a flip took %v of CPU for %d streams, want %v at most", cpu, crowdStreams, most)
	}
}

// TestAColdStartHidesNoEndpoints has clients come back, a hundred a second, while catenary begins to read a Consul
// with many services, again and again. None is told that a service has no endpoints, and each is told of all at once.
func TestAColdStartHidesNoEndpoints(t *testing.T) {
	t.Parallel() // nothing of it is a matter of time
	s := start(t)
	const services, instances, rounds = 200, 2, 3
	for i := range services {
		for k := range instances {
			s.RegisterService(testenv.Service{
				Name: fmt.Sprintf("s%d", i), ID: fmt.Sprintf("s%d-%d", i, k), Address: fmt.Sprintf("10.1.%d.%d", i, k+1), Port: 80,
			})
		}
	}
	s.heard(t, fmt.Sprintf("s%d", services-1), fmt.Sprintf("10.1.%d.%d:", services-1, instances))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	stop := func() { cancel(); group.Wait() }
	defer stop()
	client := pb.NewDestinationClient(dial(t, s.catenary.GRPCAddr))
	var served, early atomic.Int64
	var ready atomic.Bool
	group.Go(func() {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
			name := fmt.Sprintf("s%d.service.consul", i%services)
			before := !ready.Load()
			group.Go(func() {
				err := comeBack(ctx, client, name, func(u *pb.Update) error {
					if n := len(u.GetAdd().GetAddrs()); n != instances {
						return fmt.Errorf("%s was told %v, want all %d endpoints", name, u, instances)
					}
					served.Add(1)
					if before {
						early.Add(1)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	})
	for range rounds {
		ready.Store(false)
		s.catenary.Restart()
		testenv.Eventually(t, patience, s.catenary.Ready)
		ready.Store(true)
		goal := served.Load() + 100
		testenv.Eventually(t, patience, func() error {
			if n := served.Load(); n < goal {
				return fmt.Errorf("%d streams were served, not %d", n, goal)
			}
			return nil
		})
	}
	stop()
	t.Logf("%d streams were served, %d of them had come before catenary was ready; load %s", served.Load(), early.Load(), load())
	if early.Load() == 0 {
		t.Error("no stream came while catenary was reading")
	}
}

// comeBack subscribes, also while there is no server, and takes what is told until the stream has been silent for a
// while or ends.
func comeBack(ctx context.Context, client pb.DestinationClient, name string, take func(*pb.Update) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(patience, cancel)
	defer silence.Stop()
	st, err := client.Get(ctx, &pb.GetDestination{Path: name}, grpc.WaitForReady(true))
	for err == nil {
		var u *pb.Update
		if u, err = st.Recv(); err != nil {
			break
		}
		if err := take(u); err != nil {
			return err
		}
		silence.Reset(time.Second)
	}
	if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled {
		return fmt.Errorf("the stream of %s ended: %w", name, err)
	}
	return nil
}
