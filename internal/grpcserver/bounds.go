package grpcserver

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// DefaultMaxStreams is how many streams a server has if it is told nothing else.
const DefaultMaxStreams = 10_000

// DefaultMaxConnectionAge is for the flag: often enough for clients to spread over a replica that is
// new, and seldom enough to cost nothing.
const DefaultMaxConnectionAge = 30 * time.Minute

const (
	maxMessage = 4 << 20
	// maxHeaders is what the metadata of a request may have. gRPC enforces twice of it without a word,
	// so that what is somewhat too large gets a status.
	maxHeaders = 16 << 10
	// maxConnectionStreams is on one connection. Envoy has few, a Linkerd proxy two for each of its
	// destinations; a relay opens another connection. gRPC enforces somewhat more, by having clients
	// wait without a word.
	maxConnectionStreams = 1000
	streamsBackstop      = 100
	// maxSideStreams are of health and reflection, which ask for no rights: they do not take the place
	// of clients that are served.
	maxSideStreams = 100
	// connectionsPerStream leaves room for connections that begin or end.
	connectionsPerStream = 2

	// A stream that nobody reads holds up to a window. Windows are fixed: requests are small, and gRPC
	// otherwise measures the line by a ping of its own for each message, half of the work of a change.
	streamWindow = 64 << 10
	// A connection lives long and says little, so what it reads into is small.
	readBuffer = 4 << 10
)

// bounds are the times that connections are given.
type bounds struct {
	handshake      time.Duration // until the client has said what HTTP/2 begins with, TLS included
	idle           time.Duration // without any stream
	ageGrace       time.Duration // for streams that do not end when their connection is old
	pingEvery      time.Duration // without a word from the client
	pingTimeout    time.Duration
	leastPingEvery time.Duration // of clients: as often as Envoy and gRPC do
	drain          time.Duration // for streams to end, of a server that ends
	lastWord       time.Duration // for a client to hear why it is to go: the server ends, or wants another connection
}

func defaultBounds() bounds {
	return bounds{
		handshake:      10 * time.Second,
		idle:           time.Minute,
		ageGrace:       10 * time.Second,
		pingEvery:      30 * time.Second,
		pingTimeout:    10 * time.Second,
		leastPingEvery: 5 * time.Second,
		drain:          5 * time.Second,
		lastWord:       100 * time.Millisecond,
	}
}

// options are gRPC's part of the bounds, and where the rest is enforced.
func (s *Server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(2 * maxHeaders),
		grpc.MaxConcurrentStreams(maxConnectionStreams + streamsBackstop),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(s.bounds.handshake),
		grpc.KeepaliveParams(s.keepaliveParams()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: s.bounds.leastPingEvery, PermitWithoutStream: true,
		}),
		grpc.StatsHandler(observer{s}),
		grpc.ChainUnaryInterceptor(s.admitCall),
		grpc.ChainStreamInterceptor(s.admitStream),
	}
}
