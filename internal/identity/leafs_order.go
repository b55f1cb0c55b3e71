package identity

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// kept is a service whose certificate is kept up.
type kept struct {
	topic facts.Topic
	until time.Time // when it is forgotten; zero while it is needed
	due   time.Time // when the next certificate is ordered
	trim  time.Time // when the one before is dropped; zero when there is none
	busy  bool      // one is ordered

	now      *leaf
	waiting  *result // a certificate whose root is not known yet
	rotating string  // the root for whose sake it is renewed
	repeats  int     // how often that brought the certificate that there was
	failed   int     // attempts since the last success
	failure  string
	alarmed  bool
}

// before reports whether a certificate is ordered before that of another.
func (one *kept) before(other *kept) bool {
	if (one.now == nil) != (other.now == nil) {
		return one.now == nil
	}
	return one.due.Before(other.due)
}

// leaf is a certificate in use.
type leaf struct {
	fact  facts.Leaf
	certs []*x509.Certificate
	alarm time.Time // when it should have been renewed
}

// result is what came of an order.
type result struct {
	topic  facts.Topic
	order  Order
	issued Issued
	certs  []*x509.Certificate
	err    error
}

// order has a certificate issued.
func (k *keeper) order(one *kept) {
	r := result{topic: one.topic, order: Order{Service: one.topic.Name, URI: k.uri(one.topic.Name)}}
	one.busy = true
	k.running++
	k.start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, k.cfg.Patience)
		defer cancel()
		if r.issued, r.err = k.cfg.Issuer.Issue(ctx, r.order); r.err == nil {
			r.certs, r.err = check(r.order, r.issued)
		}
		k.results <- r
	})
}

// settle takes what came of an order.
func (k *keeper) settle(r result, now time.Time) {
	one := k.kept[r.topic]
	k.cfg.Metrics.LeafOrder(k.outcome(one, r))
	k.heed(r.err, now)
	if one == nil {
		return // it was forgotten meanwhile
	}
	one.busy = false
	if r.err != nil {
		k.fail(one, r.err, now)
		return
	}
	k.admit(one, r, now)
}

// outcome is the result of an order, for the metrics.
func (k *keeper) outcome(one *kept, r result) string {
	var limited *Limited
	var forbidden *Forbidden
	var gone *Unreachable
	switch {
	case r.err == nil && one.holds(r):
		return OrderUnchanged
	case r.err == nil:
		return OrderIssued
	case errors.As(r.err, &limited):
		return OrderLimited
	case errors.As(r.err, &forbidden), errors.Is(r.err, ErrUnknownToken):
		return OrderForbidden
	case errors.As(r.err, &gone):
		return OrderUnreachable
	}
	return OrderFailed
}

// holds reports whether a certificate is the one in use.
func (one *kept) holds(r result) bool {
	return one != nil && one.now != nil && one.now.certs[0].Equal(r.certs[0])
}

// fail keeps what there is, and says why there is nothing newer.
func (k *keeper) fail(one *kept, err error, now time.Time) {
	reason := err.Error()
	if common(err) {
		one.due = now // after the pause, which has said why
	} else {
		one.failed++
		wait := k.cfg.RetryMax
		if shift := one.failed - 1; shift < 16 {
			wait = min(k.cfg.RetryMin<<shift, k.cfg.RetryMax)
		}
		one.due = now.Add(wait - rand.N(wait/4+1))
		if reason != one.failure {
			k.log.Warn("a service gets no certificate; if it has one, that stays in use", "service", one.topic.Name, "has_one", one.now != nil, "reason", reason)
		}
	}
	one.failure = reason
	k.store.Commit(func(tx *facts.Tx) { tx.Fail(one.topic, reason) })
}

// admit takes a certificate into use, unless those who are to believe it cannot know its root yet.
func (k *keeper) admit(one *kept, r result, now time.Time) {
	root, ok := k.authority.rootOf(r.certs)
	if !ok {
		k.await(one, r, now)
		return
	}
	same := one.holds(r)
	one.waiting, one.failed, one.failure = nil, 0, ""
	one.due = renewal(r.certs[0], now)
	if same {
		// Whoever issues it makes another when it sees fit.
		one.due = now.Add(max(leastLife, r.certs[0].NotAfter.Sub(now)/20))
	} else {
		one.alarmed = false
	}
	one.now = &leaf{
		fact: factOf(r.order, r.certs[0], root), certs: r.certs,
		alarm: part(r.certs[0], renewLast),
	}
	if !same {
		k.hold(one, r.issued, now)
	}
	switch active := k.authority.active; {
	case root == active:
		one.rotating, one.repeats = "", 0
	case one.rotating == active: // whoever issues does not sign by the other root yet
		wait := one.patience(same)
		one.due = now.Add(wait + rand.N(wait))
	default:
		k.retrust(one, now)
	}
	k.commit(one)
	k.tell()
}

// await keeps a certificate until its root is known. When it is not for long, it is the wrong one.
func (k *keeper) await(one *kept, r result, now time.Time) {
	one.waiting = &r
	k.fail(one, errRoot, now)
	one.due = now.Add(rootTime << min(one.failed-1, rootTimes))
}

// rootTime is how long a certificate waits for its root before another is ordered. That doubles so often.
const (
	rootTime  = 10 * time.Second
	rootTimes = 6
)

var errRoot = errors.New("the certificate was signed by a root that Consul has not told of yet: it waits until those who are to believe it can know the root")

// commit makes a certificate in use a fact.
func (k *keeper) commit(one *kept) {
	k.store.Commit(func(tx *facts.Tx) { tx.Leaf(one.topic, one.now.fact) })
}

// The part of its life after which a certificate is renewed: at a random point between these, so that
// those made at once are not renewed at once. Consul's agents do the same.
const (
	renewFirst = 0.6
	renewLast  = 0.9
)

const (
	// repeatTime is how long is waited at least when an agent still gives the certificate that it has: one
	// that follows it for others, such as its own sidecars, waits up to 30 s before it renews it, and asking
	// costs nobody a signature.
	repeatTime = 3 * time.Second
	// mostRepeats is how often that is done before it is taken for something that lasts.
	mostRepeats = 12
)

// patience is how long is waited at least for a certificate of another root.
func (one *kept) patience(same bool) time.Duration {
	if !same || one.repeats >= mostRepeats {
		return leastLife
	}
	one.repeats++
	return repeatTime
}

// leastLife is how long a certificate is used at least before another is ordered for its age: clocks that
// differ must not make us order without end.
const leastLife = time.Minute

// renewal is when a certificate is renewed.
func renewal(c *x509.Certificate, now time.Time) time.Time {
	first, last := latest(part(c, renewFirst), now), part(c, renewLast)
	if last.After(first) {
		first = first.Add(rand.N(last.Sub(first)))
	}
	return latest(first, now.Add(leastLife))
}

// part is when a certificate has lived so much of its life.
func part(c *x509.Certificate, of float64) time.Time {
	return c.NotBefore.Add(time.Duration(of * float64(c.NotAfter.Sub(c.NotBefore))))
}

// expire raises the alarm for certificates that were not renewed in time.
func (k *keeper) expire(now time.Time) {
	for _, one := range k.kept {
		if one.now == nil || one.alarmed || now.Before(one.now.alarm) {
			continue
		}
		one.alarmed = true
		text := fmt.Sprintf("the certificate of %q was not renewed in time, and is valid until %s only: %s",
			one.now.fact.Service, one.now.fact.NotAfter.UTC().Format(time.RFC3339), cmp.Or(one.failure, "it is the newest there is"))
		k.log.Error("a certificate was not renewed in time; it stays in use", "service", one.now.fact.Service,
			"not_after", one.now.fact.NotAfter, "reason", one.failure)
		k.alarm(one.topic.Name, text)
	}
}

// spiffeID is the identity of a service, as Consul writes it.
func spiffeID(domain, datacenter, service string) string {
	u := url.URL{Scheme: "spiffe", Host: domain, Path: "/ns/default/dc/" + datacenter + "/svc/" + service}
	return u.String()
}
