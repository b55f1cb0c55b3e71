package xds

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// agents are how gRPC's libraries call themselves, each by how its name begins; the first that fits counts.
var agents = []struct {
	prefix  string
	dialect snapshot.Dialect
}{
	{"gRPC Go", snapshot.DialectGRPCGo},
	{"gRPC Java", snapshot.DialectGRPCJava},
	{"gRPC Node", snapshot.DialectGRPCNode},
	{"gRPC C-core", snapshot.DialectGRPCCore},
	{"gRPC ", snapshot.DialectGRPCUnread},
}

func dialectOf(agent string) snapshot.Dialect {
	for _, a := range agents {
		if strings.HasPrefix(agent, a.prefix) {
			return a.dialect
		}
	}
	return snapshot.DialectEnvoy
}

// maxAsked bounds the listeners that a gRPC client asks for: each costs a plan and resources.
const maxAsked = 1000

// ask looks at what a gRPC client asks for by name, which is what it is planned by. The caller holds the lock of
// the session.
func (st *stream) ask() error {
	names := st.asked()
	if len(names) > maxAsked {
		return &session.LimitError{Names: len(names), Max: maxAsked}
	}
	st.ahead = !slices.Equal(names, st.names)
	st.named = st.named || len(names) > 0
	return nil
}

// asked are the listeners that the client asks for, sorted. The caller holds the lock of the session.
func (st *stream) asked() []string {
	t, _ := session.TypeByURL(session.ListenerURL)
	return st.session.Asked(t)
}

// wanted returns the names that the client asks for, and whether they are others than it is planned by.
func (st *stream) wanted() (names []string, others bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.ahead {
		return nil, false
	}
	return st.asked(), true
}

// adopt notes by which names the client is planned.
func (st *stream) adopt(names []string) {
	st.mu.Lock()
	st.names, st.ahead = names, false
	st.mu.Unlock()
}

// planned is the client as it is planned by names.
func (st *stream) planned(names []string) snapshot.Client {
	c := st.client
	c.Names = names
	return c
}

// follow plans a client anew that asks for other names than before. Until then it is told nothing: what it has
// come to ask for would be absent. One that changes its mind all the time is read no faster than that.
func (s *Server) follow(ctx context.Context, st *stream) error {
	names, others := st.wanted()
	if !others {
		return nil
	}
	if err := st.pace.wait(ctx); err != nil {
		return err
	}
	s.pub.replan(st, names)
	st.adopt(names)
	st.wake()
	return nil
}

// pace lets a number of events through at once, and then one after the other. The zero value is ready. It is
// for one goroutine.
type pace struct{ free time.Time }

const (
	paceBurst = 100
	paceEvery = 20 * time.Millisecond
)

func (p *pace) wait(ctx context.Context) error {
	now := time.Now()
	if earliest := now.Add(-paceBurst * paceEvery); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(paceEvery)
	d := p.free.Sub(now)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
