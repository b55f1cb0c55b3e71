//go:build e2e

package figures_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const (
	services = 5000
	each     = 10
)

// TestAFirstSyncOfManyServices has 5,000 services of ten instances come into an empty store.
func TestAFirstSyncOfManyServices(t *testing.T) {
	consul := testenv.StartConsul(t)
	fill(t, consul)
	var topics []facts.Topic
	for i := range services {
		topics = append(topics, facts.Health("dc1", serviceName(i)))
	}
	before, began := heap(), time.Now()
	s, store := source(t, consulwatch.Config{API: consul.Config(), Servers: []string{consul.RPCAddr()}})
	store.Need("test", topics...)
	testenv.Eventually(t, 2*time.Minute, func() error {
		view, n := store.View(), 0
		for _, topic := range topics {
			list, _ := view.Instances(topic)
			n += len(list)
		}
		if n != services*each {
			return fmt.Errorf("%d instances of %d", n, services*each)
		}
		return nil
	})
	synced := time.Since(began)
	testenv.Eventually(t, 2*time.Minute, func() error {
		n := 0
		for _, st := range s.Status() {
			if st.Topic.Kind == facts.TopicHealth && st.Mode == consulwatch.ModeStreaming {
				n++
			}
		}
		if n != services {
			return fmt.Errorf("%d services of %d are followed by events", n, services)
		}
		return nil
	})
	streaming := time.Since(began)
	all := heap() - before
	t.Logf("all %d instances after %v, all %d streams after %v; the heap has %d bytes for each instance",
		services*each, synced, services, streaming, all/(services*each))
	if synced > generous*20*time.Second {
		t.Errorf("the first sync took %v; want 20 s, and no machine takes %d times as long", synced, generous)
	}
	if all > services*each*2500 {
		t.Errorf("%d bytes of heap for each instance; want 2500 at most", all/(services*each))
	}
	runtime.KeepAlive(store)
}

func serviceName(i int) string { return fmt.Sprintf("s%04d", i) }

// heap is what is in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fill registers all instances, a service to a transaction.
func fill(t *testing.T, c *testenv.Consul) {
	t.Helper()
	const writers = 8
	var group sync.WaitGroup
	for part := range writers {
		group.Go(func() {
			client, err := api.NewClient(c.Config())
			if err != nil {
				t.Error(err)
				return
			}
			for i := part; i < services; i += writers {
				ok, resp, _, err := client.Txn().Txn(registrations(i), nil)
				if err != nil || !ok {
					t.Errorf("service %d: %v %v", i, err, resp)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func registrations(service int) api.TxnOps {
	var ops api.TxnOps
	for i := range each {
		node := fmt.Sprintf("node-%03d", (service*each+i)%500)
		id := fmt.Sprintf("%s-%d", serviceName(service), i)
		ops = append(ops,
			&api.TxnOp{Node: &api.NodeTxnOp{Verb: api.NodeSet, Node: api.Node{Node: node, Address: "10.0.0.1"}}},
			&api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: node, Service: api.AgentService{
				ID: id, Service: serviceName(service), Port: 8000 + i, Address: "10.0.0.1", Meta: map[string]string{"version": "v1"},
			}}},
			&api.TxnOp{Check: &api.CheckTxnOp{Verb: api.CheckSet, Check: api.HealthCheck{
				Node: node, CheckID: "service:" + id, Name: "check", ServiceID: id, Status: api.HealthPassing,
			}}})
	}
	return ops
}
