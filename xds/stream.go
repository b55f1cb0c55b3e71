package xds

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// stream is one client's connection. One goroutine, in serve, writes to it; the publisher only marks
// what may have changed.
type stream struct {
	// set before it is shared
	id        string // unique among streams
	client    snapshot.Client
	version   string
	form      session.Form
	peer      net.Addr
	connected time.Time

	view *clientView // the publisher's, under its lock

	bell chan struct{}

	mu      sync.Mutex // guards all below
	session *session.Session
	dirty   map[dirt]struct{}
	seen    *clientView // by the session
}

// dirt is a resource that may have changed.
type dirt struct {
	typ  *session.Type
	name string
}

// mark notes that a resource may have changed, and wakes the writer.
func (st *stream) mark(t *session.Type, name string) {
	st.mu.Lock()
	st.dirty[dirt{t, name}] = struct{}{}
	st.mu.Unlock()
	st.wake()
}

// wake has the writer look at the root again.
func (st *stream) wake() {
	select {
	case st.bell <- struct{}{}:
	default:
	}
}

// transport is a stream of either form, as the loop sees it.
type transport interface {
	context() context.Context
	recv() (*session.Request, error)
	send(*session.Response) (bytes int, err error)
	form() session.Form
	peer() net.Addr
}

// serve runs one stream until it ends. The first request names the node.
func (s *Server) serve(t transport) error {
	ctx, cancel := context.WithCancel(t.context())
	defer cancel()
	requests, failed := receive(ctx, t)
	st, err := s.open(ctx, t, requests, failed)
	if err != nil {
		return err
	}
	defer s.close(st)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wake, err := s.turn(t, st)
		if err != nil {
			return err
		}
		timer.Reset(wake)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return errEnding
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil // the client has said all it wanted to
			}
			return err
		case req := <-requests:
			if err := s.request(st, req); err != nil {
				return err
			}
		case <-st.bell:
		case <-timer.C:
		}
	}
}

// receive reads requests until the stream ends, one at a time: there is no queue.
func receive(ctx context.Context, t transport) (<-chan *session.Request, <-chan error) {
	requests, failed := make(chan *session.Request), make(chan error, 1)
	go func() {
		for {
			req, err := t.recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	return requests, failed
}

// idle is how long a stream without anything to wait for sleeps at most.
const idle = time.Hour

// turn sends what is due, and says when to look again at the latest.
func (s *Server) turn(t transport, st *stream) (time.Duration, error) {
	now := time.Now()
	out, wake, dead := st.take(now, s.pub.root.Load)
	if dead {
		return 0, st.unresponsive()
	}
	for i := range out {
		n, err := s.write(t, st, &out[i])
		if err != nil {
			return 0, err
		}
		s.cfg.Metrics.Response(out[i].Type.Name, len(out[i].Resources), n)
		for range out[i].Overdue {
			s.cfg.Metrics.RouteWaited()
		}
	}
	if wake.IsZero() {
		return idle, nil
	}
	return max(time.Until(wake), time.Millisecond), nil
}

// write sends a response, unless the client does not read it in time: it would keep the stream and all
// that is needed for it for as long as its connection lives. What it has still to be sent ends with
// the stream.
func (s *Server) write(t transport, st *stream, r *session.Response) (int, error) {
	type result struct {
		bytes int
		err   error
	}
	sent := make(chan result, 1)
	go func() {
		n, err := t.send(r)
		sent <- result{n, err}
	}()
	timeout := time.NewTimer(s.cfg.AnswerWithin)
	defer timeout.Stop()
	select {
	case r := <-sent:
		return r.bytes, r.err
	case <-s.done:
		return 0, errEnding
	case <-timeout.C:
		return 0, st.unresponsive()
	}
}

func (st *stream) unresponsive() error {
	return status.Errorf(codes.DeadlineExceeded,
		"proxy %q has not answered what it was sent for too long; connect again", st.client.ID)
}

// nacks is how often the client has refused what it was sent, if that is what the request may do. The
// caller holds the lock.
func (st *stream) nacks(req *session.Request) int {
	n := 0
	if req.Error == nil {
		return n
	}
	for _, t := range st.session.Status(time.Time{}).Types {
		n += t.Nacks
	}
	return n
}

// take moves the session on. The dirt is taken before the root is read: whatever is published after
// that marks the stream again. That the plan is another one is seen by the root itself and not by a
// mark: a turn that saw the new routes without the new clusters would break before it makes.
func (st *stream) take(now time.Time, load func() *root) (out []session.Response, wake time.Time, dead bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for d := range st.dirty {
		st.session.Dirty(d.typ, d.name)
	}
	clear(st.dirty)
	deadline := st.session.Deadline()
	if !deadline.IsZero() && !now.Before(deadline) {
		return nil, time.Time{}, true
	}
	r := load()
	view, ok := r.views.Get([]byte(st.id))
	if !ok || view.plan.Hold != "" {
		return nil, deadline, false
	}
	if view != st.seen {
		st.seen = view
		st.session.DirtyAll()
	}
	out, wake = st.session.Turn(now, offer{root: r, view: view})
	return out, wake, false
}
