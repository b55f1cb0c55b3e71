// Package xds serves products to Envoy and other xDS clients: one goroutine a stream writes to it,
// and one publisher makes, encodes and publishes what changed. There is no queue of updates: a slow
// reader finds the latest when it next reads.
package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/xds/session"
)

// Metrics counts what the server does. Its methods are called concurrently.
type Metrics interface {
	StreamOpened(form string)
	StreamClosed(form string)
	Response(typ string, resources, bytes int)
	Nack(typ string)
	RouteWaited()
	PlanRun()
	ProductMade(kind string)
	// Encoded counts a resource that was encoded, for all streams that have it.
	Encoded(typ string)
	// GRPCRefused counts n refusals for a reason.
	GRPCRefused(reason string, n int)
	// Problems is how many chains do not compile now.
	Problems(n int)
}

// Config is what a server needs. The fields up to TrustDomain are required.
type Config struct {
	Store      *facts.Store
	Logger     hclog.Logger
	Metrics    Metrics
	Datacenter string
	// TrustDomain is the whole domain, such as "<uuid>.consul".
	TrustDomain string
	// Guard decides which clients are served; nil admits everyone.
	Guard Guard
	// Secrets has the keys of certificates; nil has none, and then no mesh sidecar is served.
	Secrets Secrets
	// Questions says who may ask what all clients are served; the zero value nobody.
	Questions Questions
	// Loads counts what clients report of their requests, every LoadReportEvery, 10 s by default and 1 s at the
	// least; nil counts nothing.
	Loads           Loads
	LoadReportEvery time.Duration
	// Linger is how long everything of a client that left is kept for its return, 60 s by default.
	Linger time.Duration
	// FirstRequestWithin is how long a client may take to say who it is, 30 s by default, and
	// AnswerWithin how long it may leave a response unread or unanswered, 5 min by default. The stream
	// of one that takes longer ends as DeadlineExceeded.
	FirstRequestWithin, AnswerWithin time.Duration
}

// Secrets keeps the keys of certificates. Its method is called concurrently.
type Secrets interface {
	// Pair returns a certificate, with those between it and its root, and its key, as PEM; ok is false when
	// it is not kept any more.
	Pair(leaf facts.Leaf) (chain, key []byte, ok bool)
}

// noSecrets has no keys.
type noSecrets struct{}

// Pair implements [Secrets].
func (noSecrets) Pair(facts.Leaf) (chain, key []byte, ok bool) { return nil, nil, false }

func (c Config) withDefaults() Config {
	if c.Secrets == nil {
		c.Secrets = noSecrets{}
	}
	if c.Guard == nil {
		c.Guard = believer{}
	}
	if c.Loads == nil {
		c.Loads = noLoads{}
	}
	c.LoadReportEvery = max(cmp.Or(c.LoadReportEvery, defaultLoadEvery), leastLoadEvery)
	c.Linger = cmp.Or(c.Linger, time.Minute)
	c.FirstRequestWithin = cmp.Or(c.FirstRequestWithin, 30*time.Second)
	c.AnswerWithin = cmp.Or(c.AnswerWithin, 5*time.Minute)
	return c
}

// Server is the xDS server.
type Server struct {
	cfg  Config
	pub  *publisher
	sub  *facts.Subscription
	done chan struct{} // closed when Run ends

	places places // of the loads that were counted

	lastID  atomic.Uint64
	mu      sync.Mutex // guards streams
	streams map[*stream]struct{}
}

// NewServer returns a server that serves once Run runs.
func NewServer(cfg Config) *Server {
	cfg = cfg.withDefaults()
	return &Server{
		cfg: cfg, pub: newPublisher(cfg), sub: cfg.Store.Subscribe(),
		done: make(chan struct{}), streams: map[*stream]struct{}{},
	}
}

// Run publishes changes of facts until ctx ends, and then ends all streams. It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.done)
	s.pub.run(ctx, s.sub)
	return nil
}

// open takes in the first request of a stream, which names the node, and plans the client.
func (s *Server) open(c call, req *session.Request) (*stream, error) {
	id, err := identify(req.Node, c.peer())
	if err != nil {
		return nil, err
	}
	grant, err := s.cfg.Guard.Admit(c.ctx, id.client)
	if err != nil {
		return nil, err
	}
	id.client.Reader, id.client.Proved = grant.Reader, grant.Secrets
	st := &stream{
		id:     fmt.Sprintf("%s#%d", id.client.ID, s.lastID.Add(1)),
		client: id.client, version: id.version, grant: grant,
		form: c.form, peer: c.peer(), connected: time.Now(),
		bell: make(chan struct{}, 1),
		session: session.New(session.Config{
			Form: c.form, Only: c.only, ControlPlane: "catenary", CloseAfter: s.cfg.AnswerWithin,
		}),
	}
	req.Node = traits(req.Node)
	if _, err := s.request(st, req); err != nil {
		grant.Release()
		return nil, err
	}
	if names, others := st.wanted(); others {
		st.adopt(names)
	}
	s.pub.join(st)
	s.mu.Lock()
	s.streams[st] = struct{}{}
	s.mu.Unlock()
	s.cfg.Metrics.StreamOpened(formName(st.form))
	s.cfg.Logger.Info("a proxy connected", "proxy", st.client.ID, "service", st.client.Service,
		"address", st.peer.String(), "protocol", formName(st.form), "version", st.version)
	return st, nil
}

func (s *Server) close(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	s.pub.leave(st)
	st.grant.Release()
	s.cfg.Metrics.StreamClosed(formName(st.form))
	s.cfg.Logger.Info("a proxy disconnected", "proxy", st.client.ID, "address", st.peer.String())
}

// request gives the session one message of the client, and reports whether a turn is due.
func (s *Server) request(st *stream, req *session.Request) (due bool, err error) {
	if len(req.TypeURL) > maxTypeURL {
		return false, refuse("proxy %q: type_url has %d bytes, more than the %d allowed", st.client.ID, len(req.TypeURL), maxTypeURL)
	}
	now := time.Now()
	st.mu.Lock()
	before := st.session.Nacks()
	err = st.session.Request(now, req)
	if err == nil && st.client.Dialect.GRPC() && req.TypeURL == session.ListenerURL {
		err = st.ask()
	}
	sent := st.session.Nacks() > before
	due = st.session.Due()
	st.mu.Unlock()
	if limit := (*session.LimitError)(nil); errors.As(err, &limit) {
		s.cfg.Metrics.GRPCRefused(refusedNames, 1)
		return false, status.Error(codes.ResourceExhausted, clip(fmt.Sprintf("proxy %q: %v", st.client.ID, err)))
	}
	if err != nil {
		return false, refuse("proxy %q: %v", st.client.ID, err)
	}
	if req.Error != nil {
		s.refused(st, req, sent)
	}
	return due, nil
}

// refusedNames is the reason of a refusal: the limit of the names that one stream may ask for.
const refusedNames = "names"

// otherType stands for the types that are not served: a client can make up any number of them.
const otherType = "other"

// refused counts a NACK, and logs it if it is one of what was sent: what a client makes up costs it
// nothing, and the log must not grow by it. The session has kept what it says.
func (s *Server) refused(st *stream, req *session.Request, sent bool) {
	t, ok := session.TypeByURL(req.TypeURL)
	switch {
	case !ok:
		s.cfg.Metrics.Nack(otherType)
	case sent:
		s.cfg.Metrics.Nack(t.Name)
		say := s.cfg.Logger.Warn
		if now := time.Now(); now.Sub(st.warned) < warnEvery {
			say = s.cfg.Logger.Debug
		} else {
			st.warned = now
		}
		say("a proxy refused what it was sent (NACK); what it accepted before stays in force there",
			"proxy", st.client.ID, "type", t.Name, "error", clip(req.Error.Message))
	}
}

// warnEvery is how often the log tells of the refusals of one stream: a client that asks again and refuses
// again must not fill it. Metrics and status have them all.
const warnEvery = time.Second

// errEnding sends a client elsewhere.
var errEnding = status.Error(codes.Unavailable, "the control plane is ending; connect to another")

// maxTypeURL bounds the type URLs in requests: a session remembers a few that it does not serve.
const maxTypeURL = 1024

// maxText bounds what a client can make us write into our log or into a status.
const maxText = 1024

func clip(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

// refuse is the status of a request that no client should make.
func refuse(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, clip(fmt.Sprintf(format, args...)))
}
