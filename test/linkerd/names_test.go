//go:build e2e

package linkerd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestAProxyOfTodayAsksByManyNames has instances of all sorts, asked for in all ways.
func TestAProxyOfTodayAsksByManyNames(t *testing.T) {
	t.Parallel()
	s := start(t, "--destination-suffix", "svc.cluster.local", "--destination-http2", "keepalive=10s,timeout=3s,while-idle")
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Subsets = { v2 = { Filter = "Service.Meta.v == 2" } }`)
	heavy := &api.AgentWeights{Passing: 7, Warning: 1}
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "::ffff:10.0.0.1", Port: 80, Meta: map[string]string{"v": "1"}, Weights: heavy})
	s.RegisterService(testenv.Service{Name: "api", ID: "api-2", Address: "fd00::2", Port: 80, Meta: map[string]string{"v": "2"}})
	s.RegisterService(testenv.Service{Name: "meshed", ID: "meshed-1", Address: "10.0.0.3", Port: 80})
	s.RegisterService(testenv.Service{
		Name: "meshed-sidecar-proxy", ID: "meshed-1-proxy", Address: "10.0.0.3", Port: 20000,
		Kind: api.ServiceKindConnectProxy, Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "meshed", DestinationServiceID: "meshed-1"},
	})
	s.heard(t, "api", "10.0.0.1:80", "[fd00::2]:80")
	s.heard(t, "v2.api", "[fd00::2]:80")
	s.heard(t, "meshed", "10.0.0.3:20000")
	const all = " 10.0.0.1:80,weight=70000,instance=api-1,node=node-1,zone_locality=unknown,opaque,ref=consul/ServiceInstance/default/api-1:80 [fd00::2]:80,"
	for name, words := range map[string][]string{
		"api.service.consul":                         {all, "datacenter=dc1,namespace=default,service=api"},
		"API.Service.DC1.Consul.:8443":               {all},
		"api.virtual.consul":                         {all},
		"api.service.default.ns.dc1.dc.consul":       {all},
		"api.default.svc.cluster.local:80":           {all},
		"v2.api.service.consul":                      {"add service=api [fd00::2]:80,", "subset=v2"},
		"v2.api.default.svc.cluster.local":           {"add service=api [fd00::2]:80,", "subset=v2"},
		"v9.api.service.consul":                      {"none exists=false"},
		"nobody.service.consul":                      {"none exists=false"},
		"meshed.service.consul":                      {" 10.0.0.3:20000,", "identity=spiffe://", "keepalive=10s/3s"},
		"api":                                        {"end InvalidArgument"},
		"api.service.consul:0":                       {"end InvalidArgument"},
		"api.other.svc.cluster.local":                {"end InvalidArgument"},
		"api.service.example":                        {"end InvalidArgument"},
		"[fd00::2]:80":                               {"end InvalidArgument"},
		strings.Repeat("a", 600) + ".service.consul": {"end InvalidArgument"},
	} {
		for _, token := range []string{`{"nodeName":"node-2"}`, "\x01 garbage {", "ns:default"} {
			asked := ask(t, "get", s.catenary.GRPCAddr, name, token)
			asked.wants(words...)
			asked.end()
		}
	}
	// A profile by address: of an instance, of what nobody knows, and of what is none.
	for name, words := range map[string][]string{
		"10.0.0.1:80":           {"profile name= ", "endpoint=10.0.0.1:80,weight=70000,instance=api-1", "overrides= ", "opaque=true"},
		"[::ffff:10.0.0.1]:80":  {"endpoint=10.0.0.1:80"},
		"[fd00::2]:80":          {"endpoint=[fd00::2]:80"},
		"10.0.0.1:81":           {"profile name= ", "endpoint= "},
		"nobody.service.consul": {"profile name= ", "overrides= ", "budget=0.2/10/10s"},
		"http://x":              {"end InvalidArgument"},
	} {
		asked := ask(t, "profile", s.catenary.GRPCAddr, name)
		asked.wants(words...)
		asked.end()
	}
}

// TestAnAddressOfTwoServicesIsNobodys has two services claim one virtual IP.
func TestAnAddressOfTwoServicesIsNobodys(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, name := range []string{"one", "other"} {
		s.Register(&api.CatalogRegistration{Node: "node-1", Address: "10.0.0.1", Service: &api.AgentService{
			ID: name, Service: name, Port: 80, TaggedAddresses: map[string]api.ServiceAddress{"virtual": {Address: "10.96.0.1", Port: 80}},
		}})
	}
	s.says(t, "profile", "10.96.0.1:80", "end FailedPrecondition")
	s.Deregister("other")
	s.says(t, "profile", "10.96.0.1:80", "name=one.service.dc1.consul", "overrides=one.service.dc1.consul:80=10000")
}

// TestOtherServicesOfLinkerdAreNotThere asks for policies: a proxy takes it for leave to go by profiles that nobody
// implements them.
func TestOtherServicesOfLinkerdAreNotThere(t *testing.T) {
	t.Parallel()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := testenv.StartCatenary(t, nil, "--from", root+"/examples/linkerd")
	testenv.Eventually(t, patience, c.Ready)
	conn := dial(t, c.GRPCAddr)
	for _, method := range []string{
		"/io.linkerd.proxy.outbound.OutboundPolicies/Get", "/io.linkerd.proxy.outbound.OutboundPolicies/Watch",
		"/io.linkerd.proxy.inbound.InboundServerPolicies/GetPort", "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort",
	} {
		var question, answer []byte
		if err := conn.Invoke(t.Context(), method, &question, &answer, grpc.ForceCodec(plainBytes{})); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestNothingIsSaidBeforeItIsKnown has a catenary begin while Consul is away.
func TestNothingIsSaidBeforeItIsKnown(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithDataDir())
	c := testenv.StartCatenary(t, consul.Env())
	testenv.Eventually(t, patience, c.Ready)
	s := scene{consul, c}
	s.RegisterService(testenv.Service{Name: "api", Address: "10.0.0.1", Port: 80})
	s.heard(t, "api")
	get := ask(t, "get", c.GRPCAddr, "api.service.consul")
	get.wants("add service=api 10.0.0.1:80")
	consul.Stop()
	c.Restart()
	get.wants("end Unavailable")
	again, profile := ask(t, "get", c.GRPCAddr, "api.service.consul"), ask(t, "profile", c.GRPCAddr, "nobody.service.consul")
	consul.Restart()
	testenv.Eventually(t, patience, func() error {
		if err := c.Ready(); err != nil {
			return fmt.Errorf("Consul is back: %w", err)
		}
		return nil
	})
	for asked, want := range map[*asker]string{again: "add service=api 10.0.0.1:80", profile: "profile name= "} {
		if got := asked.next(); !strings.HasPrefix(got, want) && got != "end Unavailable" {
			t.Errorf("it was said %q, want %q", got, want)
		}
	}
}
