package facts

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// CARoots is the topic of the certificate authority that the mesh trusts.
func CARoots() Topic { return Topic{Kind: TopicRoots} }

// DefaultIntention is the topic of what holds between services that no intention is about.
func DefaultIntention() Topic { return Topic{Kind: TopicDefaultIntention} }

// LeafOf is the topic of the certificate of a service, whose name is as the service is registered: rights
// and certificates mind the case of names, unlike look-ups.
func LeafOf(service string) Topic { return Topic{Kind: TopicLeaf, Name: service} }

// Gateways is the topic of the mesh gateways of a datacenter.
func Gateways(datacenter string) Topic { return Topic{Kind: TopicGateways, Datacenter: datacenter} }

// Roots is the certificate authority: all roots that are trusted, of which one signs.
type Roots struct {
	// TrustDomain is in lower case.
	TrustDomain string
	List        []Root
}

// Root is one root of the certificate authority. Certificates are PEM.
type Root struct {
	ID            string
	Cert          string
	Intermediates []string
	// Active marks the one that signs.
	Active bool
}

// Leaf is what may be known of the certificate of a service. The key is not a fact: who keeps it finds it by
// the serial number.
type Leaf struct {
	// Service is as it is spelled in the certificate, URI its SPIFFE ID.
	Service, URI string
	// Serial tells it from those before it.
	Serial string
	// Root is the ID of the root it was signed under.
	Root     string
	NotAfter time.Time
}

// valueRow is the one value of a topic that has no rows.
type valueRow struct {
	Topic string // Topic.String()
	Value any
}

// Roots commits the certificate authority. One without roots is no authority, and is not taken.
func (tx *Tx) Roots(r Roots) Outcome {
	if len(r.List) == 0 {
		tx.Fail(CARoots(), "there are no roots")
		return Outcome{Unconfirmed: true}
	}
	r.TrustDomain, r.List = strings.ToLower(r.TrustDomain), slices.Clone(r.List)
	return tx.value(CARoots(), r)
}

// DefaultIntention commits whether services may talk to each other where no intention says anything.
func (tx *Tx) DefaultIntention(allow bool) Outcome { return tx.value(DefaultIntention(), allow) }

// Leaf commits the certificate of the service of a topic of kind leaf.
func (tx *Tx) Leaf(topic Topic, l Leaf) Outcome { return tx.value(topic, l) }

// value commits the value of a topic.
func (tx *Tx) value(topic Topic, value any) Outcome {
	defer tx.read(topic, Reading{Confirmed: true}, true)
	if old := (View{txn: tx.txn}).value(topic); old != nil && reflect.DeepEqual(old, value) {
		return Outcome{}
	}
	tx.must(0, tx.txn.Insert(tableValues, &valueRow{Topic: topic.String(), Value: value}))
	tx.changed[ID{Topic: topic}] = struct{}{}
	return Outcome{Changed: true}
}

// dropValue forgets the value of a topic.
func (tx *Tx) dropValue(topic Topic) {
	n, err := tx.txn.DeleteAll(tableValues, indexTopic, topic.String())
	tx.must(n, err)
	if n > 0 {
		tx.changed[ID{Topic: topic}] = struct{}{}
	}
}

func (v View) value(topic Topic) any {
	if raw, _ := v.txn.First(tableValues, indexID, topic.String()); raw != nil {
		return raw.(*valueRow).Value
	}
	return nil
}

// valueOf is the value of a topic: present, or unknown. It is never absent: a source that has none says why.
func valueOf[T any](v View, topic Topic) (T, State) {
	if value, ok := v.value(topic).(T); ok {
		return value, Present
	}
	var none T
	return none, Unknown
}

// Roots returns the certificate authority: present or unknown. It is shared and must not be changed.
func (v View) Roots() (Roots, State) { return valueOf[Roots](v, CARoots()) }

// DefaultIntention returns whether services may talk where no intention says anything: present or unknown.
func (v View) DefaultIntention() (allow bool, state State) {
	return valueOf[bool](v, DefaultIntention())
}

// Leaf returns the certificate of a service: present or unknown.
func (v View) Leaf(service string) (Leaf, State) { return valueOf[Leaf](v, LeafOf(service)) }

// Roots is [View.Roots], remembered.
func (r *Reader) Roots() (Roots, State) {
	roots, state := r.View.Roots()
	r.note(CARoots(), "", state)
	return roots, state
}

// DefaultIntention is [View.DefaultIntention], remembered.
func (r *Reader) DefaultIntention() (allow bool, state State) {
	allow, state = r.View.DefaultIntention()
	r.note(DefaultIntention(), "", state)
	return allow, state
}

// Leaf is [View.Leaf], remembered.
func (r *Reader) Leaf(service string) (Leaf, State) {
	leaf, state := r.View.Leaf(service)
	r.note(LeafOf(service), "", state)
	return leaf, state
}
