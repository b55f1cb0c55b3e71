package grpcserver

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Why a connection, a stream or a message is refused.
const (
	// ReasonConnections is that there are too many connections.
	ReasonConnections = "connections"
	// ReasonHandshake is that a client has not begun to speak HTTP/2 in time.
	ReasonHandshake = "handshake_timeout"
	// ReasonTLS is that there is no agreement on TLS: on having it at all, or on certificates.
	ReasonTLS = "tls"
	// ReasonProtocol is that what a client speaks is not HTTP/2.
	ReasonProtocol = "protocol"
	// ReasonStreams is that there are too many streams.
	ReasonStreams = "streams"
	// ReasonConnectionStreams is that there are too many on one connection.
	ReasonConnectionStreams = "connection_streams"
	// ReasonSideStreams is that there are too many of health and reflection.
	ReasonSideStreams = "side_streams"
	// ReasonHeaders is that the metadata of a request is too large.
	ReasonHeaders = "header_size"
	// ReasonMessage is that a message is too large.
	ReasonMessage = "message_size"
	// ReasonNames is that a stream asks for too many names. Its service says so, not this package.
	ReasonNames = "names"
)

// Reasons returns all reasons.
func Reasons() []string {
	return []string{
		ReasonConnections, ReasonHandshake, ReasonTLS, ReasonProtocol, ReasonStreams, ReasonConnectionStreams,
		ReasonSideStreams, ReasonHeaders, ReasonMessage, ReasonNames,
	}
}

// refused counts a refusal and logs it, unless the same was logged a moment ago.
func (s *Server) refused(reason, text string, args ...any) {
	s.cfg.Metrics.GRPCRefused(reason, 1)
	s.log.warn(text, append(args, "reason", reason)...)
}

// logEvery is how often a text is logged at most: peers can cause any number of them.
const logEvery = time.Minute

// seldom logs each text at most once in a while. The texts must be constants.
type seldom struct {
	logger hclog.Logger

	mu    sync.Mutex // guards texts
	texts map[string]*said
}

type said struct {
	at      time.Time
	skipped int
}

func (l *seldom) warn(text string, args ...any) {
	if skipped, ok := l.due(text, time.Now()); ok {
		if skipped > 0 {
			args = append(args, "more_since_last_logged", skipped)
		}
		l.logger.Warn(text, args...)
	}
}

// due reports whether a text may be logged now, and how often it was not since it last was.
func (l *seldom) due(text string, now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.texts[text]
	switch {
	case s == nil:
		if l.texts == nil {
			l.texts = map[string]*said{}
		}
		l.texts[text] = &said{at: now}
		return 0, true
	case now.Sub(s.at) < logEvery:
		s.skipped++
		return 0, false
	}
	skipped = s.skipped
	*s = said{at: now}
	return skipped, true
}
