package consulwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// virtualIPsOf is where Consul tells the virtual IPs of a service, those that were set by hand too. They are in
// nothing else that can be read, and nothing tells of a change: a query that waits there sleeps on.
const virtualIPsOf = "/v1/discovery-chain/"

// The bounds of asking for virtual IPs: how many questions at once while there are services that were never asked
// about, and how far apart else.
const (
	virtualAtOnce = 8
	virtualBatch  = 64
	virtualApart  = 20 * time.Millisecond
)

// virtuals asks for the virtual IPs of the services that can have any, one after the other and again and again. Only
// services that have an automatic one can be given others: those in the mesh, and those that entries name.
type virtuals struct {
	source *Source
	to     *sink
	retry  *backoff.ExponentialBackOff

	entries []string                 // services by entries
	owners  map[facts.Topic][]string // services by the instances of a topic
	asked   map[string]*virtual      // of those that have one by either
	fresh   []string                 // were never asked about
	queue   []string                 // were asked about, the one longest ago first
	dirty   bool                     // something is known that was not committed
}

// virtual is what is known of the virtual IPs of a service.
type virtual struct {
	ips    facts.ServiceIPs
	known  bool
	unread string // why it is not
	at     time.Time
	news   bool // it is other than before
}

// followVirtualIPs is the [follower] of virtual IPs.
func (s *Source) followVirtualIPs(ctx context.Context, to *sink) {
	v := &virtuals{
		source: s, to: to, retry: exponential(s.limits.RetryMin, s.limits.RetryMax),
		owners: map[facts.Topic][]string{}, asked: map[string]*virtual{},
	}
	s.slots.enter()
	defer s.slots.leave()
	sub := to.store.Subscribe()
	defer sub.Close()
	v.survey(to.store.View())
	v.dirty = true
	for ctx.Err() == nil {
		recovered := s.recovered.next()
		next, err := v.step(ctx)
		if err != nil && ctx.Err() == nil {
			to.fail(err)
			to.mode(ModeRetrying)
			pause(ctx, v.retry.NextBackOff(), recovered)
			continue
		}
		v.await(ctx, next, sub)
	}
}

// await sleeps until the next question, or until there may be services that were never asked about.
func (v *virtuals) await(ctx context.Context, next time.Duration, sub *facts.Subscription) {
	timer := time.NewTimer(next)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-sub.Bell():
			if view, ids := sub.Drain(); v.look(view, ids) {
				return
			}
		}
	}
}

// survey looks through all facts for the services that can have virtual IPs.
func (v *virtuals) survey(view facts.View) {
	v.entries = view.VirtualEntries()
	for _, status := range view.Topics() {
		if v.ours(status.Topic) {
			v.owners[status.Topic] = view.VirtualOwners(status.Topic)
		}
	}
	v.choose()
}

// ours are topics of instances by which services have virtual IPs.
func (v *virtuals) ours(t facts.Topic) bool {
	return t.Kind == facts.TopicHealth && t.Peer == "" && t.Datacenter == v.to.topic.Datacenter
}

// look takes in changed facts, and reports whether they concern which services there are to ask about.
func (v *virtuals) look(view facts.View, ids []facts.ID) bool {
	entries, changed := false, false
	for _, id := range ids {
		entries = entries || id.Topic.Kind == facts.TopicEntries
		if !v.ours(id.Topic) {
			continue
		}
		now := view.VirtualOwners(id.Topic)
		changed = changed || !slices.Equal(now, v.owners[id.Topic])
		if v.owners[id.Topic] = now; len(now) == 0 {
			delete(v.owners, id.Topic)
		}
	}
	if entries {
		now := view.VirtualEntries()
		changed = changed || !slices.Equal(now, v.entries)
		v.entries = now
	}
	if changed {
		v.choose()
		v.dirty = true
	}
	return changed
}

// choose makes what is asked about that which can have virtual IPs now.
func (v *virtuals) choose() {
	wanted := map[string]bool{}
	for _, name := range v.entries {
		wanted[name] = true
	}
	for _, names := range v.owners {
		for _, name := range names {
			wanted[name] = true
		}
	}
	gone := func(name string) bool { return !wanted[name] }
	v.fresh, v.queue = slices.DeleteFunc(v.fresh, gone), slices.DeleteFunc(v.queue, gone)
	maps.DeleteFunc(v.asked, func(name string, _ *virtual) bool { return gone(name) })
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if v.asked[name] == nil {
			v.asked[name] = &virtual{}
			v.fresh = append(v.fresh, name)
		}
	}
}

// step asks about those that were never asked about, or the one whose turn it is, and returns how long there is
// nothing to do. The error is of Consul as a whole.
func (v *virtuals) step(ctx context.Context) (time.Duration, error) {
	if len(v.fresh) > 0 {
		batch := slices.Clone(v.fresh[:min(len(v.fresh), virtualBatch)])
		if err := v.ask(ctx, batch); err != nil {
			return 0, err
		}
		v.fresh = v.fresh[len(batch):]
		v.queue = append(v.queue, batch...)
		return 0, nil
	}
	if v.dirty {
		return 0, v.commit(ctx)
	}
	if len(v.queue) == 0 {
		return v.source.limits.VirtualIPs, nil
	}
	name := v.queue[0]
	if left := time.Until(v.asked[name].at.Add(v.source.limits.VirtualIPs)); left > 0 {
		return left, nil
	}
	if err := v.ask(ctx, []string{name}); err != nil {
		return 0, err
	}
	v.queue = append(v.queue[1:], name)
	return virtualApart, v.commit(ctx)
}

// ask asks about services. What fails for one of them alone is noted with it; what was known of it stays.
func (v *virtuals) ask(ctx context.Context, names []string) error {
	v.to.mode(ModeAsking)
	var group errgroup.Group
	group.SetLimit(virtualAtOnce)
	for _, name := range names {
		of := v.asked[name]
		group.Go(func() error { return v.askOne(ctx, name, of) })
	}
	err := group.Wait()
	for _, name := range names {
		v.dirty = v.dirty || v.asked[name].news
		v.asked[name].news = false
	}
	if err == nil {
		v.retry.Reset()
	}
	return err
}

func (v *virtuals) askOne(ctx context.Context, name string, of *virtual) error {
	release, err := v.source.slots.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	before := *of
	topic := facts.Topic{Kind: facts.TopicVirtualIPs, Name: name}
	q := queryFor(topic, v.source.datacenterOf(v.to.topic))
	a, err := v.source.ask(ctx, q, 0, 0)
	var f *failure
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f) && f.server:
		return err
	case errors.As(err, &f) && f.off:
		of.ips, of.known, of.unread = facts.ServiceIPs{}, true, ""
	case err != nil:
		of.unread = err.Error()
	default:
		v.source.metrics.Query(v.to.topic.Kind, ResultUnchanged, a.took)
		v.source.reached(v.to.topic)
		of.take(q, a.body)
	}
	of.at = time.Now()
	of.news = of.known != before.known || of.unread != before.unread ||
		!slices.Equal(of.ips.Automatic, before.ips.Automatic) || !slices.Equal(of.ips.Manual, before.ips.Manual)
	return nil
}

func (of *virtual) take(q query, body []byte) {
	var said struct {
		Chain *struct{ AutoVirtualIPs, ManualVirtualIPs []string }
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Chain == nil {
		of.unread = fmt.Sprintf("%s: the answer has no discovery chain (%v)", q, err)
		return
	}
	of.ips = facts.ServiceIPs{Automatic: addresses(said.Chain.AutoVirtualIPs), Manual: addresses(said.Chain.ManualVirtualIPs)}
	of.known, of.unread = true, ""
}

func addresses(texts []string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			list = append(list, ip.Unmap())
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// commit commits what is known, once all were asked about. Consul moves an IP that is set for another service, so
// of several that seem to have one all but one were asked before it was moved: they are asked again.
func (v *virtuals) commit(ctx context.Context) error {
	if !v.dirty {
		v.settled(v.to.broken)
		return nil
	}
	all, reason := v.all()
	if again := claimants(all); len(again) > 0 {
		if err := v.ask(ctx, again); err != nil {
			return err
		}
		all, reason = v.all()
	}
	v.to.store.Commit(func(tx *facts.Tx) {
		tx.VirtualIPs(v.to.topic.Datacenter, all)
		tx.Fail(v.to.topic, reason)
	})
	v.dirty = false
	v.settled(reason)
	return nil
}

// settled records that Consul answered, if not for all services.
func (v *virtuals) settled(reason string) {
	v.to.broken = reason
	v.to.answered(answer{})
	v.to.mu.Lock()
	before := v.to.status.Failure
	v.to.mu.Unlock()
	if before != reason {
		v.to.store.Commit(func(tx *facts.Tx) { tx.Fail(v.to.topic, reason) })
		v.to.failure(reason)
	}
}

// all is what is known, and why not all is.
func (v *virtuals) all() (all facts.Virtual, reason string) {
	all = facts.Virtual{Services: map[string]facts.ServiceIPs{}, Unread: map[string]string{}}
	var failed []string
	for name, of := range v.asked {
		if of.known {
			all.Services[name] = of.ips
		} else if of.unread != "" {
			all.Unread[name] = of.unread
		}
		if of.unread != "" {
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		reason = fmt.Sprintf("the virtual IPs of %d services, such as %q: %s", len(failed), failed[0], v.asked[failed[0]].unread)
	}
	return all, reason
}

// claimants are the services that have an IP by hand which another has too.
func claimants(all facts.Virtual) []string {
	first, again := map[netip.Addr]string{}, map[string]bool{}
	for name, ips := range all.Services {
		for _, ip := range ips.Manual {
			if other, taken := first[ip]; taken {
				again[name], again[other] = true, true
			}
			first[ip] = name
		}
	}
	return slices.Sorted(maps.Keys(again))
}
