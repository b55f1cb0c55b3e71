package session

import (
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Form is the form of the protocol that a stream speaks.
type Form uint8

const (
	// SotW is the state of the world: full lists of names, and full sets of clusters and listeners.
	SotW Form = iota
	// Delta is the incremental form.
	Delta
)

// Config is what a session needs to know of its server. The zero value of a field stands for its
// default.
type Config struct {
	Form Form
	// ClusterAckWait is how long a route waits for the client to accept the clusters it refers to,
	// and a removal for the client to accept what no longer needs it; 1 s by default.
	ClusterAckWait time.Duration
	// StaleAfter and CloseAfter are how long a response may go unanswered until its type is shown
	// as [Stale], and until [Session.Deadline]; 30 s and 5 min by default.
	StaleAfter, CloseAfter time.Duration
	// MaxNames bounds the names a stream asks for, over all types, 10,000 by default, and
	// MaxNameBytes the length of each, 1,024 by default.
	MaxNames, MaxNameBytes int
	// ControlPlane identifies the server in every response.
	ControlPlane string
}

func (c Config) withDefaults() Config {
	c.ClusterAckWait = orDefault(c.ClusterAckWait, time.Second)
	c.StaleAfter = orDefault(c.StaleAfter, 30*time.Second)
	c.CloseAfter = orDefault(c.CloseAfter, 5*time.Minute)
	c.MaxNames = orDefault(c.MaxNames, 10_000)
	c.MaxNameBytes = orDefault(c.MaxNameBytes, 1024)
	return c
}

func orDefault[T time.Duration | int](value, byDefault T) T {
	if value == 0 {
		return byDefault
	}
	return value
}

// maxUnserved bounds the type URLs that are remembered for the status only.
const maxUnserved = 8

// Session is the state of one stream. It is not safe for concurrent use.
type Session struct {
	cfg Config

	greeted  bool
	node     *corev3.Node
	subs     []*subscription // one per type, by rank
	brought  int             // names the client said it holds
	unserved []string

	nonces   uint64
	complete bool // what the last turn's offer was
}

// New returns the session of a stream that has just begun.
func New(cfg Config) *Session {
	s := &Session{cfg: cfg.withDefaults(), complete: true}
	for _, t := range types {
		s.subs = append(s.subs, &subscription{t: t})
	}
	return s
}

// Node returns who the client says it is: the node of the first message, without what no control
// plane reads. It is nil before that message, or when that has none.
func (s *Session) Node() *corev3.Node { return s.node }

// Request takes in one message of the client. An error means that the stream is to be closed as an
// invalid argument; the text is meant for the client.
func (s *Session) Request(now time.Time, req *Request) error {
	if err := req.check(s.cfg.MaxNameBytes); err != nil {
		return err
	}
	if !s.greeted {
		s.greeted, s.node = true, trimNode(req.Node)
	}
	t, ok := TypeByURL(req.TypeURL)
	if !ok {
		// Other types are none of our business, and no reason to take the stream down with them.
		if !slices.Contains(s.unserved, req.TypeURL) && len(s.unserved) < maxUnserved {
			s.unserved = append(s.unserved, req.TypeURL)
		}
		return nil
	}
	sub := s.subs[t.rank]
	if s.cfg.Form == SotW && sub.outdated(req.Nonce) {
		return nil
	}
	if sub.flight != nil && req.Nonce == sub.nonce {
		sub.settle(now, req.Error)
	}
	s.subscribe(sub, req)
	return s.checkNames()
}

// outdated reports whether a message answers another response than the last one, and nothing of it
// counts. While the last one is unanswered the message crossed it on the way: its names count, or a
// name that is given up and asked for again in that time would be lost (envoy 10363); the answer
// waits for the acknowledgement. So do the names of a client that had no response yet.
func (sub *subscription) outdated(nonce string) bool {
	return sub.flight == nil && nonce != "" && sub.nonce != "" && nonce != sub.nonce
}

func (s *Session) subscribe(sub *subscription, req *Request) {
	first := !sub.asked
	sub.asked, sub.all = true, sub.all || first
	if s.cfg.Form == SotW {
		sub.subscribeSotW(req, first)
		return
	}
	sub.subscribeDelta(req, first, !saysWildcard(s.node) && listsHeld(req))
	if !first {
		return
	}
	s.brought += len(req.Initial)
	if sub.t == endpointType {
		s.warm(s.clustersSent())
	}
}

// clustersSent returns the clusters that were sent on this stream.
func (s *Session) clustersSent() []*Resource {
	sub := s.subs[clusterType.rank]
	var sent []*Resource
	for _, e := range sub.held.entries {
		if r := e.accepted(); r != nil {
			sent = append(sent, r)
		}
	}
	if sub.flight != nil {
		sent = append(sent, sub.flight.puts...)
	}
	return sent
}

// warm has the endpoints of clusters that were just sent follow them, changed or not: the client
// takes a changed cluster into use only after it got endpoints once more, and does not ask
// (go-control-plane 245, envoy 13009).
func (s *Session) warm(clusters []*Resource) {
	sub := s.subs[endpointType.rank]
	for _, c := range clusters {
		for _, name := range c.Refs {
			if sub.subscribed(name) {
				sub.mark(name, true)
			}
		}
	}
}

func (s *Session) checkNames() error {
	count := s.brought
	for _, sub := range s.subs {
		count += len(sub.named)
	}
	if count > s.cfg.MaxNames {
		return fmt.Errorf("the stream asks for %d names, more than the %d allowed: ask with \"*\", or over several streams",
			count, s.cfg.MaxNames)
	}
	return nil
}

// Dirty notes that what the offer says of a name may have changed.
func (s *Session) Dirty(t *Type, name string) {
	sub := s.subs[t.rank]
	if sub.asked && !sub.all && sub.subscribed(name) {
		sub.mark(name, false)
	}
}

// DirtyAll notes that anything may have changed: the next turn compares all the client asks for.
func (s *Session) DirtyAll() {
	for _, sub := range s.subs {
		sub.all = sub.asked
	}
}

// Due reports whether a turn may have something to send. While it is false no turn is needed until the
// wake time of the last one, a note, a request, or a change of what the offer says of its completeness.
func (s *Session) Due() bool { return slices.ContainsFunc(s.subs, (*subscription).due) }

// Deadline returns when the client must have answered what was sent, or be taken for dead; zero when
// nothing is unanswered.
func (s *Session) Deadline() time.Time {
	var first time.Time
	for _, sub := range s.subs {
		if sub.flight == nil {
			continue
		}
		if at := sub.flight.at.Add(s.cfg.CloseAfter); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
