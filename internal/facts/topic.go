package facts

import (
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// TopicKind is what a [Topic] is about.
type TopicKind string

// The kinds of topics.
const (
	// TopicEntries is all config entries of one kind; Name is the kind.
	TopicEntries TopicKind = "entries"
	// TopicServices is the names of all services of a datacenter.
	TopicServices TopicKind = "services"
	// TopicHealth is the instances of a service, dialled directly.
	TopicHealth TopicKind = "health"
	// TopicConnect is what accepts mesh traffic for a service: sidecars and Connect-native instances.
	TopicConnect TopicKind = "connect"
	// TopicProxies is the registrations of the sidecars of a service, with central configuration merged.
	TopicProxies TopicKind = "proxies"
	// TopicRights is whether a reader may read a service; see [Rights].
	TopicRights TopicKind = "rights"
	// TopicRoots is the certificate authority that the mesh trusts.
	TopicRoots TopicKind = "roots"
	// TopicDefaultIntention is what holds between services that no intention is about.
	TopicDefaultIntention TopicKind = "default-intention"
	// TopicLeaf is the certificate of a service; whoever has certificates signed follows it.
	TopicLeaf TopicKind = "leaf"
	// TopicGateways is the mesh gateways of a datacenter.
	TopicGateways TopicKind = "gateways"
	// TopicVerdicts is what health discovery found out about the endpoints of a service; it alone writes it.
	TopicVerdicts TopicKind = "verdicts"
	// TopicVirtualIPs is the virtual IPs of the services of a datacenter.
	TopicVirtualIPs TopicKind = "virtual-ips"
)

// Topic is what a source follows as one: it is read whole, becomes known whole, and is needed or not.
// It is comparable.
type Topic struct {
	Kind TopicKind
	// Datacenter is empty for what all datacenters have in common: entries, rights, roots, certificates; and
	// for what a cluster peer has.
	Datacenter string
	// Peer is the cluster peer that a service is imported from; empty for the own cluster.
	Peer string
	// Reader is who wants to read, for TopicRights.
	Reader string
	// Name is a service, in lower case because Consul ignores the case of names (but for TopicLeaf, see
	// [LeafOf]), or, for TopicEntries, a kind. It is empty for what is only once there.
	Name string
}

// String returns the topic as kind/datacenter/peer:peer/reader/name, without what is empty.
func (t Topic) String() string {
	s := string(t.Kind)
	if t.Peer != "" {
		return s + "/peer:" + t.Peer + "/" + t.Name // no name of a datacenter has a colon
	}
	for _, part := range []string{t.Datacenter, t.Reader, t.Name} {
		if part != "" {
			s += "/" + part
		}
	}
	return s
}

// Entries is the topic of all config entries of a kind.
func Entries(kind chain.Kind) Topic { return Topic{Kind: TopicEntries, Name: string(kind)} }

// Services is the topic of a datacenter's service names.
func Services(datacenter string) Topic {
	return Topic{Kind: TopicServices, Datacenter: datacenter}
}

// Health is the topic of a service's plain instances.
func Health(datacenter, service string) Topic {
	return Topic{Kind: TopicHealth, Datacenter: datacenter, Name: strings.ToLower(service)}
}

// Connect is the topic of what accepts mesh traffic for a service.
func Connect(datacenter, service string) Topic {
	return Topic{Kind: TopicConnect, Datacenter: datacenter, Name: strings.ToLower(service)}
}

// HealthOfPeer is the topic of the plain instances of a service that is imported from a cluster peer.
func HealthOfPeer(peer, service string) Topic {
	return Topic{Kind: TopicHealth, Peer: strings.ToLower(peer), Name: strings.ToLower(service)}
}

// ConnectOfPeer is the topic of what accepts mesh traffic for a service that is imported from a cluster
// peer: the peer's mesh gateways, or the instances themselves.
func ConnectOfPeer(peer, service string) Topic {
	return Topic{Kind: TopicConnect, Peer: strings.ToLower(peer), Name: strings.ToLower(service)}
}

// Proxies is the topic of the registrations of a service's sidecars.
func Proxies(datacenter, service string) Topic {
	return Topic{Kind: TopicProxies, Datacenter: datacenter, Name: strings.ToLower(service)}
}

// listed reports whether a topic is of a service that the services of the datacenter would name, if it had
// any instance. Those of a cluster peer are not among them.
func (t Topic) listed() bool { return t.Name != "" && t.Peer == "" }

// State is what is known of a fact. Only Absent may be answered as empty.
type State uint8

const (
	// Unknown facts have not been read, or might be hidden from us.
	Unknown State = iota
	// Present facts are there.
	Present
	// Absent facts are known not to exist.
	Absent
	// Suspect facts were there and are missing from a reading that may not be trusted. They are
	// served as if present until a reading confirms that they are gone.
	Suspect
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Present:
		return "present"
	case Absent:
		return "absent"
	case Suspect:
		return "suspect"
	}
	return fmt.Sprintf("state(%d)", s)
}

// StatusRow as the row of an ID stands for how well the topic as a whole is known.
const StatusRow = "*"

// ID names what a product can read and a commit can change: the status of a topic when Row is
// [StatusRow], one row of an entries or services topic when Row is a name, and all rows of a topic
// of instances when Row is empty.
type ID struct {
	Topic Topic
	// Row is a lower-cased name.
	Row string
}

// String returns the topic and the row.
func (id ID) String() string {
	if id.Row == "" || id.Row == StatusRow {
		return id.Topic.String()
	}
	return id.Topic.String() + "/" + id.Row
}

// status is the ID of the topic's status.
func (t Topic) status() ID { return ID{Topic: t, Row: StatusRow} }
