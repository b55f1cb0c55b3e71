package identity

import (
	"context"
	"strings"
	"time"
)

// Request is what a stream that wants to be admitted shows.
type Request struct {
	Token Token
	// Service is what the client speaks for; empty when it speaks for none.
	Service string
	// Reads are services that the client is going to read: they are asked for in the same call.
	Reads []string
}

// question is what must be true of the token. A client that speaks for no service needs only one that
// exists, which any question finds out.
func (r Request) question() Question {
	if r.Service == "" {
		return Question{Access: Read}
	}
	return Question{Service: r.Service, Access: Write}
}

// Admit returns the grant of a stream whose token may write the service that it speaks for, or why
// there is none as a [*Refusal]. It waits for Consul no longer than for its patience.
func (v *Verdicts) Admit(ctx context.Context, r Request) (*Grant, error) {
	timeout := time.NewTimer(v.cfg.Patience)
	defer timeout.Stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	for late := false; ; {
		if v.acls == aclsOff {
			return v.grant(nil, Question{}), nil
		}
		b, q := v.bearer(r.Token), r.question()
		d := b.verdicts[q]
		now := time.Now()
		switch {
		case v.fresh(d, now):
			return v.decide(b, r, d)
		case v.away != "" || late:
			return v.hold(b, r, d)
		}
		f := v.await(b, q)
		v.foresee(b, r.Reads, now)
		b.waiting++
		v.mu.Unlock()
		var err error
		select {
		case <-f.done:
			err = f.err
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			err = refuse(Unavailable, "the stream has ended: %v", ctx.Err())
		}
		v.mu.Lock()
		b.waiting--
		if refusal := refusalOf(err, r); refusal != nil {
			v.tidy(b)
			return nil, refusal
		}
	}
}

// foresee asks for what the client will need next, in the call that is to be made anyway. The caller
// holds the lock.
func (v *Verdicts) foresee(b *bearer, reads []string, now time.Time) {
	for _, service := range reads {
		q := Question{Service: strings.ToLower(service), Access: Read}
		if len(b.asked) < maxQuestions && !v.fresh(b.verdicts[q], now) {
			v.ask(b, q)
		}
	}
}

// refusalOf makes the error of a flight a refusal; nil when what is known by now is to be looked at again.
func refusalOf(err error, r Request) *Refusal {
	switch e := err.(type) { //nolint:errorlint // flights carry what apply gave them, unwrapped
	case nil, *Unreachable:
		return nil
	case *Refusal:
		return e
	default:
		// Why is for the log: it tells of what is behind us.
		return refuse(Unavailable, "Consul does not say whether the token has %s: try again later", r.question())
	}
}

// decide grants or refuses by an answer. The caller holds the lock.
func (v *Verdicts) decide(b *bearer, r Request, d verdict) (*Grant, error) {
	switch {
	case b.token.IsZero() && (r.Service == "" || !d.allow):
		return nil, noToken(r)
	case r.Service != "" && !d.allow:
		return nil, lacks(r.question())
	}
	return v.grant(b, r.question()), nil
}

// hold grants by an old answer, or says that there is none. The caller holds the lock.
func (v *Verdicts) hold(b *bearer, r Request, d verdict) (*Grant, error) {
	if v.held(d, time.Now()) {
		return v.decide(b, r, d)
	}
	v.tidy(b)
	return nil, refuse(Unavailable, "Consul cannot be asked now whether the token has %s: try again", r.question())
}

// grant admits a stream. The caller holds the lock.
func (v *Verdicts) grant(b *bearer, q Question) *Grant {
	g := &Grant{verdicts: v, bearer: b, question: q, revoked: make(chan struct{})}
	if b == nil {
		v.open[g] = struct{}{}
	} else {
		b.grants[g] = struct{}{}
	}
	return g
}

// tidy forgets a token of which nothing good is known. The caller holds the lock.
func (v *Verdicts) tidy(b *bearer) {
	if b.seen.IsZero() && !b.live() {
		v.drop(b)
	}
}

func noToken(r Request) *Refusal {
	if r.Service == "" {
		return refuse(Unauthenticated, "the stream has no token: send a token of Consul in the metadata %s", MetadataToken)
	}
	return refuse(Unauthenticated, "the stream has no token: send one with %s in the metadata %s", r.question(), MetadataToken)
}

func lacks(q Question) *Refusal { return refuse(Denied, "the token lacks %s", q) }

// MetadataToken is the gRPC metadata, or HTTP header, in which a client sends its token.
const MetadataToken = "x-consul-token"
