package integration_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// cost is what counters grew by.
type cost map[string]float64

// costOf runs something and returns what counters of catenary grew by, those of one name added up.
func (f *fleet) costOf(run func()) cost {
	before := f.catenary.Metrics()
	run()
	out := cost{}
	for name, v := range f.catenary.Metrics() {
		family, _, _ := strings.Cut(name, "{")
		out[family] += v - before[name]
		out[name] = v - before[name]
	}
	return out
}

// crowd is imitated proxies of web, of which endpoints counts the endpoint sets they were sent.
type crowd struct {
	*fleet
	conn      *grpc.ClientConn
	size      int
	endpoints atomic.Int64
}

// grow adds proxies until there are n, and waits until all of them have what they ask for.
func (c *crowd) grow(n int) {
	c.t.Helper()
	for ; c.size < n; c.size++ {
		imitate(c.t, c.conn, fmt.Sprintf("web-%d", c.size), &c.endpoints)
	}
	testenv.Eventually(c.t, patience, func() error {
		list, err := proxies(c.catenary)
		if err != nil {
			return err
		}
		synced := 0
		for _, p := range list {
			if p.State == "SYNCED" && len(p.Types) == 3 {
				synced++
			}
		}
		if synced != n {
			return fmt.Errorf("%d of %d proxies are synced", synced, n)
		}
		return nil
	})
	c.quiet()
}

// flip changes a check, and waits until all proxies were told.
func (c *crowd) flip(state string) {
	c.t.Helper()
	want := c.endpoints.Load() + int64(c.size)
	c.consul.SetCheck("api-v2", state)
	testenv.Eventually(c.t, patience, func() error {
		if got := c.endpoints.Load(); got < want {
			return fmt.Errorf("%d endpoint sets are sent, want %d", got, want)
		}
		return nil
	})
}

// TestWhatAFlipCostsDoesNotDependOnTheProxies counts what is asked, planned, made, encoded and sent for
// changes of a check, with fifty proxies and with a hundred.
func TestWhatAFlipCostsDoesNotDependOnTheProxies(t *testing.T) {
	for _, mode := range []string{"stream", "poll"} {
		t.Run(mode, func(t *testing.T) { costOfFlips(t, mode) })
	}
}

func costOfFlips(t *testing.T, mode string) {
	const flips = 6
	f := startFleet(t, false, "--trust-domain", trustDomain, "--consul-mode", mode)
	v1, v2 := testenv.StartBackend(t, "v1"), testenv.StartBackend(t, "v2")
	for _, s := range []string{"api", "stock"} {
		f.register(s, v1)
		f.register(s, v2)
	}
	conn, err := grpc.NewClient(f.catenary.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &crowd{fleet: f, conn: conn}
	for _, n := range []int{50, 100} {
		c.grow(n)
		got := f.costOf(func() {
			for i := range flips {
				c.flip([]string{"critical", "passing"}[i%2])
			}
			c.quiet()
		})
		t.Logf("%d flips with %d proxies: %v queries, %v events, %v bytes", flips, n,
			got["catenary_source_queries_total"], got["catenary_source_events_total"], got["catenary_xds_response_bytes_total"])
		check(t, got, n, flips)
		if events := got[`catenary_source_events_total{changed="true",topic="health"}`]; mode == "stream" && events != flips {
			t.Errorf("%d flips were %v events", flips, events)
		}
	}
}

// check holds what flips cost with n proxies to what they may.
func check(t *testing.T, got cost, n, flips int) {
	t.Helper()
	const mostBytes = 400
	for name, want := range map[string]int{
		"catenary_plans_total":                           0,
		"catenary_products_made_total":                   flips,
		`catenary_products_made_total{kind="endpoints"}`: flips,
		"catenary_xds_resources_encoded_total":           flips,
		"catenary_xds_responses_total":                   flips * n,
		`catenary_xds_responses_total{type="endpoint"}`:  flips * n,
		"catenary_xds_response_resources_total":          flips * n,
	} {
		if got[name] != float64(want) {
			t.Errorf("%d flips with %d proxies changed %s by %v, want %d", flips, n, name, got[name], want)
		}
	}
	if each := got["catenary_xds_response_bytes_total"] / float64(flips*n); each > mostBytes {
		t.Errorf("a response has %v bytes, want %d at most", each, mostBytes)
	}
	if q := got["catenary_source_queries_total"]; q > float64(flips) {
		t.Errorf("%d flips with %d proxies took %v queries, want one at most for each", flips, n, q)
	}
}
