//go:build e2e

package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// listenerChanges is how many listeners and clusters of a sidecar were changed or removed.
func (of *member) listenerChanges() int64 {
	stats := of.envoy.Stats()
	return stats["listener_manager.listener_modified"] + stats["listener_manager.listener_in_place_updated"] +
		stats["listener_manager.listener_removed"] + stats["cluster_manager.cluster_modified"] + stats["cluster_manager.cluster_removed"]
}

// renewed waits until sidecars show others than they showed before.
func renewed(t *testing.T, before map[*member]string) {
	t.Helper()
	for of, old := range before {
		testenv.Eventually(t, time.Minute, func() error {
			leaf, err := of.shown()
			if err == nil && leaf.SerialNumber.String() == old {
				err = fmt.Errorf("the sidecar of %s still shows its old certificate", of.name)
			}
			return err
		})
	}
}

func TestARootRotationFailsNoRequestAndTouchesNoListener(t *testing.T) {
	t.Parallel()
	signed := func(m *mesh) []string { return []string{"--consul-grpc-addr", m.consul.GRPCAddr()} }
	crossed := func(m *mesh) { m.consul.RotateRoot() }
	for name, c := range map[string]struct {
		args   func(*mesh) []string
		rotate func(*mesh)
		ours   bool // all sidecars are
	}{
		"signed":       {signed, crossed, false},
		"by the agent": {func(*mesh) []string { return nil }, crossed, false},
		// Nothing makes up for a certificate that goes out before its root. Consul's own sidecars may get one.
		"without the signature of the root before": {signed, func(m *mesh) { m.consul.RotateRootUnsigned() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := four("http", "http", "http", "http")
			for _, of := range members[2:] {
				if c.ours {
					of.server = byCatenary
				}
			}
			m := newMesh(t, nil, members...)
			m.serve(m.consul.Env(), c.args(m)...)
			m.sidecars()
			traffic := m.traffic()
			for range 2 {
				m.untouched(func() { c.rotate(m) }, m.members...)
			}
			traffic.flawless(t)
		})
	}
}

func TestAForcedRenewalFailsNoRequestAndTouchesNoListener(t *testing.T) {
	t.Parallel()
	m, traffic := web(t)
	for range 2 {
		m.untouched(m.catenary.Hangup, m.members[:2]...)
	}
	traffic.flawless(t)
}

// untouched checks that something renews the certificates of sidecars, and that those that catenary serves
// keep their listeners and clusters.
func (m *mesh) untouched(renew func(), members ...*member) {
	m.t.Helper()
	a, b := m.members[0], m.members[1]
	changes := [2]int64{a.listenerChanges(), b.listenerChanges()}
	before := serials(m.t, members...)
	renew()
	renewed(m.t, before)
	m.directions(m.flows)
	if after := [2]int64{a.listenerChanges(), b.listenerChanges()}; after != changes {
		m.t.Errorf("listeners or clusters were changed: %v, before %v", after, changes)
	}
}
