package destination

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// call is what a stream of endpoints asks for.
type call struct {
	form, path string
	name       Name
	encoder    Encoder
}

// stream is a call that is served.
type stream struct {
	grpc.ServerStream
	id      string
	call    call
	address string
	since   time.Time
	grant   *Grant
	watcher *watcher
	subject *subject
	timer   *time.Timer // rings when the stream was silent for long enough

	mu       sync.Mutex // guards what status tells
	told     told
	messages int
}

// told is what a stream was told last.
type told struct {
	state     State
	endpoints int
	at        time.Time
}

// open admits a stream and has it follow the answer to its question.
func (s *Server) open(st grpc.ServerStream, c call, q question) (*stream, error) {
	out := &stream{ServerStream: st, call: c, since: time.Now(), watcher: newWatcher(), address: "unknown"}
	if p, ok := peer.FromContext(st.Context()); ok {
		out.address = p.Addr.String()
	}
	out.id = fmt.Sprintf("%s:%s#%d", c.form, c.path, s.lastID.Add(1))
	grant, err := s.cfg.Guard.Admit(st.Context(), out.id)
	if err != nil {
		return nil, err
	}
	out.grant = grant
	q.reader = grant.Reader
	if out.subject, err = s.hub.join(q, out.watcher); err != nil {
		grant.Release()
		return nil, err
	}
	s.hub.atlas.follow(c.encoder.Origin, out.watcher)
	out.timer = time.NewTimer(s.cfg.Keepalive)
	s.mu.Lock()
	s.streams[out] = struct{}{}
	s.mu.Unlock()
	s.cfg.Metrics.StreamOpened(c.form)
	return out, nil
}

func (s *Server) close(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	st.timer.Stop()
	s.hub.leave(st.subject, st.watcher)
	s.hub.atlas.drop(st.call.encoder.Origin, st.watcher)
	st.grant.Release()
	s.cfg.Metrics.StreamClosed(st.call.form)
}

// get serves a stream of endpoints. It holds what it told last, and nothing that it is to tell: when it has
// written, it looks what there is.
func (s *Server) get(raw grpc.ServerStream, c call) error {
	name := c.name
	name.Port = 0
	st, err := s.open(raw, c, question{name: name})
	if err != nil {
		return err
	}
	defer s.close(st)
	var g Get
	for {
		a := st.subject.answer.Load()
		if a.Denied != "" {
			return denied(a.Denied)
		}
		if err := s.tell(st, a.next(&g, s.encoder(st)), &g); err != nil {
			return err
		}
		beat, err := s.wait(st)
		if err != nil {
			return err
		}
		if beat {
			if err := s.tell(st, g.Beat(), &g); err != nil {
				return err
			}
		}
	}
}

// tell sends steps. They are encoded already: as fields that the message does not know they are copied as they are.
func (s *Server) tell(st *stream, steps []Step, g *Get) error {
	for _, step := range steps {
		m := &pb.Update{}
		m.ProtoReflect().SetUnknown([]byte(step))
		if err := st.SendMsg(m); err != nil {
			return err
		}
		s.cfg.Metrics.Response(typeEndpoints, 1, len(step))
	}
	if len(steps) > 0 {
		state, pool := g.Told()
		n := 0
		if pool != nil {
			n = len(pool.addrs)
		}
		s.sent(st, len(steps), told{state, n, time.Now()})
	} else if state, _ := g.Told(); state == Unknown {
		st.timer.Reset(s.cfg.Keepalive)
	}
	return nil
}

// sent notes what was told, and begins the silence anew.
func (s *Server) sent(st *stream, messages int, t told) {
	st.timer.Reset(s.cfg.Keepalive)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.told = t
	st.messages += messages
}

// wait returns when there may be something to tell, or, as a beat, when the stream was silent for long enough.
func (s *Server) wait(st *stream) (beat bool, err error) {
	select {
	case <-st.watcher.bell:
		return false, nil
	case <-st.timer.C:
		return true, nil
	case <-st.Context().Done():
		return false, ended(st.Context())
	case <-st.grant.Revoked:
		return false, st.grant.Err()
	case <-s.done:
		return false, errEnding
	}
}

func ended(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }

// conflictTime is how long an IP may have two owners before that is said: one may be about to go.
const conflictTime = time.Second

// profile serves a stream of profiles: each whole, and only when it is another than the one before.
func (s *Server) profile(raw grpc.ServerStream, c call, q question) error {
	st, err := s.open(raw, c, q)
	if err != nil {
		return err
	}
	defer s.close(st)
	var last []byte
	var since time.Time // when it began that the address has two owners
	for {
		a := st.subject.answer.Load()
		if a.conflict == "" {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
			st.timer.Reset(conflictTime)
		}
		switch {
		case a.Denied != "":
			return denied(a.Denied)
		case a.conflict != "" && time.Since(since) >= conflictTime:
			return status.Error(codes.FailedPrecondition, clip(a.conflict))
		case a.State != Unknown && a.conflict == "":
			if last, err = s.describe(st, a.profileFor(s.encoder(st)), last); err != nil {
				return err
			}
		}
		if _, err := s.wait(st); err != nil {
			return err
		}
	}
}

// describe sends a profile, unless it was sent last, and returns what was.
func (s *Server) describe(st *stream, profile, last []byte) ([]byte, error) {
	if last != nil && bytes.Equal(profile, last) {
		return last, nil
	}
	m := &pb.DestinationProfile{}
	m.ProtoReflect().SetUnknown(profile)
	if err := st.SendMsg(m); err != nil {
		return nil, err
	}
	s.cfg.Metrics.Response(typeProfile, 1, len(profile))
	s.sent(st, 1, told{state: Some, at: time.Now()})
	return profile, nil
}

// encoder is that of a stream, with where the node is that the proxy runs on.
func (s *Server) encoder(st *stream) Encoder {
	e := st.call.encoder
	if e.Origin.Zone == "" && e.Origin.Node != "" {
		e.Origin.Region, e.Origin.Zone = s.hub.atlas.find(e.Origin.Node)
	}
	return e
}
