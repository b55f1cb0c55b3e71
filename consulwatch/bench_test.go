package consulwatch

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
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

func streaming(b *testing.B, s *Source, want int) {
	b.Helper()
	testenv.Eventually(b, 2*time.Minute, func() error {
		n := 0
		for _, st := range s.Status() {
			if st.Mode == ModeStreaming {
				n++
			}
		}
		if n < want {
			return fmt.Errorf("%d topics are streaming, want %d", n, want)
		}
		return nil
	})
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

// BenchmarkFirstSync is how long it takes until all instances of many services are there, and what each
// then costs.
func BenchmarkFirstSync(b *testing.B) {
	const services, each = 5000, 10
	c := testenv.StartConsul(b)
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			client, err := api.NewClient(&api.Config{Address: c.HTTPAddr()})
			if err != nil {
				b.Error(err)
				return
			}
			for i := part; i < services; i += 8 {
				if err := fill(client, i, each); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var topics []facts.Topic
	for i := range services {
		topics = append(topics, facts.Health("dc1", fmt.Sprintf("s%04d", i)))
	}
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		source, store := start(b, with(c, ""))
		store.Need("bench", topics...)
		testenv.Eventually(b, 2*time.Minute, func() error {
			view, n := store.View(), 0
			for _, topic := range topics {
				list, _ := view.Instances(topic)
				n += len(list)
			}
			if n < services*each {
				return fmt.Errorf("%d instances", n)
			}
			return nil
		})
		b.ReportMetric(time.Since(began).Seconds(), "s-to-all")
		streaming(b, source, services)
		b.ReportMetric(time.Since(began).Seconds(), "s-to-streams")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(services*each), "B/instance")
		runtime.KeepAlive(store)
	}
}

// fill registers the instances of a service, 10 to a transaction's worth of operations.
func fill(client *api.Client, service, each int) error {
	name := fmt.Sprintf("s%04d", service)
	var ops api.TxnOps
	for i := range each {
		node := fmt.Sprintf("node-%03d", (service*each+i)%500)
		id := fmt.Sprintf("%s-%d", name, i)
		ops = append(ops,
			&api.TxnOp{Node: &api.NodeTxnOp{Verb: api.NodeSet, Node: api.Node{Node: node, Address: "10.0.0.1"}}},
			&api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: node, Service: api.AgentService{
				ID: id, Service: name, Port: 8000 + i, Address: "10.0.0.1", Meta: map[string]string{"version": "v1"},
			}}},
			&api.TxnOp{Check: &api.CheckTxnOp{Verb: api.CheckSet, Check: api.HealthCheck{
				Node: node, CheckID: "service:" + id, Name: "check", ServiceID: id, Status: api.HealthPassing,
			}}})
	}
	ok, resp, _, err := client.Txn().Txn(ops, nil)
	if err == nil && !ok {
		err = fmt.Errorf("the transaction failed: %v", resp.Errors)
	}
	return err
}
