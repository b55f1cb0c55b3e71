package identity

import (
	"errors"
	"math/rand/v2"
	"time"
)

// pace spaces orders evenly, after a few at once. Where that is more than Consul takes, it finds out how
// much is not.
type pace struct {
	least    time.Duration // the interval that is configured
	interval time.Duration
	next     time.Time
}

const (
	// burst is how many orders may come at once.
	burst = 5
	// slowest bounds the interval.
	slowest = 2 * time.Second
)

// at is when the next order may be.
func (p *pace) at(now time.Time) time.Time {
	return latest(now, p.next.Add(-(burst-1)*p.interval))
}

// take counts an order.
func (p *pace) take(now time.Time) { p.next = latest(p.next, now).Add(p.interval) }

// slower is what an order that was one too many does, and faster one that was not.
func (p *pace) slower(now time.Time) {
	p.interval = min(2*p.interval, slowest)
	p.next = latest(p.next, now.Add((burst-1)*p.interval)) // and none at once
}

func (p *pace) faster() { p.interval = max(p.interval*9/10, p.least) }

// pause is for how long nobody orders anything: Consul limits orders, or is not there.
type pause struct {
	until  time.Time
	length time.Duration
	reason string
}

// pauseMax bounds a pause: one order is made after it, and finds out.
const pauseMax = 10 * time.Second

// common reports whether an error concerns all orders alike.
func common(err error) bool {
	var limited *Limited
	var gone *Unreachable
	return errors.As(err, &limited) || errors.As(err, &gone) || errors.Is(err, ErrUnknownToken)
}

// heed pauses after an order that shows that others fail too, and ends the pause after one that got an
// answer.
func (k *keeper) heed(err error, now time.Time) {
	p := &k.pause
	if err == nil {
		k.pace.faster()
	}
	switch {
	case !common(err) && p.reason != "":
		*p = pause{}
		k.log.Info("orders of certificates are answered again")
		return
	case !common(err), now.Before(p.until): // the latter was under way already
		return
	case p.reason == "":
		k.log.Warn("no certificates are issued now: those that there are stay in use", "reason", err)
	}
	var limited *Limited
	if errors.As(err, &limited) {
		k.pace.slower(now)
	}
	p.reason = err.Error()
	p.length = min(max(2*p.length, k.cfg.RetryMin), k.cfg.RetryMax, pauseMax)
	p.until = now.Add(p.length - rand.N(p.length/2+1))
	k.excuse()
}
