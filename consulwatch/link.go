package consulwatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// link is the one connection to the RPC port of a server, on which all event streams are. When it is
// lost, the next server is tried.
type link struct {
	source  *Source
	servers []string // as configured; empty means that the agent is asked
	secure  func(ctx context.Context, server string) (*tls.Config, error)

	changed signal // there is a connection, or none can be had
	renew   signal // the certificates are others: another connection is wanted

	mu     sync.Mutex
	now    *connection
	last   string // the server of the last connection
	reason error  // why there is no connection; nil while it is being looked for
}

// connection is a connection to a server's RPC port.
type connection struct {
	conn   *grpc.ClientConn
	server string
	left   chan struct{} // closed when the streams are to go to another connection
}

// connectMax bounds the time between attempts to connect: they are few, and cost little.
const connectMax = 3 * time.Second

// leaveTime is what streams get to leave a connection for another.
const leaveTime = 2 * time.Second

// run keeps a connection until ctx ends.
func (l *link) run(ctx context.Context) {
	retry := exponential(l.source.limits.RetryMin, min(l.source.limits.RetryMax, connectMax))
	var leaving sync.WaitGroup
	defer leaving.Wait()
	for ctx.Err() == nil {
		recovered := l.source.recovered.next()
		c, err := l.connect(ctx)
		if err != nil {
			l.set(nil, err)
			pause(ctx, retry.NextBackOff(), recovered)
			continue
		}
		retry.Reset()
		l.set(c, nil)
		for c != nil {
			c = l.keep(ctx, c, &leaving)
		}
		l.set(nil, nil)
		pause(ctx, rand.N(l.source.limits.RetryMin), nil)
	}
}

// keep holds a connection until it is lost, and returns the one that has replaced it, if any.
func (l *link) keep(ctx context.Context, c *connection, leaving *sync.WaitGroup) *connection {
	renew := l.renew.next()
	watching, end := context.WithCancel(ctx)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		c.conn.WaitForStateChange(watching, connectivity.Ready)
	}()
	defer func() {
		end()
		<-lost
	}()
	select {
	case <-lost:
		c.conn.Close()
		return nil
	case <-renew:
	}
	next, err := l.connect(ctx)
	if err != nil {
		l.source.log.Warn("the connection for events stays as it is: with what was read again there is none", "reason", err)
		return c
	}
	l.set(next, nil)
	close(c.left)
	leaving.Go(func() {
		pause(ctx, leaveTime, nil)
		c.conn.Close()
	})
	return next
}

// set records a change and tells who waits for it.
func (l *link) set(c *connection, reason error) {
	l.mu.Lock()
	l.now, l.reason = c, reason
	if c != nil {
		l.last = c.server
	}
	l.mu.Unlock()
	l.changed.give()
}

// get returns the connection, or why there is none; the channel is closed when that has changed.
func (l *link) get() (c *connection, changed <-chan struct{}, reason error) {
	changed = l.changed.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, changed, l.reason
}

// await returns the connection, once there is one, and an error when none can be had.
func (l *link) await(ctx context.Context) (*connection, error) {
	for {
		c, changed, reason := l.get()
		if c != nil || reason != nil {
			return c, reason
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connect tries the servers in turn, from the one after the last.
func (l *link) connect(ctx context.Context) (*connection, error) {
	servers, err := l.candidates(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime+dialTime/2) // of them all: a fleet waits
	defer cancel()
	var failed []string
	for _, server := range servers {
		c, err := l.dial(ctx, server)
		if err == nil {
			return c, nil
		}
		failed = append(failed, err.Error())
	}
	slices.Sort(failed) // to be the same from whichever server it began
	return nil, errors.New(strings.Join(failed, "; "))
}

func (l *link) dial(ctx context.Context, server string) (*connection, error) {
	secure, err := l.secure(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("the server %s: %w", server, err)
	}
	conn, err := dial(ctx, withoutScheme(server), secure)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, server: withoutScheme(server), left: make(chan struct{})}, nil
}

// The schemes that a configured server may have. One without is reached with TLS when there is a
// certificate for Consul.
const (
	schemePlain = "tcp://"
	schemeTLS   = "tls://"
)

func withoutScheme(server string) string {
	return strings.TrimPrefix(strings.TrimPrefix(server, schemePlain), schemeTLS)
}

// secure returns the TLS of the connection to a server; nil means none.
func (s *Source) secure(ctx context.Context, server string) (*tls.Config, error) {
	if strings.HasPrefix(server, schemePlain) || !strings.HasPrefix(server, schemeTLS) && !s.access.secured() {
		return nil, nil
	}
	datacenter, err := s.Datacenter(ctx)
	if err != nil {
		return nil, err
	}
	return s.access.rpc(datacenter)
}

// candidates returns the servers in the order to try: those after the last one first, at the start from
// any of them, so that replicas spread.
func (l *link) candidates(ctx context.Context) ([]string, error) {
	servers := slices.Clone(l.servers)
	if len(servers) == 0 {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		const path = "/v1/status/peers"
		if _, err := l.source.client.Raw().Query(path, &servers, l.source.options(ctx)); err != nil {
			return nil, l.source.explain(query{path: path}, err)
		}
	}
	if len(servers) == 0 {
		return nil, errors.New("consul names no servers: name them with --consul-servers")
	}
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	from := rand.N(len(servers))
	if i := slices.IndexFunc(servers, func(s string) bool { return withoutScheme(s) == last }); i >= 0 {
		from = (i + 1) % len(servers)
	}
	return append(servers[from:], servers[:from]...), nil
}
