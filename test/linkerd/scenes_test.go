//go:build e2e

package linkerd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestAProxyOfTodayFollowsAService(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.RegisterService(testenv.Service{Name: "api", ID: "api-2", Address: "10.0.0.2", Port: 80})
	s.heard(t, "api", "10.0.0.1", "10.0.0.2")
	later := ask(t, "get", s.catenary.GRPCAddr, "later.service.consul")
	later.wants("none exists=false")
	get := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul:80", `{"nodeName":"node-1"}`)
	get.wants("add service=api 10.0.0.1:80,weight=10000,instance=api-1,node=node-1,zone_locality=unknown", "10.0.0.2:80")
	s.SetCheck("api-1", api.HealthCritical)
	get.wants("remove 10.0.0.1:80")
	s.SetCheck("api-1", api.HealthPassing)
	get.wants("add service=api 10.0.0.1:80")
	s.Deregister("api-2")
	get.wants("remove 10.0.0.2:80")
	s.SetCheck("api-1", api.HealthCritical)
	get.wants("none exists=true")
	s.Deregister("api-1")
	get.wants("none exists=false")
	s.RegisterService(testenv.Service{Name: "later", ID: "later-1", Address: "10.0.0.9", Port: 80})
	later.wants("add service=later 10.0.0.9:80")
	ask(t, "get", s.catenary.GRPCAddr, "10.0.0.1:80").wants("end InvalidArgument")
}

func TestAProxyOfTodayFollowsFailover(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.RegisterService(testenv.Service{Name: "spare", ID: "spare-1", Address: "10.0.0.2", Port: 80})
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Subsets = { all = {} }
Failover = { "*" = { Service = "spare" } }`)
	s.heard(t, "all.api")
	s.heard(t, "spare")
	get := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul")
	get.wants("add service=api 10.0.0.1:80")
	s.SetCheck("api-1", api.HealthCritical)
	get.wants("add service=spare 10.0.0.2:80")
	get.wants("remove 10.0.0.1:80")
	s.SetCheck("api-1", api.HealthPassing)
	get.wants("add service=api 10.0.0.1:80")
	get.wants("remove 10.0.0.2:80")
}

// TestAProxyOfTodayFollowsARedirect has entries come and go, about a service that has instances and one that has none.
func TestAProxyOfTodayFollowsARedirect(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.RegisterService(testenv.Service{Name: "other", ID: "other-1", Address: "10.0.0.2", Port: 80})
	s.heard(t, "api")
	s.heard(t, "other")
	get := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul")
	get.wants("add service=api 10.0.0.1:80")
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Redirect = { Service = "other" }`)
	get.wants("add service=other 10.0.0.2:80")
	get.wants("remove 10.0.0.1:80")
	s.DeleteEntry("service-resolver", "api")
	get.wants("add service=api 10.0.0.1:80")
	get.wants("remove 10.0.0.2:80")

	named := ask(t, "get", s.catenary.GRPCAddr, "named.service.consul")
	named.wants("none exists=false")
	s.WriteEntry(`Kind = "service-defaults"
Name = "named"
Protocol = "http"`)
	named.wants("none exists=true")
	s.DeleteEntry("service-defaults", "named")
	named.wants("none exists=false")
	if err := s.shows("linkerd:named.service.consul#", "SYNCED"); err != nil {
		t.Error(err)
	}
}

// shows returns an error unless catenary says that it has a stream in that state.
func (s scene) shows(id, state string) error {
	var list []struct{ ID, State string }
	if err := s.catenary.API("/api/v1/proxies", &list); err != nil {
		return err
	}
	for _, p := range list {
		if strings.HasPrefix(p.ID, id) && p.State == state {
			return nil
		}
	}
	return fmt.Errorf("no %s is %s among %v", id, state, list)
}

func TestAProxyOfTodayFollowsAProfile(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.WriteEntry(`Kind = "service-defaults"
Name = "api"
Protocol = "http"`)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80, Meta: map[string]string{"v": "1"}})
	s.RegisterService(testenv.Service{
		Name: "api-sidecar-proxy", ID: "api-1-proxy", Address: "10.0.0.1", Port: 20000,
		Kind: api.ServiceKindConnectProxy, Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "api", DestinationServiceID: "api-1"},
	})
	s.heard(t, "api-sidecar-proxy")
	s.heard(t, "api", "10.0.0.1:20000")
	s.says(t, "profile", "api.service.consul:80", "opaque=false")
	profile := ask(t, "profile", s.catenary.GRPCAddr, "api.service.consul:80")
	profile.wants("name=api.service.dc1.consul", "opaque=false", "overrides=api.service.dc1.consul:80=10000", "routes=0")
	s.WriteEntry(`Kind = "service-resolver"
Name = "api"
Subsets = { v1 = { Filter = "Service.Meta.v == 1" } }`)
	s.WriteEntry(`Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 99.99 }, { Weight = 0.01, ServiceSubset = "v1" }]`)
	profile.wants("overrides=api.service.dc1.consul:80=9999,v1.api.service.dc1.consul:80=1")
	ask(t, "get", s.catenary.GRPCAddr, "api.service.consul").wants("10.0.0.1:20000", "identity=spiffe://", "/svc/api", "server_name=api.default.dc1.internal.")
	ask(t, "profile", s.catenary.GRPCAddr, "10.0.0.1:20000").wants("name= ", "endpoint=10.0.0.1:20000", "identity=spiffe://")
	ask(t, "profile", s.catenary.GRPCAddr, "10.9.9.9:80").wants("name= ", "overrides= ")
	if virtual := virtualIP(s); virtual != "" {
		ask(t, "profile", s.catenary.GRPCAddr, virtual+":80").wants("name=api.service.dc1.consul")
	} else {
		t.Error("Consul has given the service no virtual IP")
	}
}

func virtualIP(s scene) string {
	list, _, err := s.Client().Catalog().Service("api-sidecar-proxy", "", nil)
	if err != nil || len(list) == 0 {
		return ""
	}
	return list[0].ServiceTaggedAddresses["consul-virtual"].Address
}

func TestConsulAwayTakesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	s.heard(t, "api")
	s.Stop()
	again := ask(t, "get", s.catenary.GRPCAddr, "api.service.consul")
	again.wants("add service=api 10.0.0.1:80")
}
