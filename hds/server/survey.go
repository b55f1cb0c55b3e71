package server

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// service is a service whose endpoints may be probed.
type service struct {
	// name is in lower case.
	name string
	set  string
	// rolls are the instances by topic: those that somebody dials, or that ask to be probed.
	rolls []*roll
	// claims are what is wanted of each endpoint, in order, and probed is what is done.
	claims map[hds.Key][]*claim
	probed map[hds.Key]*claim
	known  bool // all topics are known

	// verdicts are those that were published; nil before the first.
	verdicts facts.Verdicts
	// wanted is whether a client has it. While it is held at a start it is not published with less than all
	// verdicts, until a time that is zero as long as nobody waits.
	wanted, held bool
	until        time.Time
}

// roll is the instances of a topic as they were last looked at.
type roll struct {
	topic  facts.Topic
	at     int // among the rolls
	list   []*facts.Instance
	claims map[*facts.Instance]*claim
}

// claim is how an instance wants its endpoint to be probed. It is probed so if nothing is refused.
type claim struct {
	in      *facts.Instance
	at      int
	duty    hds.Duty
	found   bool
	from    string
	refused string
	skipped []string
}

func (c *claim) compare(other *claim) int {
	return cmp.Or(cmp.Compare(c.at, other.at), compareInstances(c.in, other.in))
}

func (c *claim) name() string { return c.in.Service.ID + " on " + c.in.Node.Node }

// sameInstance is for one that is there by two topics.
func (c *claim) sameInstance(other *claim) bool { return compareInstances(c.in, other.in) == 0 }

// compareInstances orders instances as the facts do.
func compareInstances(a, b *facts.Instance) int {
	return cmp.Or(strings.Compare(strings.ToLower(a.Node.Node), strings.ToLower(b.Node.Node)),
		strings.Compare(strings.ToLower(a.Service.ID), strings.ToLower(b.Service.ID)))
}

// arrange has the service be about these topics.
func (s *service) arrange(topics []facts.Topic) (changed bool) {
	if slices.EqualFunc(s.rolls, topics, func(r *roll, t facts.Topic) bool { return r.topic == t }) {
		return false
	}
	for _, r := range s.rolls {
		for _, c := range r.claims {
			s.withdraw(c)
		}
	}
	s.rolls = nil
	for i, t := range topics {
		s.rolls = append(s.rolls, &roll{topic: t, at: i, claims: map[*facts.Instance]*claim{}})
	}
	return true
}

// survey finds out how the endpoints of a service are to be probed, by what changed since it last did, or wholly.
// An instance that is the same is not looked at again: the facts share what does not change.
func (e *engine) survey(view facts.View, s *service, wholly bool) {
	var meta map[string]string
	if entry, _ := view.Entry(chain.KindServiceDefaults, s.name); entry != nil {
		meta = entry.Head().Meta
	}
	touched := map[hds.Key]struct{}{}
	if wholly {
		for k := range s.probed {
			touched[k] = struct{}{}
		}
	}
	known := true
	for _, r := range s.rolls {
		known = known && view.Known(r.topic)
		list, _ := view.Instances(r.topic)
		before := r.list
		if r.list = list; wholly {
			for in := range r.claims {
				s.remove(r, in, touched)
			}
			before = nil
		}
		difference(before, list, func(in *facts.Instance) { s.remove(r, in, touched) }, func(in *facts.Instance) {
			if c := e.assess(s, in, meta, r.topic); c != nil {
				s.add(r, c, touched)
			}
		})
	}
	news := known != s.known
	s.known = known
	e.resolve(s, touched, news)
}

// difference calls gone for what is no more and then came for what is new, of two lists in the order of the facts.
func difference(before, after []*facts.Instance, gone, came func(*facts.Instance)) {
	var fresh []*facts.Instance
	i, j := 0, 0
	for i < len(before) && j < len(after) {
		if before[i] == after[j] {
			i, j = i+1, j+1
			continue
		}
		order := compareInstances(before[i], after[j])
		if order <= 0 {
			gone(before[i])
			i++
		}
		if order >= 0 {
			fresh = append(fresh, after[j])
			j++
		}
	}
	for ; i < len(before); i++ {
		gone(before[i])
	}
	for _, in := range append(fresh, after[j:]...) {
		came(in)
	}
}

func (s *service) add(r *roll, c *claim, touched map[hds.Key]struct{}) {
	c.at = r.at
	r.claims[c.in] = c
	k := c.duty.Key
	touched[k] = struct{}{}
	if s.claims == nil {
		s.claims, s.probed = map[hds.Key][]*claim{}, map[hds.Key]*claim{}
	}
	all := append(s.claims[k], c)
	slices.SortFunc(all, (*claim).compare)
	s.claims[k] = all
}

func (s *service) remove(r *roll, in *facts.Instance, touched map[hds.Key]struct{}) {
	c := r.claims[in]
	if c == nil {
		return
	}
	delete(r.claims, in)
	touched[c.duty.Key] = struct{}{}
	s.withdraw(c)
}

func (s *service) withdraw(c *claim) {
	k := c.duty.Key
	left := slices.DeleteFunc(s.claims[k], func(x *claim) bool { return x == c })
	if s.claims[k] = left; len(left) == 0 {
		delete(s.claims, k)
	}
}

// resolve decides by whose claim each of the endpoints is probed, which is the first that can be.
func (e *engine) resolve(s *service, touched map[hds.Key]struct{}, news bool) {
	var gone, moved []hds.Key
	var put []hds.Duty
	for k := range touched {
		before := s.probed[k]
		var now *claim
		if at := slices.IndexFunc(s.claims[k], func(c *claim) bool { return c.found }); at >= 0 {
			now = s.claims[k][at]
		}
		switch {
		case now == nil && before != nil:
			gone = append(gone, k)
			delete(s.probed, k)
		case now != nil:
			if s.probed[k] = now; before == nil || before.duty != now.duty {
				put = append(put, now.duty)
				moved = append(moved, k)
			}
		}
	}
	if len(gone) > 0 {
		e.assignment.Remove(gone...)
		e.verdicts.Remove(gone...)
	}
	if len(put) > 0 {
		slices.SortFunc(put, func(a, b hds.Duty) int {
			return cmp.Or(strings.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
		})
		e.assignment.Put(put...)
		e.verdicts.Put(put...)
	}
	if news || s.verdicts == nil || len(gone)+len(moved) > 0 {
		e.publish(s, append(gone, moved...))
	}
}

// assess finds out how an instance wants to be probed; nil if it does not.
func (e *engine) assess(s *service, in *facts.Instance, meta map[string]string, topic facts.Topic) *claim {
	// Most fleets have services that nobody probes, and flips of them cost next to nothing.
	if !e.cfg.DefaultTCP && !e.cfg.FromChecks && !snapshot.AsksForProbes(meta) && !snapshot.AsksForProbes(in.Service.Meta) {
		return nil
	}
	address, port := snapshot.Dial(in, false)
	duty := hds.Duty{Endpoint: hds.Endpoint{
		Key:     hds.Key{Set: s.set, Address: address, Port: uint32(max(port, 0))},
		Service: s.name, Node: in.Node.Node,
	}}.Canonical()
	if l := snapshot.LocalityOf(in); l != nil {
		duty.Region, duty.Zone = l.Region, l.Zone
	}
	q := hds.Question{
		ServiceMeta: meta, InstanceMeta: in.Service.Meta, Address: address, DefaultTCP: e.cfg.DefaultTCP,
		Mesh: topic.Kind == facts.TopicConnect || in.Service.Connect.Native || in.Service.Kind == kindProxy,
	}
	if e.cfg.FromChecks {
		q.Definitions = definitions(in)
	}
	choice := hds.Choose(q)
	duty.Probe, duty.Policy = choice.Probe, choice.Policy
	if choice.Found && choice.Refused == "" {
		choice.Refused = duty.Problem()
	}
	found := choice.Found && choice.Refused == ""
	if !found && choice.Refused == "" && len(choice.Skipped) == 0 {
		return nil
	}
	return &claim{in: in, duty: duty, found: found, from: choice.From, refused: choice.Refused, skipped: choice.Skipped}
}

// consul is what Consul's checks say of the instance.
func (c *claim) consul() string {
	if snapshot.InMaintenance(c.in) {
		return "maintenance"
	}
	return string(snapshot.WorstStatus(c.in))
}

// kindProxy is the kind of sidecars.
const kindProxy = "connect-proxy"

// maxNotes bounds what is told of a service.
const maxNotes = 100

// told lists what is not probed, and what is probed otherwise than it asks for, with the reasons.
func (s *service) told() (refused []hds.Refusal, notes []string) {
	var all []*claim
	for _, claims := range s.claims {
		all = append(all, claims...)
	}
	slices.SortFunc(all, (*claim).compare)
	for _, c := range all {
		r := hds.Refusal{Key: c.duty.Key, Service: s.name, Reason: c.refused}
		if c.refused != "" && len(refused) < maxNotes && !slices.Contains(refused, r) {
			refused = append(refused, r)
		}
		for _, text := range c.skipped {
			notes = append(notes, c.name()+": "+text)
		}
		if text := s.sharing(c); text != "" {
			notes = append(notes, text)
		}
	}
	if n := len(notes) - maxNotes; n > 0 {
		notes = append(notes[:maxNotes], fmt.Sprintf("and %d more", n))
	}
	return refused, notes
}

// unprobed is how many endpoints have an instance that asks for a probe which no checker is given.
func (s *service) unprobed() int {
	n := 0
	for _, claims := range s.claims {
		if slices.ContainsFunc(claims, func(c *claim) bool { return c.refused != "" }) {
			n++
		}
	}
	return n
}

// sharing says that an endpoint is probed by another instance's claim: there is one verdict on an address.
func (s *service) sharing(c *claim) string {
	probed := s.probed[c.duty.Key]
	if probed == nil || probed == c || probed.sameInstance(c) {
		return ""
	}
	text := fmt.Sprintf("%s has the address %s of %s too, and the verdict on that is on both", c.name(), addressText(c.duty.Key), probed.name())
	switch {
	case !c.found:
		return text
	case c.duty.Probe != probed.duty.Probe:
		text += fmt.Sprintf(": the probe is %s, and not %s as it asks for", probeText(probed.duty.Probe), probeText(c.duty.Probe))
	case c.duty.Policy != probed.duty.Policy:
		text += fmt.Sprintf(": the policy is %s, and not %s as it asks for", probed.duty.Policy, c.duty.Policy)
	}
	return text
}

func addressText(k hds.Key) string {
	return net.JoinHostPort(k.Address, strconv.FormatUint(uint64(k.Port), 10))
}
