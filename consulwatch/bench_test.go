package consulwatch

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// start runs a source for a benchmark, without a log.
func start(b *testing.B, cfg Config) (*Source, *facts.Store) {
	b.Helper()
	source, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	store := facts.New()
	ctx, done := b.Context(), make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Run(ctx, store) // it returns nothing else than nil
	}()
	b.Cleanup(func() { <-done })
	return source, store
}

// BenchmarkWriteToFact is from the start of a write to Consul to the fact in the store, beside the write
// alone, which is most of it.
func BenchmarkWriteToFact(b *testing.B) {
	for _, how := range []Follow{FollowStream, FollowPoll} {
		b.Run(string(how), func(b *testing.B) {
			c := testenv.StartConsul(b)
			c.RegisterService(testenv.Service{Name: "api", Port: 8080})
			cfg := with(c, "")
			cfg.Follow, cfg.Limits.Pace = how, time.Microsecond
			cfg.API.Transport.DisableKeepAlives = false
			client, err := api.NewClient(&api.Config{Address: c.HTTPAddr()})
			if err != nil {
				b.Fatal(err)
			}
			_, store := start(b, cfg)
			store.Need("bench", apiHealth)
			testenv.Eventually(b, soon, func() error { return instances(apiHealth, facts.Present, "api:passing")(store.View()) })
			sub := store.Subscribe()
			defer sub.Close()
			var all, writes []time.Duration
			statuses := []string{api.HealthCritical, api.HealthPassing}
			i := 0
			for b.Loop() {
				want := statuses[i%2]
				i++
				reg := &api.CatalogRegistration{Node: "node-1", Address: "127.0.0.1", SkipNodeUpdate: true, Checks: api.HealthChecks{{
					Node: "node-1", CheckID: "service:api", Name: "check of api", ServiceID: "api", Status: want,
				}}}
				began := time.Now()
				written := make(chan time.Duration, 1)
				go func() {
					_, err := client.Catalog().Register(reg, nil)
					if err != nil {
						b.Error(err)
					}
					written <- time.Since(began)
				}()
				for {
					<-sub.Bell()
					view, _ := sub.Drain()
					if instances(apiHealth, facts.Present, "api:"+want)(view) == nil {
						break
					}
				}
				all = append(all, time.Since(began))
				writes = append(writes, <-written)
			}
			report(b, "fact", all)
			report(b, "write", writes)
		})
	}
}

func report(b *testing.B, name string, list []time.Duration) {
	slices.Sort(list)
	b.ReportMetric(float64(list[len(list)/2].Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(list[len(list)*99/100].Microseconds()), name+"-p99-µs")
}
