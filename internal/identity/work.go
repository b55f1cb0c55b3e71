package identity

import (
	"context"
	"errors"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// worker asks Consul what is queued, one token at a time, until ctx ends.
func (v *Verdicts) worker(ctx context.Context, store *facts.Store) {
	for {
		b, questions, away := v.next(ctx)
		if b == nil {
			return
		}
		if away != "" { // the probe finds out when that is over
			v.apply(b, outcome{questions: questions, err: &Unreachable{Reason: away}})
			continue
		}
		out := v.consult(ctx, store.View(), b.token, questions)
		if ctx.Err() != nil {
			return // and that is why there is no answer
		}
		v.apply(b, out)
	}
}

// next waits for a bearer with questions; nil when ctx has ended.
func (v *Verdicts) next(ctx context.Context) (*bearer, []Question, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for ctx.Err() == nil {
		if len(v.queue) == 0 {
			v.work.Wait()
			continue
		}
		b := v.queue[0]
		v.queue[0] = nil
		v.queue = v.queue[1:]
		if questions := b.batch(maxQuestions); len(questions) > 0 {
			return b, questions, v.away
		}
		b.queued = false
	}
	return nil, nil, ""
}

// outcome is what came of asking.
type outcome struct {
	questions []Question
	verdicts  []verdict // of each question; nil with an error
	err       error
}

// consult asks Consul about one token.
func (v *Verdicts) consult(ctx context.Context, view facts.View, token Token, questions []Question) outcome {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Patience)
	defer cancel()
	out := outcome{questions: questions}
	var all []Question
	ends := make([]int, len(questions)) // where the spellings of each question end in all
	for i, q := range questions {
		names := view.Spellings(q.Service)
		out.verdicts = append(out.verdicts, verdict{allow: true, as: spelling(names)})
		all = append(all, q.spelled(names)...)
		ends[i] = len(all)
	}
	answers, err := v.cfg.Authorizer.Authorize(ctx, token, all)
	off := errors.Is(err, ErrACLsOff)
	switch {
	case off:
		v.turned(aclsOff)
	case err == nil, errors.Is(err, ErrUnknownToken):
		v.turned(aclsOn)
	}
	if err != nil && !off {
		out.verdicts, out.err = nil, err
		return out
	}
	now, i := time.Now(), 0
	for n := range out.verdicts {
		d := &out.verdicts[n]
		for ; i < ends[n]; i++ {
			d.allow = d.allow && (off || answers[i])
		}
		d.at = now
	}
	return out
}

// apply takes what came of a bearer's questions to whoever depends on it.
func (v *Verdicts) apply(b *bearer, out outcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var gone *Unreachable
	switch {
	case out.err == nil:
		b.seen = time.Now()
		for i, q := range out.questions {
			b.verdicts[q] = out.verdicts[i]
		}
		v.enforce(b)
	case errors.Is(out.err, ErrUnknownToken):
		v.unknown(b)
		return
	case errors.As(out.err, &gone):
		v.lost(gone.Reason)
	default:
		v.log.Warn("Consul does not say what a token may: what it said last counts", "reason", out.err)
	}
	for _, q := range out.questions {
		b.land(q, out.err)
		if topic, ok := b.needs[q]; ok {
			v.dirty[topic] = struct{}{}
		}
	}
	b.queued = false
	if len(b.asked) > 0 {
		v.enqueue(b)
	}
	if len(v.dirty) > 0 {
		ring(v.bell)
	}
}

// enforce ends the grants that an answer no longer bears. The caller holds the lock.
func (v *Verdicts) enforce(b *bearer) {
	for g := range b.grants {
		if d, ok := b.verdicts[g.question]; ok && !d.allow && g.question.Service != "" {
			g.revoke(lacks(g.question))
		}
	}
}

// unknown forgets a token that does not exist. The caller holds the lock.
func (v *Verdicts) unknown(b *bearer) {
	why := refuse(Unauthenticated, "Consul does not know the token, or not any more")
	if b.token.IsZero() {
		why = refuse(Unauthenticated, "the stream has no token: send one in the metadata %s", MetadataToken)
	}
	for q := range b.asked {
		b.land(q, why)
	}
	for g := range b.grants {
		g.revoke(why)
	}
	v.drop(b)
}

// turned records whether there are rights to ask for, and says when that is news.
func (v *Verdicts) turned(now acls) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.acls
	v.acls = now
	if v.away != "" {
		v.away = ""
		v.log.Info("Consul says again what tokens may")
		ring(v.bell)
	}
	switch {
	case before == now:
	case now == aclsOff:
		v.log.Warn("ACLs are off in Consul: every client that reaches the gRPC address is admitted, as Consul does")
		ring(v.probe)
	case before == aclsOff:
		v.log.Info("ACLs are on in Consul now: the clients admitted without a token have to connect again", "streams", len(v.open))
		for g := range v.open {
			g.revoke(refuse(Unavailable, "ACLs were turned on in Consul: connect again, with a token"))
		}
	}
}

// lost records that Consul cannot be asked, and says so once. The caller holds the lock.
func (v *Verdicts) lost(reason string) {
	if v.away == "" {
		say := v.log.Warn
		if v.acls == aclsUnknown {
			say = v.log.Debug // nobody was let in yet, and the source tells of a Consul that is away
		}
		say("Consul cannot be asked what tokens may: those it knew are believed for a while, others must wait",
			"for", v.cfg.Hold.String(), "reason", reason)
		ring(v.probe)
	}
	v.away = reason
}
