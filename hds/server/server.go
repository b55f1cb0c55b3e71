// Package server is health discovery as a service: it tells the Envoys that connect what to probe, takes in
// their reports, and commits verdicts as facts. Duties come from the facts, and all else is decided by the pure
// parts in [hds]. One goroutine owns all state; streams send it what they hear and ask it what to say, so that
// nothing is held while something is sent, and who reads slowly finds the latest.
package server

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/xds"
)

// Config is what a server needs. The fields up to TrustDomain are required.
type Config struct {
	Store      *facts.Store
	Logger     hclog.Logger
	Datacenter string
	// TrustDomain ends the names of endpoint sets.
	TrustDomain string
	// Guard decides which checkers are heard; nil admits everyone.
	Guard xds.Guard
	// Believe has checkers be who they say they are: nobody has to prove anything.
	Believe bool
	// DefaultTCP has endpoints probed that nothing else says a probe for.
	DefaultTCP bool
	// FromChecks has endpoints probed as their checks' definitions say.
	FromChecks bool
	// ReportInterval is how often checkers report, 1 s by default.
	ReportInterval time.Duration
	// Hold is how long a verdict stays when nobody votes, 30 s by default.
	Hold time.Duration
	// StartWithin is how long the sets of probed services wait for verdicts at a start, 3 s by default.
	StartWithin time.Duration
	// FirstMessageWithin is how long a checker may take to say who it is, 30 s by default.
	FirstMessageWithin time.Duration
}

func (c Config) withDefaults() Config {
	if c.Guard == nil {
		c.Guard, c.Believe = xds.NewGuard(xds.GuardConfig{}), true
	}
	c.ReportInterval = hds.ReportInterval(cmp.Or(c.ReportInterval, time.Second))
	c.StartWithin = cmp.Or(c.StartWithin, 3*time.Second)
	c.FirstMessageWithin = cmp.Or(c.FirstMessageWithin, 30*time.Second)
	return c
}

// Server is health discovery. Create one with [New], register it, and call [Server.Run].
type Server struct {
	cfg    Config
	mail   chan func(e *engine, now time.Time)
	done   chan struct{} // closed when Run ends
	engine *engine
	asked  atomic.Uint64 // registrations
}

// New returns a server. It starts nothing.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, mail: make(chan func(*engine, time.Time)), done: make(chan struct{})}
	s.engine = newEngine(cfg)
	return s
}

// Hold has the sets of probed services wait for verdicts, if none are known: it is called before anything is
// served. Run ends it.
func (s *Server) Hold() {
	s.cfg.Store.Commit(func(tx *facts.Tx) {
		tx.Await(facts.Awaiting{Datacenter: s.cfg.Datacenter, All: s.cfg.DefaultTCP || s.cfg.FromChecks})
	})
}

// Run assigns duties and makes verdicts until ctx ends, and then ends all streams. It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.done)
	s.engine.run(ctx, s.mail)
	return nil
}

// errEnding sends a checker elsewhere.
var errEnding = status.Error(codes.Unavailable, "the control plane is ending; connect to another")

// do has the engine run f, and returns when it has.
func (s *Server) do(ctx context.Context, f func(e *engine, now time.Time)) error {
	ran := make(chan struct{})
	select {
	case s.mail <- func(e *engine, now time.Time) { f(e, now); close(ran) }:
		<-ran // the engine never waits for anybody
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return errEnding
	}
}

// quiet is no error for a stream that its client or the server ended.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
