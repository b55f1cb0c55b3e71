package snapshot

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// registered is a store with n instances of api, on a node each, as Consul would tell of them.
func registered(n int) (*facts.Store, facts.Topic) {
	list := make([]*facts.Instance, n)
	for i := range list {
		at := i * 7919 % 65536 // names and addresses are in different orders
		node, id := fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255), fmt.Sprintf("api-%d", i)
		version := fmt.Sprintf("v%d", i%2+1)
		list[i] = &facts.Instance{
			Node: facts.Node{
				ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Node: node, Datacenter: "dc1",
				Address: fmt.Sprintf("10.0.%d.%d", at>>8, at&255),
				Meta:    map[string]string{"consul-network-segment": "", "consul-version": "1.22.5"},
			},
			Service: facts.Service{
				ID: id, Service: "api", Port: 8080, Tags: []string{version, "http"},
				Meta:     map[string]string{"version": version, "team": "payments"},
				Weights:  facts.Weights{Passing: 1 + i%3, Warning: 1},
				Locality: &facts.Locality{Region: "eu-west-1", Zone: fmt.Sprintf("eu-west-1%c", 'a'+i%3)},
			},
			Checks: []facts.Check{
				{Node: node, CheckID: "serfHealth", Name: "Serf Health Status", Status: facts.StatusPassing},
				{Node: node, CheckID: "service:" + id, Name: "Service 'api' check", Status: facts.StatusPassing, ServiceID: id, ServiceName: "api"},
			},
		}
	}
	store, topic := facts.New(), facts.Health("dc1", "api")
	store.Commit(func(tx *facts.Tx) { tx.Instances(topic, list, facts.Reading{Confirmed: true}) })
	return store, topic
}

func BenchmarkEndpoints(b *testing.B) {
	for _, n := range []int{5, 100, 10_000} {
		store, topic := registered(n)
		b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if list, _ := store.View().Instances(topic); len(list) != n {
					b.Fatal(len(list))
				}
			}
		})
		for name, key := range map[string]EndpointSetKey{
			"all":  {Topic: topic},
			"meta": {Topic: topic, Filter: `Service.Meta.version == "v1"`},
			"tag":  {Topic: topic, Filter: `"v1" in Service.Tags and Service.Meta.team == "payments"`},
		} {
			b.Run(fmt.Sprintf("make/%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if set := key.endpoints(store.View().Read()); len(set.Endpoints) < n/2 {
						b.Fatal(len(set.Endpoints))
					}
				}
			})
		}
	}
}
