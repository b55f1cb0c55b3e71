package xds_test

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// counting are metrics that a test reads.
type counting struct {
	*metrics.Metrics
	encoded, responses atomic.Int64
}

func (c *counting) Encoded(typ string) {
	c.encoded.Add(1)
	c.Metrics.Encoded(typ)
}

func (c *counting) Response(typ string, resources, bytes int) {
	c.responses.Add(1)
	c.Metrics.Response(typ, resources, bytes)
}

// TestWhatOneChangeCosts counts what is planned, made, encoded and sent for a change of health, with fifty
// clients and with a hundred.
func TestWhatOneChangeCosts(t *testing.T) {
	const changes, most = 10, 500 // bytes of a response
	for _, clients := range []int{50, 100} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			forms(t, func(t *testing.T, sotw bool) {
				count := &counting{Metrics: metrics.New("test")}
				c := startControl(t, func(cfg *xds.Config) { cfg.Metrics = count })
				c.market(4)
				c.entries(chain.KindServiceDefaults, httpDefaults("s0"), httpDefaults("s1"))
				c.health(1, facts.StatusPassing)
				var callers []*caller
				for i := range clients {
					callers = append(callers, callerOf(t, fmt.Sprintf("web-%d", i), sotw, "s0", "s1", "s2"))
				}
				end := c.calls(callers...)
				c.synced(clients, xds.StateSynced)
				c.told(callers, "s0", 1)
				quiet(t, callers, 200*time.Millisecond)
				want := c.server.Counts()
				encoded, sent, before := count.encoded.Load(), count.responses.Load(), sum(callers)
				for i := range uint32(changes) {
					c.health(2+i, []facts.CheckStatus{facts.StatusCritical, facts.StatusPassing}[i%2])
					c.told(callers, "s0", 2+i)
				}
				quiet(t, callers, 100*time.Millisecond)
				after := sum(callers)
				want.Products["endpoints"] += changes
				equal(t, c.server.Counts(), want)
				if n := count.encoded.Load() - encoded; n != changes {
					t.Errorf("%d changes were encoded %d times", changes, n)
				}
				if n := after.responses - before.responses; n != clients*changes || count.responses.Load()-sent != int64(n) {
					t.Errorf("%d responses, want one for each of %d clients and %d changes", n, clients, changes)
				}
				if each := (after.bytes - before.bytes) / (clients * changes); each > most {
					t.Errorf("a response has %d bytes, want %d at most", each, most)
				}
				end()
			})
		})
	}
}

// health gives s0 five instances with a number, and the last of them a status.
func (c *control) health(n uint32, last facts.CheckStatus) {
	list := make([]*facts.Instance, 5)
	for i := range list {
		list[i] = numbered("s0", n)
		list[i].Service.ID = fmt.Sprintf("s0-%d", i)
		list[i].Service.Port += i
	}
	list[len(list)-1].Checks[0].Status = last
	c.instances("s0", list...)
}

func equal(t *testing.T, got, want snapshot.Counts) {
	t.Helper()
	if got.Plans != want.Plans || got.Parts != want.Parts || got.Chains != want.Chains || !maps.Equal(got.Products, want.Products) {
		t.Errorf("made are %+v, want %+v", got, want)
	}
}
