package consulwatch

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// answered is Consul's answer for a service with ten instances, as it looks with 1.22; there are ten
// services on a node.
func answered(service int, proxy *api.AgentServiceConnectProxyConfig) []byte {
	name := fmt.Sprintf("service-%04d", service)
	rows := make([]*api.ServiceEntry, 10)
	for i := range rows {
		n := service/10*10 + i
		node, id, ip := fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", n>>8, n&255), fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("10.0.%d.%d", n>>8, n&255)
		at := api.ServiceAddress{Address: ip, Port: 8080}
		tags := []string{"http", "v1"}
		rows[i] = &api.ServiceEntry{
			Node: &api.Node{
				ID: fmt.Sprintf("1b2c9782-5f9c-4dd8-b85d-%012d", n), Node: node, Address: ip, Datacenter: "dc1", ModifyIndex: 14,
				TaggedAddresses: map[string]string{"lan": ip, "lan_ipv4": ip, "wan": ip, "wan_ipv4": ip},
				Meta:            map[string]string{"consul-network-segment": "", "consul-version": "1.22.5"},
			},
			Service: &api.AgentService{
				ID: id, Service: name, Tags: tags, Address: ip, Port: 8080, Weights: api.AgentWeights{Passing: 1, Warning: 1},
				TaggedAddresses: map[string]api.ServiceAddress{"lan_ipv4": at, "wan_ipv4": at},
				Meta:            map[string]string{"team": "payments", "version": "v1"}, Proxy: &api.AgentServiceConnectProxyConfig{}, ModifyIndex: 15,
			},
			Checks: api.HealthChecks{
				{Node: node, CheckID: "serfHealth", Name: "Serf Health Status", Status: "passing", Output: "Agent alive and reachable", ModifyIndex: 11},
				{
					Node: node, CheckID: "service:" + id, Name: "Service '" + name + "' check", Status: "passing", ServiceID: id,
					ServiceName: name, ServiceTags: tags, Type: "http", Output: "HTTP GET http://10.0.0.1:8080/health: 200 OK", ModifyIndex: 15,
				},
			},
		}
		if proxy != nil {
			side := *proxy
			side.DestinationServiceName, side.DestinationServiceID = name, id
			rows[i].Service.Kind, rows[i].Service.Proxy = api.ServiceKindConnectProxy, &side
		}
	}
	body, err := json.Marshal(rows)
	if err != nil {
		panic(err)
	}
	return body
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// kept is the heap that a store takes for each instance of services that are read one after the other.
func kept(t *testing.T, services int, topic func(string, string) facts.Topic, proxy func(int) *api.AgentServiceConnectProxyConfig) int64 {
	before := heap()
	store := facts.New()
	for i := range services {
		of := topic("dc1", fmt.Sprintf("service-%04d", i))
		list, err := decodeInstances(answered(i, proxy(i)), of.Kind)
		if err != nil || len(list) != 10 {
			t.Fatal(len(list), err)
		}
		store.Commit(func(tx *facts.Tx) { tx.Instances(of, list, facts.Reading{Confirmed: true}) })
	}
	after := heap()
	runtime.KeepAlive(store)
	return (after - before) / int64(10*services)
}

func TestAnInstanceTakesLittleMemory(t *testing.T) {
	none := func(int) *api.AgentServiceConnectProxyConfig { return nil }
	if n := kept(t, 500, facts.Health, none); n > 2500 {
		t.Errorf("%d bytes of heap for each instance, want at most 2500", n)
	}
}

func TestARegistrationWithManyUpstreamsTakesLittleMemory(t *testing.T) {
	own := func(service int) *api.AgentServiceConnectProxyConfig {
		p := &api.AgentServiceConnectProxyConfig{LocalServiceAddress: "127.0.0.1", LocalServicePort: 8080}
		for i := range 200 {
			p.Upstreams = append(p.Upstreams, api.Upstream{
				DestinationType: "service", DestinationName: fmt.Sprintf("service-%04d", i), LocalBindPort: 9000 + 10*service + i,
				Config: map[string]any{"protocol": "http"},
			})
		}
		return p
	}
	if n := kept(t, 20, facts.Proxies, own); n > 20_000 {
		t.Errorf("%d bytes of heap for each registration, want at most 20000", n)
	}
}
