package grpcserver

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// aged is what streams hear that end for the age of their connection.
const aged = "the connection is 1s old, give or take a tenth: connect again"

func TestAnOldConnectionIsClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		method, says string
		grace, least time.Duration
		ends         func(error) error // what the service makes of how its stream ends
	}{
		"streams end by themselves": {echoWait, aged, time.Hour, 900 * time.Millisecond, nil},
		"they end with a status":    {echoWait, aged, time.Hour, 900 * time.Millisecond, func(err error) error { return status.FromContextError(err).Err() }},
		"streams do not end":        {echoStream, "max_age", time.Millisecond, 1120 * time.Millisecond, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := defaultBounds()
			b.ageGrace = tt.grace
			s := start(t, Config{MaxConnectionAge: time.Second, bounds: &b, Options: []grpc.ServerOption{grpc.ChainStreamInterceptor(
				func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
					err := next(srv, stream)
					if tt.ends != nil && err != nil {
						err = tt.ends(err)
					}
					return err
				})}})
			conn := s.dial(t, nil)
			stream, err := conn.NewStream(t.Context(), &echo().Streams[0], tt.method)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			err = stream.RecvMsg(&emptypb.Empty{})
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the stream ends with %v, want Unavailable: %s", err, tt.says)
			}
			// The connection may be a little older than the stream.
			if after := time.Since(begin) + 50*time.Millisecond; after < tt.least {
				t.Errorf("it ends after %s, and %s is the least", after, tt.least)
			}
			testenv.Eventually(t, patient, func() error { return s.counts.stands(0, 0) })
			if err := say(open(t, conn), 1); err != nil {
				t.Errorf("the client cannot come back: %v", err)
			}
		})
	}
}

func TestStreamsOfOneAgeDoNotEndAsOne(t *testing.T) {
	ends := map[time.Duration]bool{}
	for range 20 {
		c := &conn{}
		begin := time.Now()
		c.grow(100 * time.Millisecond)
		<-c.old.Done()
		ends[time.Since(begin).Round(time.Millisecond)] = true
	}
	if len(ends) < 3 {
		t.Errorf("20 connections of the same age end after %v", ends)
	}
}
