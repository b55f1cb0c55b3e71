package bootstrap

import (
	"encoding/json"
	"fmt"
)

// MetadataKey is the field of an Envoy node's metadata that holds [Metadata].
const MetadataKey = "catenary"

// MaxUpstreams bounds the upstreams of one proxy: each costs a plan and three or more resources.
const MaxUpstreams = 1000

// Metadata is what a proxy says of itself when it connects.
type Metadata struct {
	// Service is the service the proxy speaks for.
	Service string `json:"service"`
	// Upstreams are what that service wants to reach, in the order given.
	Upstreams []Upstream `json:"upstreams"`
	// Mesh says of a gRPC client that it has a certificate of the service, and dials mesh targets by it.
	Mesh bool `json:"mesh,omitempty"`
}

// ParseMetadata reads the JSON of a node metadata's field [MetadataKey] and validates it. Fields it
// does not know are ignored: a bootstrap that is newer than the control plane still works. A missing
// bind address is [DefaultBindAddress].
func ParseMetadata(data []byte) (Metadata, error) {
	var m Metadata
	if err := json.Unmarshal(data, &m); err != nil {
		return Metadata{}, fmt.Errorf("node metadata %s: %w", MetadataKey, err)
	}
	for i := range m.Upstreams {
		if m.Upstreams[i].BindAddress == "" {
			m.Upstreams[i].BindAddress = DefaultBindAddress
		}
	}
	if err := m.Validate(); err != nil {
		return Metadata{}, fmt.Errorf("node metadata %s: %w", MetadataKey, err)
	}
	return m, nil
}

// Validate says what is wrong with the metadata, or returns nil.
func (m Metadata) Validate() error {
	if err := CheckName("service", m.Service); err != nil {
		return err
	}
	if len(m.Upstreams) > MaxUpstreams {
		return fmt.Errorf("there are %d upstreams, more than the %d that one proxy may have", len(m.Upstreams), MaxUpstreams)
	}
	for i, u := range m.Upstreams {
		if err := u.validate(); err != nil {
			return fmt.Errorf("upstreams[%d]: %w", i, err)
		}
	}
	return distinctBinds(m.Upstreams)
}
