// Package factstest is what every source of facts must do, as a suite of tests. A source's test gives
// [Run] a [Harness], which writes to whatever the source follows; the suite looks only at the store.
package factstest

import (
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Harness is a source with its own store, and the means to change what it follows. The suite calls it
// from one goroutine. Harnesses may share what they follow, such as one Consul: the suite leaves
// nothing behind, and no two of its tests use one name.
type Harness interface {
	// Store is the store that the source commits to; nobody else does.
	Store() *facts.Store
	// Datacenter is where services are registered.
	Datacenter() string
	// Start runs the source until the test ends. The suite writes before it and after it, and calls
	// it once.
	Start(t testing.TB)

	// PutEntry writes a config entry in JSON, as Consul's API takes it: that of the mesh has no name, and is
	// deleted by [chain.MeshName].
	PutEntry(t testing.TB, json string)
	// DeleteEntry removes a config entry that was put.
	DeleteEntry(t testing.TB, kind chain.Kind, name string)
	// Register writes an instance; one with the same ID is replaced.
	Register(t testing.TB, s ServiceSpec)
	// Deregister removes an instance that was registered.
	Deregister(t testing.TB, id string)
}

// ServiceSpec is an instance to register. All but Name, ID and Port may be left out.
type ServiceSpec struct {
	Name, ID string
	// Address is 127.0.0.1 when empty.
	Address string
	Port    int
	Tags    []string
	Meta    map[string]string
	// Status is that of the only check, passing when empty.
	Status facts.CheckStatus
	// Weights are 1 and 1 when zero.
	Weights facts.Weights
	// Proxy makes the instance a sidecar, of kind connect-proxy. The suite sets the destination, the
	// local port and upstreams with name and port.
	Proxy *facts.Proxy
}

// WithDefaults returns the spec with what may be left out filled in.
func (s ServiceSpec) WithDefaults() ServiceSpec {
	if s.Address == "" {
		s.Address = "127.0.0.1"
	}
	if s.Status == "" {
		s.Status = facts.StatusPassing
	}
	if s.Weights == (facts.Weights{}) {
		s.Weights = facts.Weights{Passing: 1, Warning: 1}
	}
	return s
}
