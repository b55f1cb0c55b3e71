package grpcserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// How the age of a connection is kept. gRPC tells the client to go when it is old, and after a grace
// cuts it off, which Envoy takes for an internal error and warns of. So gRPC is told of an age somewhat
// below, from when on the client opens nothing more on the connection; at its age the streams end with a
// status, on which the connection closes; and the grace is for those that do not.
const (
	toldPercent   = 80 // of the age, give or take a tenth as gRPC does it
	jitterPercent = 10 // of the age, either way, so that a fleet does not come back as one
	gracePercent  = 40 // of the age: from the earliest time to be told to the latest to end
)

func percent(d time.Duration, n int64) time.Duration { return d / 100 * time.Duration(n) }

// keepaliveParams are gRPC's part of it.
func (s *Server) keepaliveParams() keepalive.ServerParameters {
	return keepalive.ServerParameters{
		MaxConnectionIdle:     s.bounds.idle,
		MaxConnectionAge:      percent(s.cfg.MaxConnectionAge, toldPercent),
		MaxConnectionAgeGrace: percent(s.cfg.MaxConnectionAge, gracePercent) + s.bounds.ageGrace,
		Time:                  s.bounds.pingEvery,
		Timeout:               s.bounds.pingTimeout,
	}
}

// grow has the connection be old after its age, or when it ends. Without an age it lives on.
func (c *conn) grow(age time.Duration) {
	c.old, c.die = context.WithCancel(context.Background())
	if age == 0 {
		return
	}
	jitter := percent(age, jitterPercent)
	timer := time.AfterFunc(age-jitter+rand.N(2*jitter), c.die)
	context.AfterFunc(c.old, func() { timer.Stop() })
}

// untilOld serves a stream until its connection is old. The service sees its context end.
func (s *Server) untilOld(srv any, stream grpc.ServerStream, next grpc.StreamHandler) error {
	c := connectionOf(stream.Context())
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(c.old, cancel)()
	err := next(srv, aging{stream, ctx})
	if c.old.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
		return status.Errorf(codes.Unavailable, "the connection is %s old, give or take a tenth: connect again", s.cfg.MaxConnectionAge)
	}
	return err
}

// aging is a stream with a context of its own.
type aging struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (a aging) Context() context.Context { return a.ctx }
