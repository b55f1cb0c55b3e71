package chain

import "time"

// ServiceResolver is the service-resolver entry: which instances stand for a service.
type ServiceResolver struct {
	Header
	DefaultSubset        string                `json:",omitempty"`
	Subsets              map[string]Subset     `json:",omitempty"`
	Redirect             *Redirect             `json:",omitempty"`
	Failover             map[string]Failover   `json:",omitempty"`
	ConnectTimeout       time.Duration         `json:",omitempty"`
	RequestTimeout       time.Duration         `json:",omitempty"`
	PrioritizeByLocality *PrioritizeByLocality `json:",omitempty"`
	LoadBalancer         *LoadBalancer         `json:",omitempty"`
}

// Subset selects instances of a service.
type Subset struct {
	// Filter is a go-bexpr expression over a health entry (Service, Node, Checks); empty selects all.
	Filter string `json:",omitempty"`
	// OnlyPassing leaves out instances with a warning check.
	OnlyPassing bool `json:",omitempty"`
}

// Redirect replaces the service by another.
type Redirect struct {
	Service       string `json:",omitempty"`
	ServiceSubset string `json:",omitempty"`
	Namespace     string `json:",omitempty"`
	Partition     string `json:",omitempty"`
	Datacenter    string `json:",omitempty"`
	Peer          string `json:",omitempty"`
	SamenessGroup string `json:",omitempty"`
}

// Failover says where traffic goes when a subset has no healthy instance.
type Failover struct {
	Service       string           `json:",omitempty"`
	ServiceSubset string           `json:",omitempty"`
	Namespace     string           `json:",omitempty"`
	Datacenters   []string         `json:",omitempty"`
	Targets       []FailoverTarget `json:",omitempty"`
	Policy        *FailoverPolicy  `json:",omitempty"`
	SamenessGroup string           `json:",omitempty"`
}

// FailoverTarget is one place to fail over to; empty fields are the resolver's own.
type FailoverTarget struct {
	Service       string `json:",omitempty"`
	ServiceSubset string `json:",omitempty"`
	Partition     string `json:",omitempty"`
	Namespace     string `json:",omitempty"`
	Datacenter    string `json:",omitempty"`
	Peer          string `json:",omitempty"`
}

// FailoverPolicy orders failover targets. Consul acts on it in Enterprise only.
type FailoverPolicy struct {
	Mode    string   `json:",omitempty"`
	Regions []string `json:",omitempty"`
}

// PrioritizeByLocality prefers near instances. Consul acts on it in Enterprise only.
type PrioritizeByLocality struct {
	Mode string `json:",omitempty"`
}

// LoadBalancer is how requests are spread over the instances of a target.
type LoadBalancer struct {
	// Policy is "", random, round_robin, least_request, ring_hash or maglev.
	Policy             string              `json:",omitempty"`
	RingHashConfig     *RingHashConfig     `json:",omitempty"`
	LeastRequestConfig *LeastRequestConfig `json:",omitempty"`
	HashPolicies       []HashPolicy        `json:",omitempty"`
}

// RingHashConfig bounds the ring of the ring_hash policy.
type RingHashConfig struct {
	MinimumRingSize uint64 `json:",omitempty"`
	MaximumRingSize uint64 `json:",omitempty"`
}

// LeastRequestConfig tunes the least_request policy.
type LeastRequestConfig struct {
	ChoiceCount uint32 `json:",omitempty"`
}

// HashPolicy is one input of the hash of ring_hash and maglev.
type HashPolicy struct {
	// Field is header, cookie or query_parameter; FieldValue is its name.
	Field        string        `json:",omitempty"`
	FieldValue   string        `json:",omitempty"`
	CookieConfig *CookieConfig `json:",omitempty"`
	SourceIP     bool          `json:",omitempty"`
	Terminal     bool          `json:",omitempty"`
}

// CookieConfig says which cookie Envoy makes when a request has none.
type CookieConfig struct {
	Session bool          `json:",omitempty"`
	TTL     time.Duration `json:",omitempty"`
	Path    string        `json:",omitempty"`
}
