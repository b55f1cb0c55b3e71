package facts

import (
	"maps"
	"net/netip"
	"strings"
)

// Verdict is what health discovery found out about an endpoint.
type Verdict struct {
	// Up is false for one that is down. One of which nothing is known has no verdict.
	Up bool
	// Only leaves Consul's checks nothing to say but that the instance is in maintenance.
	Only bool
}

// Verdicts is what is known of the endpoints of a service, by address. It does not change.
type Verdicts map[netip.AddrPort]Verdict

// VerdictsOf is the topic of the verdicts on the endpoints of a service, in the mesh or not.
func VerdictsOf(datacenter, service string) Topic {
	return Topic{Kind: TopicVerdicts, Datacenter: datacenter, Name: strings.ToLower(service)}
}

// Awaiting says that verdicts are about to come, so that what they are about is better not served yet.
type Awaiting struct {
	// Datacenter is where; empty when nothing is awaited.
	Datacenter string
	// All services are awaited, and not only those that ask for it by their Meta.
	All bool
}

// awaiting is the topic of what is awaited.
var awaiting = Topic{Kind: TopicVerdicts}

// Verdicts commits all verdicts on the endpoints of a service. The store keeps them; they must not change.
func (tx *Tx) Verdicts(topic Topic, v Verdicts) Outcome {
	if old, state := valueOf[Verdicts](View{txn: tx.txn}, topic); state == Present && maps.Equal(old, v) {
		return Outcome{}
	}
	return tx.value(topic, v)
}

// Await commits whether verdicts are about to come.
func (tx *Tx) Await(a Awaiting) Outcome { return tx.value(awaiting, a) }

// Verdicts returns the verdicts on the endpoints of a topic of instances; known is false before the first.
func (v View) Verdicts(topic Topic) (verdicts Verdicts, known bool) {
	if topic.Peer != "" {
		return nil, false
	}
	verdicts, state := valueOf[Verdicts](v, VerdictsOf(topic.Datacenter, topic.Name))
	return verdicts, state == Present
}

// Verdicts is [View.Verdicts], remembered.
func (r *Reader) Verdicts(topic Topic) (verdicts Verdicts, known bool) {
	if topic.Peer == "" {
		r.reads[ID{Topic: VerdictsOf(topic.Datacenter, topic.Name)}] = struct{}{}
	}
	return r.View.Verdicts(topic)
}

// Awaiting returns whether verdicts are about to come.
func (v View) Awaiting() Awaiting {
	a, _ := valueOf[Awaiting](v, awaiting)
	return a
}

// Awaiting is [View.Awaiting], remembered.
func (r *Reader) Awaiting() Awaiting {
	r.reads[ID{Topic: awaiting}] = struct{}{}
	return r.View.Awaiting()
}
