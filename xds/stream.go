package xds

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// stream is one client's connection. One goroutine reads from it, one writes to it, and its handler
// watches over both; the publisher only marks what may have changed.
type stream struct {
	// set before it is shared
	id        string // unique among streams
	client    snapshot.Client
	version   string
	grant     *Grant
	form      session.Form
	peer      net.Addr
	connected time.Time

	bell chan struct{}
	// writing is when the response on its way was handed to the connection, in nanoseconds; 0 when
	// none is.
	writing atomic.Int64

	// the reader's
	warned time.Time // that it refused something
	names  []string  // that a gRPC client asks for, and is planned by
	pace   pace      // of their changes

	dirtyMu sync.Mutex // guards dirty and flooded, and is held for as long as it takes to note a name
	dirty   []dirt
	flooded bool // more changed than is noted one by one

	mu      sync.Mutex // guards all below
	session *session.Session
	seen    *snapshot.Plan // by the session
	ahead   bool           // the session is of the plan: a gRPC client asks for other names
	named   bool           // a gRPC client has asked for one
}

// dirt is a resource that may have changed.
type dirt struct {
	typ  *session.Type
	name string
}

// maxDirty bounds what is noted of a stream that is slow to look: beyond it everything is compared.
const maxDirty = 64

// mark notes that a resource may have changed, and wakes the writer.
func (st *stream) mark(d dirt) {
	st.dirtyMu.Lock()
	if len(st.dirty) < maxDirty {
		st.dirty = append(st.dirty, d)
	} else {
		st.flooded = true
	}
	st.dirtyMu.Unlock()
	st.wake()
}

// tell hands what was noted to the session. The caller holds the lock of the session.
func (st *stream) tell() {
	st.dirtyMu.Lock()
	defer st.dirtyMu.Unlock()
	for _, d := range st.dirty {
		st.session.Dirty(d.typ, d.name)
	}
	if st.flooded {
		st.session.DirtyAll()
	}
	clear(st.dirty)
	st.dirty, st.flooded = st.dirty[:0], false
}

// wake has the writer look at the root again.
func (st *stream) wake() { ring(st.bell) }

func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// serve runs one stream until it ends. The first request names the node.
func (s *Server) serve(t transport) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &reader{transport: t, first: make(chan *session.Request, 1), opened: make(chan *stream, 1), ended: make(chan error, 2)}
	go func() { r.ended <- s.read(ctx, r) }()
	req, err := s.greet(ctx, r)
	if err != nil {
		return err
	}
	st, err := s.open(t.call, req)
	if err != nil {
		return err
	}
	defer s.close(st)
	r.opened <- st
	go func() { r.ended <- s.write(ctx, t, st) }()
	return s.watch(ctx, st, r.ended)
}

// reader is the reading side of a stream.
type reader struct {
	transport
	first  chan *session.Request
	opened chan *stream
	ended  chan error // why reading or writing ended
}

// greet waits for the first request.
func (s *Server) greet(ctx context.Context, r *reader) (*session.Request, error) {
	timeout := time.NewTimer(s.cfg.FirstRequestWithin)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return nil, errEnding
	case err := <-r.ended:
		return nil, quiet(err)
	case <-timeout.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no request within %s of opening the stream", s.cfg.FirstRequestWithin)
	case req := <-r.first:
		return req, nil
	}
}

// read takes in requests until the stream ends, one at a time: there is no queue.
func (s *Server) read(ctx context.Context, r *reader) error {
	req, err := r.recv(true)
	if err != nil {
		return err
	}
	r.first <- req
	var st *stream
	select {
	case <-ctx.Done():
		return ctx.Err()
	case st = <-r.opened:
	}
	for {
		if req, err = r.recv(false); err != nil {
			return err
		}
		due, err := s.request(st, req)
		if err != nil {
			return err
		}
		if err := s.follow(ctx, st); err != nil {
			return err
		}
		if due {
			st.wake()
		}
	}
}

// watch waits for the end of a stream. A client that does not read what it is sent ends it too: it
// would keep the stream, and all that is needed for it, for as long as its connection lives.
func (s *Server) watch(ctx context.Context, st *stream, ended <-chan error) error {
	look := time.NewTimer(s.cfg.AnswerWithin)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return errEnding
		case err := <-ended:
			return quiet(err)
		case <-st.grant.Revoked:
			return st.grant.Err()
		case now := <-look.C:
			wait := s.cfg.AnswerWithin
			if since := st.writing.Load(); since != 0 {
				if wait -= now.Sub(time.Unix(0, since)); wait <= 0 {
					return st.unresponsive()
				}
			}
			look.Reset(wait)
		}
	}
}

// quiet is the end of a stream; nil when its client has said all it wanted to.
func quiet(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// write sends what is due until the stream ends. It listens to nothing but its bell, which is what most
// turns wait for: also the timer and the end ring it.
func (s *Server) write(ctx context.Context, t transport, st *stream) error {
	var due time.Time // of the timer
	// The runtime may keep a timer that was stopped until its time: it must not hold the stream.
	bell := st.bell
	timer := time.AfterFunc(time.Hour, func() { ring(bell) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, st.wake)()
	for ctx.Err() == nil {
		wake, err := s.turn(t, st)
		if err != nil {
			return err
		}
		// A timer that rings early does no harm, so it is not put off.
		if now := time.Now(); !wake.IsZero() && (wake.Before(due) || !now.Before(due)) {
			due = wake
			timer.Reset(max(wake.Sub(now), time.Millisecond))
		}
		<-st.bell
	}
	return ctx.Err()
}

// turn sends what is due, and says when to look again at the latest.
func (s *Server) turn(t transport, st *stream) (wake time.Time, err error) {
	now := time.Now()
	out, wake, dead := st.take(now, s.pub.root.Load)
	if dead {
		return wake, st.unresponsive()
	}
	for i := range out {
		st.writing.Store(now.UnixNano())
		err := t.SendMsg(&out[i])
		st.writing.Store(0)
		if err != nil {
			return wake, err
		}
		s.cfg.Metrics.Response(out[i].Type.Name, len(out[i].Resources), out[i].Bytes())
		for range out[i].Overdue {
			s.cfg.Metrics.RouteWaited()
		}
	}
	return wake, nil
}

func (st *stream) unresponsive() error {
	return status.Errorf(codes.DeadlineExceeded,
		"proxy %q has not answered what it was sent for too long; connect again", st.client.ID)
}

// unnamed reports whether it is not known yet what a gRPC client has: one that comes back may ask for its clusters
// before it asks for the listeners that lead to them. The caller holds the lock.
func (st *stream) unnamed() bool { return st.client.Dialect.GRPC() && !st.named }

// take moves the session on. The dirt is taken before the root is read: whatever is published after
// that marks the stream again. That the plan is another one is seen by the root itself and not by a
// mark: a turn that saw the new routes without the new clusters would break before it makes.
func (st *stream) take(now time.Time, load func() *root) (out []session.Response, wake time.Time, dead bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.tell()
	deadline := st.session.Deadline()
	if !deadline.IsZero() && !now.Before(deadline) {
		return nil, time.Time{}, true
	}
	r := load()
	at, ok := r.seats.Get([]byte(st.id))
	if !ok || at.plan.Hold != "" || st.ahead || st.unnamed() {
		return nil, deadline, false
	}
	if at.plan != st.seen {
		st.seen = at.plan
		st.session.DirtyAll()
	}
	out, wake = st.session.Turn(now, offer{root: r, seat: at})
	return out, wake, false
}
