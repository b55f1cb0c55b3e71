package xds

import "time"

// The states of a proxy, and of one resource type of a proxy. A proxy's is the worst of its types'.
const (
	// StateSynced means that everything sent was accepted.
	StateSynced = "SYNCED"
	// StateStale means that something sent has not been answered for 30 s.
	StateStale = "STALE"
	// StateNacked means that the client refused something; what it accepted before stays in force.
	StateNacked = "NACKED"
	// StateNotSent means that nothing was sent: the client has not asked, or there is nothing yet.
	StateNotSent = "NOT_SENT"
	// StatePending means that an upstream is not known well enough to be served.
	StatePending = "PENDING"
	// StateUnregistered means that the client has no registration in the source and brings no
	// upstreams of its own.
	StateUnregistered = "UNREGISTERED"
)

// ProxyStatus is what is known of one connected client.
type ProxyStatus struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	// Kind is plain or mesh.
	Kind string `json:"kind"`
	// Address is the client's address and port.
	Address string `json:"address"`
	// Protocol is delta or sotw.
	Protocol string `json:"protocol"`
	// Version is the client's own, such as "1.40.0".
	Version     string    `json:"version,omitempty"`
	ConnectedAt time.Time `json:"connected_at"`
	State       string    `json:"state"`
	// Reason says why the state is what it is, in words; empty when SYNCED.
	Reason  string          `json:"reason,omitempty"`
	Types   []TypeStatus    `json:"types"`
	Pending []PendingStatus `json:"pending,omitempty"`
	// Notes say what is likely a mistake although nothing is wrong.
	Notes []string `json:"notes,omitempty"`
	// Problems are the user's configuration errors that touch this client.
	Problems []string `json:"problems,omitempty"`
}

// TypeStatus is the state of one resource type on one stream.
type TypeStatus struct {
	// Type is cluster, endpoint, listener or route.
	Type  string `json:"type"`
	State string `json:"state"`
	// Resources is how many the client holds.
	Resources int `json:"resources"`
	// Sent and Acked are versions: hashes over names and contents.
	Sent      string     `json:"sent,omitempty"`
	Acked     string     `json:"acked,omitempty"`
	SentAt    *time.Time `json:"sent_at,omitempty"`
	AckedAt   *time.Time `json:"acked_at,omitempty"`
	Responses int        `json:"responses"`
	Nacks     int        `json:"nacks"`
	// Nack is the last refusal; it is in force while State is NACKED.
	Nack *NackStatus `json:"nack,omitempty"`
}

// NackStatus is one refusal.
type NackStatus struct {
	Message string    `json:"message"`
	Version string    `json:"version"`
	Names   []string  `json:"names,omitempty"`
	At      time.Time `json:"at"`
}

// PendingStatus is an upstream that cannot be served yet, with the reason.
type PendingStatus struct {
	Upstream string `json:"upstream"`
	Reason   string `json:"reason"`
}
