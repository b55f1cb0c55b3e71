package consulwatch

import (
	"cmp"
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
	home    string // the datacenter of the servers that the agent names, once known; only run touches it

	changed signal // there is a connection, or none can be had
	renew   signal // the certificates are others: another connection is wanted

	mu     sync.Mutex
	now    *connection
	last   string   // the server that was tried last
	named  []string // the servers that the agent named last
	reason error    // why there is no connection; nil while it is being looked for
}

// connection is a connection to a server's RPC port.
type connection struct {
	conn   *grpc.ClientConn
	server string
	left   chan struct{} // closed when the streams are to go to another connection
}

// connectMax bounds the time between attempts to connect: they are few, and cost little. A connection that
// is lost sooner is no success.
const connectMax = 3 * time.Second

// leaveTime is what streams get to leave a connection for another.
const leaveTime = 2 * time.Second

// run keeps a connection until ctx ends.
func (l *link) run(ctx context.Context) {
	least := l.source.limits.RetryMin
	retry := exponential(least, min(l.source.limits.RetryMax, connectMax))
	var leaving sync.WaitGroup
	defer leaving.Wait()
	short := 0 // how many connections in a row were lost soon
	for ctx.Err() == nil {
		recovered := l.source.recovered.next()
		renew := l.renew.next() // before the certificates are looked at
		c, err := l.connect(ctx)
		if err != nil {
			l.set(nil, err)
			pause(ctx, retry.NextBackOff(), recovered)
			continue
		}
		began := time.Now()
		l.set(c, nil)
		for c != nil {
			c, renew = l.keep(ctx, c, renew, &leaving)
		}
		if time.Since(began) > connectMax {
			retry.Reset()
			short = 0
			l.set(nil, nil)
			pause(ctx, rand.N(least), nil)
			continue
		}
		short++
		l.set(nil, l.unsteady(short))
		pause(ctx, retry.NextBackOff(), nil)
	}
}

// unsteady is why there is no connection when so many in a row were lost soon: one may be chance, and
// another is there at once, but nobody is to wait for the end of a series.
func (l *link) unsteady(short int) error {
	if short < 2 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("the server %s ends connections for events soon after it has taken them, as did the one tried before", l.last)
}

// keep holds a connection until it is lost, and returns the one that has replaced it, if any, and what
// tells that this one is to be renewed.
func (l *link) keep(ctx context.Context, c *connection, renew <-chan struct{}, leaving *sync.WaitGroup) (*connection, <-chan struct{}) {
	using, end := context.WithCancel(ctx) // as long as the connection is there
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		defer end()
		c.conn.WaitForStateChange(using, connectivity.Ready)
	}()
	defer func() {
		end()
		<-lost
	}()
	select {
	case <-lost:
		c.conn.Close()
		return nil, renew
	case <-renew:
	}
	renew = l.renew.next() // what is given from here on is for the next
	next, err := l.connect(using)
	switch {
	case err == nil:
	case using.Err() != nil:
		c.conn.Close()
		return nil, renew
	default:
		l.source.log.Warn("the connection for events stays as it is: with what was read again there is none", "reason", err)
		return c, renew
	}
	l.set(next, nil)
	close(c.left)
	leaving.Go(func() {
		pause(ctx, leaveTime, nil)
		c.conn.Close()
	})
	return next, renew
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

// connectTime is what all servers together get to take a connection while topics wait for one: what is
// wanted can be asked for by queries. leastShare is what one of many gets of it.
const (
	connectTime = dialTime + dialTime/2
	leastShare  = time.Second
)

// connect tries the servers in turn, from the one after the last. While topics wait for the outcome each
// gets its share of the time, so that those that say nothing do not hide the next.
func (l *link) connect(ctx context.Context) (*connection, error) {
	servers, err := l.candidates(ctx)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(connectTime)
	hurry := l.awaited()
	var failed []string
	for i, server := range servers {
		share := dialTime
		if left := time.Until(end); hurry {
			share = min(share, max(leastShare, left/time.Duration(len(servers)-i)))
		}
		c, err := l.dial(ctx, server, share)
		if err == nil {
			return c, nil
		}
		failed = append(failed, err.Error())
		l.tried(server)
		if ctx.Err() != nil || hurry && time.Now().After(end) {
			break
		}
	}
	slices.Sort(failed) // to be the same from whichever server it began
	return nil, errors.New(strings.Join(failed, "; "))
}

// awaited reports whether topics wait for a connection, because it is not said yet that there is none.
func (l *link) awaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now == nil && l.reason == nil
}

// tried notes that a server was of no use: the next attempt begins with the one after it.
func (l *link) tried(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = withoutScheme(server)
}

// dial connects to a server within a time.
func (l *link) dial(ctx context.Context, server string, within time.Duration) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
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
	datacenter, err := s.home(ctx)
	if err != nil {
		return nil, err
	}
	return s.access.rpc(datacenter)
}

// home returns the datacenter of the servers that are connected to: the agent's own when it names them,
// whichever datacenter is configured.
func (s *Source) home(ctx context.Context) (string, error) {
	l := s.link
	if s.datacenter == "" || len(l.servers) > 0 {
		return s.Datacenter(ctx)
	}
	if l.home == "" {
		home, err := s.askDatacenter(ctx)
		if err != nil {
			return s.datacenter, nil // most often it is the same
		}
		l.home = home
	}
	return l.home, nil
}

// candidates returns the servers in the order to try: those after the last one first, at the start from
// any of them, so that replicas spread.
func (l *link) candidates(ctx context.Context) ([]string, error) {
	servers := slices.Clone(l.servers)
	if len(servers) == 0 {
		var err error
		if servers, err = l.ask(ctx); err != nil {
			return nil, err
		}
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

// rememberedTime is what the agent gets for an answer when the one from before will do.
const rememberedTime = time.Second

// ask returns the servers that the agent names, and while it does not, those that it named last: an agent
// that is down is no reason to have no events.
func (l *link) ask(ctx context.Context) ([]string, error) {
	l.mu.Lock()
	known := l.named
	l.mu.Unlock()
	within := dialTime
	if len(known) > 0 {
		within = rememberedTime
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	servers, err := l.source.servers(asking)
	switch {
	case len(servers) > 0:
		known = servers
		l.mu.Lock()
		l.named = servers
		l.mu.Unlock()
	case len(known) == 0:
		return nil, cmp.Or(err, errNoServers)
	}
	return slices.Clone(known), nil
}
