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

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// link is the one connection to the RPC port of a server, on which all event streams are. When it is
// lost, the next server is tried.
type link struct {
	source  *Source
	servers []string // as configured; empty means that the agent is asked
	secure  func(server string) (*tls.Config, error)

	changed signal // there is a connection, or none can be had

	mu     sync.Mutex
	conn   *grpc.ClientConn
	server string // of conn, or of the last one
	reason error  // why there is no connection; nil while it is being looked for
}

// run keeps a connection until ctx ends.
func (l *link) run(ctx context.Context) {
	retry := exponential(l.source.limits.RetryMin, l.source.limits.RetryMax)
	for ctx.Err() == nil {
		conn, server, err := l.connect(ctx)
		if err != nil {
			l.set(nil, "", err)
			pause(ctx, retry.NextBackOff(), nil)
			continue
		}
		retry.Reset()
		l.set(conn, server, nil)
		conn.WaitForStateChange(ctx, connectivity.Ready)
		l.set(nil, server, nil)
		conn.Close()
		pause(ctx, rand.N(l.source.limits.RetryMin), nil)
	}
}

// set records a change and tells who waits for it.
func (l *link) set(conn *grpc.ClientConn, server string, reason error) {
	l.mu.Lock()
	l.conn, l.reason = conn, reason
	if server != "" {
		l.server = server
	}
	l.mu.Unlock()
	l.changed.give()
}

// get returns the connection and its server, or why there is none; the channel is closed when that has
// changed.
func (l *link) get() (conn *grpc.ClientConn, server string, reason error, changed <-chan struct{}) {
	changed = l.changed.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn, l.server, l.reason, changed
}

// await returns the connection, once there is one, and an error when none can be had.
func (l *link) await(ctx context.Context) (*grpc.ClientConn, string, error) {
	for {
		conn, server, reason, changed := l.get()
		if conn != nil || reason != nil {
			return conn, server, reason
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// connect tries the servers in turn, from the one after the last.
func (l *link) connect(ctx context.Context) (*grpc.ClientConn, string, error) {
	servers, err := l.candidates(ctx)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime+dialTime/2) // of them all: a fleet waits
	defer cancel()
	var failed []string
	for _, server := range servers {
		secure, err := l.secure(server)
		if err != nil {
			return nil, "", err
		}
		conn, err := dial(ctx, server, secure)
		if err == nil {
			return conn, server, nil
		}
		failed = append(failed, err.Error())
	}
	slices.Sort(failed) // to be the same from whichever server it began
	return nil, "", errors.New(strings.Join(failed, "; "))
}

// candidates returns the servers in the order to try: those after the last one first, at the start from
// any of them, so that replicas spread.
func (l *link) candidates(ctx context.Context) ([]string, error) {
	servers := slices.Clone(l.servers)
	if len(servers) == 0 {
		opts := (&api.QueryOptions{}).WithContext(ctx)
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		if _, err := l.source.client.Raw().Query("/v1/status/peers", &servers, opts.WithContext(ctx)); err != nil {
			return nil, l.source.explain(query{path: "/v1/status/peers"}, err)
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("consul names no servers: name them with --consul-servers")
	}
	l.mu.Lock()
	last := l.server
	l.mu.Unlock()
	from := rand.N(len(servers))
	if i := slices.Index(servers, last); i >= 0 {
		from = i + 1
	}
	return append(servers[from%len(servers):], servers[:from%len(servers)]...), nil
}
