package consulwatch

import (
	"cmp"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Config is what a [Source] is made from. The zero value follows the Consul that the CONSUL_*
// variables of the environment name.
type Config struct {
	// API is how to reach Consul and with which token; nil means [api.DefaultConfig]. Its Transport
	// and HttpClient are ignored: connections are counted here.
	API *api.Config
	// Datacenter is the datacenter whose services are always followed; empty means the agent's own,
	// which is asked for.
	Datacenter string
	// Servers are the RPC ports of Consul's servers, host:port, to get events from; none means that the
	// agent is asked for them.
	Servers []string
	// DefaultIntentions is what holds between services that no intention is about, "allow" or "deny"; empty
	// means what Consul says of itself.
	DefaultIntentions string
	// Sparse follows only what the store needs, and not what every plan rests on.
	Sparse bool
	// Follow is how topics are followed that have events; empty means [FollowAuto].
	Follow Follow
	// Logger gets what an operator should know; nil means no log.
	Logger hclog.Logger
	// Metrics gets every query; nil means none.
	Metrics Metrics
	// Limits bound what is asked of Consul; a zero field means its default.
	Limits Limits
}

// Follow is how topics are followed that have events. Others are always followed by queries.
type Follow string

// The ways to follow a topic.
const (
	// FollowAuto takes events where they can be had, and queries while they cannot.
	FollowAuto Follow = "auto"
	// FollowStream takes events only.
	FollowStream Follow = "stream"
	// FollowPoll takes queries only.
	FollowPoll Follow = "poll"
)

// Metrics is told of the queries to Consul. It must be safe for concurrent use.
type Metrics interface {
	// Query tells of one finished query for a topic of this kind; result is one of [ResultChanged],
	// [ResultUnchanged] and [ResultFailed].
	Query(kind facts.TopicKind, result string, took time.Duration)
	// Event tells of an event for a topic of this kind that was applied, and whether it changed a fact.
	Event(kind facts.TopicKind, changed bool)
}

// What became of a query.
const (
	ResultChanged   = "changed"
	ResultUnchanged = "unchanged"
	ResultFailed    = "failed"
)

// Limits bound what is asked of Consul, and how often.
type Limits struct {
	// Wait is how long a blocking query may wait, 5 min by default; Consul allows 10 min at most.
	Wait time.Duration
	// Turn is how long a query for a needed topic waits while there are more topics than
	// connections, 2 s by default.
	Turn time.Duration
	// Connections is how many connections there are at most over HTTP/1.1, 68 by default and 20 at
	// least. Consul accepts 200 from one address.
	Connections int
	// Linger is how long a topic is followed after the last need of it has ended, 60 s by default.
	Linger time.Duration
	// RetryMin and RetryMax bound the time between attempts after a failure, 250 ms and 10 s by
	// default.
	RetryMin, RetryMax time.Duration
	// ConfirmMax bounds the time between attempts to confirm what a token may not see, 30 s by
	// default; the first comes at once.
	ConfirmMax time.Duration
	// Pace is the least time between two queries for one topic, 20 ms by default: a lone change is
	// read at once, and those that follow it are read together.
	Pace time.Duration
	// VirtualIPs is how often the virtual IPs of a service are asked for, 30 s by default: nothing tells of a
	// change. Above 1,500 services it is less often.
	VirtualIPs time.Duration
	// Silence is how long a snapshot of events may pause before there is taken to be none, 10 s by
	// default: a busy Consul takes seconds to begin one.
	Silence time.Duration
	// Reload is how often it is looked whether the files of the token and the certificates have changed,
	// 5 s by default.
	Reload time.Duration
}

const (
	leastConnections = 20
	// unslotted is how many connections are kept for what takes no slot: the topics that are always
	// followed, the reading of rights, and the questions of the wiring.
	unslotted = 12
)

func (l Limits) withDefaults() Limits {
	l.Wait = cmp.Or(l.Wait, 5*time.Minute)
	l.Turn = cmp.Or(l.Turn, 2*time.Second)
	l.Connections = max(cmp.Or(l.Connections, 68), leastConnections)
	l.Linger = cmp.Or(l.Linger, time.Minute)
	l.RetryMin = cmp.Or(l.RetryMin, 250*time.Millisecond)
	l.RetryMax = cmp.Or(l.RetryMax, 10*time.Second)
	l.ConfirmMax = cmp.Or(l.ConfirmMax, 30*time.Second)
	l.VirtualIPs = cmp.Or(l.VirtualIPs, 30*time.Second)
	l.Silence = cmp.Or(l.Silence, 10*time.Second)
	l.Reload = cmp.Or(l.Reload, reloadTime)
	l.Pace = cmp.Or(l.Pace, 20*time.Millisecond)
	return l
}

// noMetrics drops what it is told.
type noMetrics struct{}

func (noMetrics) Query(facts.TopicKind, string, time.Duration) {}

func (noMetrics) Event(facts.TopicKind, bool) {}
