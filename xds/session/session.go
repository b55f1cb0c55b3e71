package session

import (
	"fmt"
	"slices"
	"time"
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
	// Only is the type of a stream of a single type: requests need not name it, and nothing waits for
	// other types. With nil, all types are served.
	Only *Type
	// ClusterAckWait is how long a route waits for the client to accept the clusters it refers to,
	// and a removal for the client to accept what no longer needs it; 1 s by default.
	ClusterAckWait time.Duration
	// StaleAfter and CloseAfter are how long a response may go unanswered until its type is shown
	// as [Stale], and until [Session.Deadline]; 30 s and 5 min by default.
	StaleAfter, CloseAfter time.Duration
	// MaxNames bounds the names a stream asks for, over all types, 10,000 by default, and
	// MaxNameBytes the length of each, and of the versions that come with them, 1,024 by default.
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
	client   traits
	subs     [numTypes]*subscription // by rank
	asked    []*subscription         // those the client has asked for, in order of ranks
	brought  int                     // names the client said it holds
	unserved []string

	nonces   uint64
	complete bool // what the last turn's offer was
}

// New returns the session of a stream that has just begun.
func New(cfg Config) *Session {
	s := &Session{cfg: cfg.withDefaults(), complete: true}
	subs := make([]subscription, numTypes)
	for i, t := range types {
		subs[i].t = t
		s.subs[i] = &subs[i]
	}
	return s
}

// Request takes in one message of the client. An error means that the stream is to be closed: by a
// [LimitError] as an exhausted resource, by any other as an invalid argument. Its text is meant for the
// client. Strings of the message may be kept.
func (s *Session) Request(now time.Time, req *Request) error {
	t, err := s.serves(req.TypeURL)
	if err != nil {
		return err
	}
	if !s.greeted {
		s.greeted, s.client = true, traitsOf(req.Node, s.cfg.Form)
	}
	if t == nil {
		// Other types are none of our business, and no reason to take the stream down with them.
		if !slices.Contains(s.unserved, req.TypeURL) && len(s.unserved) < maxUnserved {
			s.unserved = append(s.unserved, req.TypeURL)
		}
		return nil
	}
	sub := s.subs[t.rank]
	listed := fingerprint(req.Names)
	if s.cfg.Form == Delta || !sub.asked || listed != sub.listed {
		if err := req.check(t, s.cfg.MaxNameBytes); err != nil {
			return err
		}
	}
	if s.cfg.Form == SotW && sub.outdated(req.Nonce) {
		return nil
	}
	if sub.flight != nil && req.Nonce == sub.nonce {
		sub.settle(now, req.Error)
	}
	s.subscribe(sub, req, listed)
	return s.checkNames()
}

// serves returns the type that a request is about, or nil when it is not served on this stream.
func (s *Session) serves(url string) (*Type, error) {
	only := s.cfg.Only
	if url == "" && only != nil {
		return only, nil
	}
	if err := checkTypeURL(url); err != nil {
		return nil, err
	}
	t, ok := TypeByURL(url)
	if only != nil && t != only {
		return nil, fmt.Errorf("type_url is %q, on a stream of %s alone: leave it out, or open an aggregated stream", url, only.URL)
	}
	if !ok || (t.deltaOnly && s.cfg.Form == SotW) {
		return nil, nil
	}
	return t, nil
}

// outdated reports whether a message answers another response than the last one, and nothing of it
// counts. While the last one is unanswered the message crossed it on the way: its names count, or a
// name that is given up and asked for again in that time would be lost (envoy 10363); the answer
// waits for the acknowledgement. So do the names of a client that had no response yet.
func (sub *subscription) outdated(nonce string) bool {
	return sub.flight == nil && nonce != "" && sub.nonce != "" && nonce != sub.nonce
}

func (s *Session) subscribe(sub *subscription, req *Request, listed uint64) {
	first := !sub.asked
	sub.asked, sub.all = true, sub.all || first
	if first {
		s.asked = append(s.asked, sub)
		slices.SortFunc(s.asked, func(a, b *subscription) int { return a.t.rank - b.t.rank })
	}
	if s.cfg.Form == SotW {
		sub.subscribeSotW(req, listed, first)
		return
	}
	sub.subscribeDelta(req, first, !s.client.saysWildcard && listsHeld(req))
	if !first {
		return
	}
	s.brought += len(req.Initial)
	if sub.t != endpointType {
		return
	}
	if s.subs[clusterType.rank].asked {
		s.warm(s.clustersSent())
		return
	}
	// An Envoy asks for clusters first, but not while one of them warms. It may then wait for endpoints
	// that were lost with the last stream, though it brings the ones along that it had before.
	for name := range sub.named {
		sub.mark(name, true)
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
	for _, sub := range s.asked {
		count += len(sub.named) + sub.dropped
	}
	if count > s.cfg.MaxNames {
		return &LimitError{Names: count, Max: s.cfg.MaxNames}
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
	for _, sub := range s.asked {
		sub.all = true
	}
}

// Due reports whether a turn may have something to send, as it seldom has after an acknowledgement. While
// it is false no turn is needed before the wake time of the last one. A turn that was due may find
// nothing, and leave one due: ask after a request or a note, not in a loop.
func (s *Session) Due() bool { return slices.ContainsFunc(s.asked, (*subscription).due) }

// Deadline returns when the client must have answered what was sent, or be taken for dead; zero when
// nothing is unanswered.
func (s *Session) Deadline() time.Time {
	var first time.Time
	for _, sub := range s.asked {
		if sub.flight == nil {
			continue
		}
		if at := sub.flight.at.Add(s.cfg.CloseAfter); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
