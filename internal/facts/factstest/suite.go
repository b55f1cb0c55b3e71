package factstest

import (
	"fmt"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Run runs the suite, with a new harness for each of its tests.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"what-is-there-at-the-start-is-present", startsWithWhatIsThere},
		{"what-is-nowhere-is-absent", knowsWhatIsNowhere},
		{"an-entry-comes-changes-and-goes", followsEntries},
		{"who-may-talk-comes-changes-and-goes", followsIntentions},
		{"an-instance-comes-changes-and-goes", followsInstances},
		{"a-check-flips", followsHealth},
		{"one-of-several-instances-goes", followsOneOfSeveral},
		{"a-sidecar-is-its-service's", followsSidecars},
		{"equal-content-is-no-change", ignoresRewrites},
		{"what-went-comes-back", followsReturns},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, tidied(t, newHarness(t))) })
	}
}

func startsWithWhatIsThere(t *testing.T, h Harness) {
	api := ServiceSpec{
		Name: "start-api", ID: "start-api-1", Port: 7001,
		Tags: []string{"a", "b"}, Meta: map[string]string{"version": "v1"}, Weights: facts.Weights{Passing: 7, Warning: 2},
	}
	h.Register(t, api)
	h.PutEntry(t, defaults("start-api", "http"))
	w := follow(t, h, facts.Health(h.Datacenter(), api.Name))
	h.Start(t)
	w.service(api.Name, facts.Present)
	w.instances(w.health(api.Name), api)
	w.entry(chain.KindServiceDefaults, "start-api", facts.Present, hasProtocol("http"))
	w.until(func() string {
		if ready, reason := w.view.Ready(h.Datacenter()); !ready {
			return "to be ready: " + reason
		}
		return ""
	})
}

func knowsWhatIsNowhere(t *testing.T, h Harness) {
	w := follow(t, h, facts.Health(h.Datacenter(), "nowhere"))
	h.Start(t)
	w.service("nowhere", facts.Absent)
	w.instances(w.health("nowhere"))
	for _, kind := range chain.AllKinds() {
		w.entry(kind, "nowhere", facts.Absent, nil)
	}
}

func followsEntries(t *testing.T, h Harness) {
	w := follow(t, h)
	h.Start(t)
	id := entryID(chain.KindServiceDefaults, "entry-api")
	w.entry(chain.KindServiceDefaults, "entry-api", facts.Absent, nil)
	w.changes(func() { h.PutEntry(t, defaults("entry-api", "http")) }, id)
	w.entry(chain.KindServiceDefaults, "entry-api", facts.Present, hasProtocol("http"))
	w.changes(func() { h.PutEntry(t, defaults("entry-api", "grpc")) }, id)
	w.entry(chain.KindServiceDefaults, "entry-api", facts.Present, hasProtocol("grpc"))
	w.changes(func() { h.DeleteEntry(t, chain.KindServiceDefaults, "entry-api") }, id)
	w.entry(chain.KindServiceDefaults, "entry-api", facts.Absent, nil)
}

func followsIntentions(t *testing.T, h Harness) {
	w := follow(t, h)
	h.Start(t)
	w.until(func() string {
		if allow, state := w.view.DefaultIntention(); state != facts.Present || !allow {
			return fmt.Sprintf("that services may talk without intentions; it is %s: %t", state, allow)
		}
		return ""
	})
	says := func(action chain.IntentionAction) func(chain.Entry) bool {
		return func(e chain.Entry) bool {
			i, ok := e.(*chain.ServiceIntentions)
			return ok && len(i.Sources) == 1 && i.Sources[0].Name == "talk-web" && i.Sources[0].Action == action && i.Sources[0].Precedence == 9
		}
	}
	put := func(action chain.IntentionAction) func() {
		return func() {
			h.PutEntry(t, fmt.Sprintf(`{"Kind": "service-intentions", "Name": "talk-api", "Sources": [{"Name": "talk-web", "Action": %q}]}`, action))
		}
	}
	id := entryID(chain.KindServiceIntentions, "talk-api")
	w.entry(chain.KindServiceIntentions, "talk-api", facts.Absent, nil)
	w.changes(put(chain.IntentionDeny), id)
	w.entry(chain.KindServiceIntentions, "talk-api", facts.Present, says(chain.IntentionDeny))
	w.changes(put(chain.IntentionAllow), id)
	w.entry(chain.KindServiceIntentions, "Talk-API", facts.Present, says(chain.IntentionAllow))
	w.changes(func() { h.DeleteEntry(t, chain.KindServiceIntentions, "talk-api") }, id)
	w.entry(chain.KindServiceIntentions, "talk-api", facts.Absent, nil)

	mesh := entryID(chain.KindMesh, chain.MeshName)
	w.entry(chain.KindMesh, chain.MeshName, facts.Absent, nil)
	w.changes(func() { h.PutEntry(t, `{"Kind": "mesh", "HTTP": {"SanitizeXForwardedClientCert": true}}`) }, mesh)
	w.entry(chain.KindMesh, chain.MeshName, facts.Present, func(e chain.Entry) bool {
		m, ok := e.(*chain.Mesh)
		return ok && m.HTTP != nil && m.HTTP.SanitizeXForwardedClientCert
	})
	w.changes(func() { h.DeleteEntry(t, chain.KindMesh, chain.MeshName) }, mesh)
	w.entry(chain.KindMesh, chain.MeshName, facts.Absent, nil)
}

func followsInstances(t *testing.T, h Harness) {
	s := ServiceSpec{Name: "instance-api", ID: "instance-api-1", Port: 7001}
	w := follow(t, h, facts.Health(h.Datacenter(), s.Name))
	h.Start(t)
	w.instances(w.health(s.Name))
	w.changes(func() { h.Register(t, s) }, w.serviceID(s.Name), w.healthID(s.Name))
	w.service(s.Name, facts.Present)
	w.instances(w.health(s.Name), s)
	s.Port, s.Meta = 7002, map[string]string{"version": "v2"}
	w.changes(func() { h.Register(t, s) }, w.healthID(s.Name))
	w.instances(w.health(s.Name), s)
	w.changes(func() { h.Deregister(t, s.ID) }, w.serviceID(s.Name), w.healthID(s.Name))
	w.service(s.Name, facts.Absent)
	w.instances(w.health(s.Name))
}

func followsHealth(t *testing.T, h Harness) {
	s := ServiceSpec{Name: "health-api", ID: "health-api-1", Port: 7001}
	other := ServiceSpec{Name: "health-other", ID: "health-other-1", Port: 7002}
	h.Register(t, s)
	h.Register(t, other)
	w := follow(t, h, facts.Health(h.Datacenter(), s.Name), facts.Health(h.Datacenter(), other.Name))
	h.Start(t)
	w.instances(w.health(other.Name), other)
	w.instances(w.health(s.Name), s)
	for _, status := range []facts.CheckStatus{facts.StatusCritical, facts.StatusWarning, facts.StatusPassing} {
		s.Status = status
		w.changes(func() { h.Register(t, s) }, w.healthID(s.Name))
		w.instances(w.health(s.Name), s)
	}
}

func followsOneOfSeveral(t *testing.T, h Harness) {
	one := ServiceSpec{Name: "several-api", ID: "several-api-1", Port: 7001, Meta: map[string]string{"version": "v1"}}
	two := ServiceSpec{Name: "several-api", ID: "several-api-2", Port: 7002, Status: facts.StatusCritical}
	h.Register(t, two)
	h.Register(t, one)
	w := follow(t, h, facts.Health(h.Datacenter(), one.Name))
	h.Start(t)
	w.service(one.Name, facts.Present)
	w.instances(w.health(one.Name), one, two)
	three := ServiceSpec{Name: "several-api", ID: "several-api-3", Port: 7003}
	h.Register(t, three)
	w.instances(w.health(one.Name), one, two, three)
	w.changes(func() { h.Deregister(t, three.ID) }, w.healthID(one.Name))
	w.instances(w.health(one.Name), one, two)
	w.service(one.Name, facts.Present)
}

func followsSidecars(t *testing.T, h Harness) {
	web := ServiceSpec{Name: "sidecar-web", ID: "sidecar-web-1", Port: 7001}
	sidecar := ServiceSpec{
		Name: "sidecar-web-sidecar-proxy", ID: "sidecar-web-1-sidecar-proxy", Port: 21000,
		Proxy: &facts.Proxy{
			DestinationServiceName: web.Name, DestinationServiceID: web.ID, LocalServicePort: web.Port,
			Upstreams: []facts.Upstream{{DestinationName: "sidecar-api", LocalBindPort: 9191}},
		},
	}
	h.Register(t, web)
	h.Register(t, sidecar)
	connect, proxies := facts.Connect(h.Datacenter(), web.Name), facts.Proxies(h.Datacenter(), web.Name)
	w := follow(t, h, facts.Health(h.Datacenter(), web.Name), connect, proxies)
	h.Start(t)
	w.instances(w.health(web.Name), web)
	w.instances(connect, sidecar)
	w.instances(proxies, sidecar)
	sidecar.Status = facts.StatusCritical
	w.changes(func() { h.Register(t, sidecar) }, facts.ID{Topic: connect})
	w.instances(connect, sidecar)
	changed := *sidecar.Proxy
	changed.Upstreams = append(changed.Upstreams, facts.Upstream{DestinationName: "sidecar-db", LocalBindPort: 9192})
	sidecar.Proxy = &changed
	w.changes(func() { h.Register(t, sidecar) }, facts.ID{Topic: connect}, facts.ID{Topic: proxies})
	w.instances(proxies, sidecar)
	w.changes(func() { h.Deregister(t, sidecar.ID) },
		facts.ID{Topic: connect}, facts.ID{Topic: proxies}, w.serviceID(sidecar.Name))
	w.instances(proxies)
	w.instances(w.health(web.Name), web)
}

func ignoresRewrites(t *testing.T, h Harness) {
	one := ServiceSpec{Name: "again-api", ID: "again-api-1", Port: 7001, Tags: []string{"b", "a"}}
	two := ServiceSpec{Name: "again-api", ID: "again-api-2", Port: 7002}
	h.Register(t, one)
	h.Register(t, two)
	h.PutEntry(t, defaults("again-api", "http"))
	w := follow(t, h, facts.Health(h.Datacenter(), one.Name))
	h.Start(t)
	w.instances(w.health(one.Name), one, two)
	w.entry(chain.KindServiceDefaults, "again-api", facts.Present, hasProtocol("http"))
	w.changes(func() {
		h.Register(t, two)
		h.Register(t, one)
		h.PutEntry(t, defaults("again-api", "http"))
	})
	w.instances(w.health(one.Name), one, two)
}

func followsReturns(t *testing.T, h Harness) {
	s := ServiceSpec{Name: "return-api", ID: "return-api-1", Port: 7001}
	h.Register(t, s)
	w := follow(t, h, facts.Health(h.Datacenter(), s.Name))
	h.Start(t)
	w.instances(w.health(s.Name), s)
	h.Deregister(t, s.ID)
	w.service(s.Name, facts.Absent)
	w.instances(w.health(s.Name))
	h.Register(t, s)
	w.service(s.Name, facts.Present)
	w.instances(w.health(s.Name), s)
}
