package session

import (
	"slices"
	"time"
)

// Sync is how far a client has followed what it was sent of one type.
type Sync string

// The states of a type on a stream.
const (
	// Synced means that everything sent was accepted.
	Synced Sync = "SYNCED"
	// Sent means that a response was sent and not answered yet.
	Sent Sync = "SENT"
	// Stale means that a response has not been answered for [Config].StaleAfter.
	Stale Sync = "STALE"
	// Nacked means that the client refused content which is still the newest there is.
	Nacked Sync = "NACKED"
	// NotSent means that the client asked and nothing was sent.
	NotSent Sync = "NOT_SENT"
)

// Status is what is known of a stream's subscriptions: one row per type the client asked for, in the
// order of [Types]. It is a copy.
type Status struct {
	Types []TypeStatus
	// Unserved are type URLs that the client asked for and no session serves; the first few.
	Unserved []string
}

// TypeStatus is the state of one type on a stream. Times are zero when there was no such moment.
type TypeStatus struct {
	Type *Type
	Sync Sync
	// Wildcard and Named are what the client asks for: everything there is, and how many names.
	Wildcard bool
	Named    int
	// Held is how many resources the client holds, Held back is how many it refused whose content
	// has not changed since, and Pending is how many it waits for.
	Held, HeldBack, Pending int

	VersionSent, VersionAcked string
	SentAt, AckedAt           time.Time
	// Responses, Acks, Nacks and Resources are counts since the stream began; Overdue counts
	// resources that did not wait any longer for the client to accept their clusters.
	Responses, Acks, Nacks, Resources, Overdue int
	// Nack is the last refusal, whether still in force or not; nil when there was none.
	Nack *Nack
}

// Nack is one refusal.
type Nack struct {
	Code int32
	// Message is the client's text, cut to 4 KiB.
	Message string
	// Version is that of the response, and Names those of its resources that are blamed.
	Version string
	Names   []string
	At      time.Time
}

// Status returns a copy of the state of the stream at a time.
func (s *Session) Status(now time.Time) Status {
	st := Status{Unserved: slices.Clone(s.unserved)}
	for _, sub := range s.asked {
		st.Types = append(st.Types, sub.status(now, s.cfg.StaleAfter))
	}
	return st
}

// Nacks is how often the client has refused what it was sent.
func (s *Session) Nacks() int {
	n := 0
	for _, sub := range s.asked {
		n += sub.record.nacks
	}
	return n
}

func (sub *subscription) status(now time.Time, staleAfter time.Duration) TypeStatus {
	rec := &sub.record
	st := TypeStatus{
		Type: sub.t, Sync: sub.sync(now, staleAfter), Wildcard: sub.wildcard, Named: len(sub.named),
		Held: sub.held.count, HeldBack: len(sub.rejected), Pending: len(sub.dirty) + len(sub.parked),
		VersionSent: rec.versionSent, VersionAcked: rec.versionAcked, SentAt: rec.sentAt, AckedAt: rec.ackedAt,
		Responses: rec.responses, Acks: rec.acks, Nacks: rec.nacks, Resources: rec.resources, Overdue: rec.overdue,
	}
	if rec.nack != nil {
		nack := *rec.nack
		nack.Names = slices.Clone(nack.Names)
		st.Nack = &nack
	}
	return st
}

func (sub *subscription) sync(now time.Time, staleAfter time.Duration) Sync {
	switch {
	case len(sub.rejected) > 0 || sub.record.bare:
		return Nacked
	case sub.flight != nil && now.Sub(sub.flight.at) >= staleAfter:
		return Stale
	case sub.flight != nil:
		return Sent
	case sub.record.versionAcked == "":
		return NotSent
	}
	return Synced
}

// record is the history of a type on the stream.
type record struct {
	versionSent, versionAcked                  string
	sentAt, ackedAt                            time.Time
	responses, acks, nacks, resources, overdue int
	nack                                       *Nack
	// bare says that the last answer refused a response that holds nothing to blame.
	bare bool
}

func (rec *record) sent(f *flight, resources int) {
	rec.versionSent, rec.sentAt = f.version, f.at
	rec.responses++
	rec.resources += resources
	rec.overdue += f.overdue
}

func (rec *record) accepted(f *flight, now time.Time) {
	rec.versionAcked, rec.ackedAt = f.version, now
	rec.acks++
	rec.bare = false
}

func (rec *record) refused(f *flight, now time.Time, refusal *Refusal, names []string) {
	rec.nacks++
	rec.bare = len(f.puts) == 0
	rec.nack = &Nack{
		Code: refusal.Code, Message: shorten(refusal.Message, maxRefusalBytes),
		Version: f.version, Names: names, At: now,
	}
}
