package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// simulation is how a simulated checker is.
type simulation struct {
	addr     string // of the server
	id, zone string
	every    time.Duration
	// http has it report as of probes by http, in which more bytes are.
	http bool
	// finds is what it finds of an endpoint by its port.
	finds func(port uint32) corev3.HealthStatus
}

// simulated is a checker that probes nothing and costs little. Like an Envoy it says first of what it is told
// anew that it is unhealthy, and then what it finds.
type simulated struct {
	simulation
	stream grpc.ClientStream
	cancel context.CancelFunc
	stop   func() error

	mu    sync.Mutex
	spec  told
	since map[int]time.Time // when it was told of each port that it has
	young map[int]bool      // those of the last specifier that it has not reported on
	adds  int               // how many it was told of that it did not have
	raw   []byte            // what it reports until something changes
	sent  time.Time
	mute  bool
}

// simulate connects a checker, on a connection of its own, until it is stopped. It says nothing before it greets.
func simulate(s simulation) (*simulated, error) {
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	st, err := conn.NewStream(ctx, desc, streamV3, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		cancel()
		return nil, errors.Join(err, conn.Close())
	}
	c := &simulated{simulation: s, stream: st, cancel: cancel, since: map[int]time.Time{}}
	var group sync.WaitGroup
	var failed [2]error
	group.Go(func() { failed[0] = c.listen(ctx) })
	group.Go(func() { failed[1] = c.report(ctx) })
	c.stop = sync.OnceValue(func() error {
		cancel()
		group.Wait()
		return errors.Join(failed[0], failed[1], conn.Close())
	})
	return c, nil
}

// greet says who it is.
func (c *simulated) greet() error {
	m := hello(c.id)
	if c.zone != "" {
		m.GetHealthCheckRequest().GetNode().Locality = &corev3.Locality{Region: "r", Zone: c.zone}
	}
	return c.stream.SendMsg(encode(m))
}

func encode(m proto.Message) []byte {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err) // a message of the test's own
	}
	return raw
}

func encodeStruct(key string, number float64) []byte {
	return encode(&structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewNumberValue(number)}})
}

// listen follows specifiers until it is stopped; any other end is an error.
func (c *simulated) listen(ctx context.Context) error {
	for {
		var raw []byte
		if err := c.stream.RecvMsg(&raw); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the stream of %s ended: %w", c.id, err)
		}
		now := time.Now()
		spec, err := readSpecifier(raw)
		if err != nil {
			return err
		}
		c.take(now, spec)
	}
}

// take follows a specifier.
func (c *simulated) take(now time.Time, spec told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.since
	c.spec, c.raw, c.since, c.young = spec, nil, make(map[int]time.Time, len(before)), map[int]bool{}
	spec.ports(func(port int) {
		at, ok := before[port]
		if !ok {
			at = now
			c.young[port] = true
			c.adds++
		}
		c.since[port] = at
	})
	if spec == nil {
		c.spec = told{} // to report on nothing is not to be silent
	}
}

func (c *simulated) report(ctx context.Context) error {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if raw := c.says(); raw != nil && c.stream.SendMsg(raw) != nil {
			return nil // listen knows why
		}
	}
}

// says is what it reports now, nil for nothing.
func (c *simulated) says() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spec == nil || c.mute {
		return nil
	}
	c.sent = time.Now()
	if len(c.young) > 0 {
		raw := c.spec.report(c.http, func(port uint32) corev3.HealthStatus {
			if c.young[int(port)] {
				return corev3.HealthStatus_UNHEALTHY
			}
			return c.finds(port)
		})
		clear(c.young)
		return raw
	}
	if c.raw == nil {
		c.raw = c.spec.report(c.http, c.finds)
	}
	return c.raw
}

// has are the ports that it is told to probe.
func (c *simulated) has() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.since))
}

// quiet waits until it has reported what it finds of all that it was told.
func (c *simulated) quiet(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.raw == nil {
			return fmt.Errorf("%s has not reported", c.id)
		}
		return nil
	})
}

// set changes what it does.
func (c *simulated) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.raw = nil
}

// toldOf is when it was told of a port that it has.
func (c *simulated) toldOf(port int) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since[port]
}
