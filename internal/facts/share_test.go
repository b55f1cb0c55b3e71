package facts

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"
)

func shareable(service, node, version string) *Instance {
	at := "10.0.0." + node
	return &Instance{
		Node: Node{
			ID: "id-" + node, Node: "node-" + node, Address: at, Datacenter: "dc1",
			TaggedAddresses: map[string]string{"lan": at, "wan": at}, Meta: map[string]string{"consul-version": "1.22.5"},
		},
		Service: Service{
			ID: service + "-" + node, Service: service, Tags: []string{version}, Address: at, Port: 80,
			TaggedAddresses: map[string]Address{"lan_ipv4": {Address: at, Port: 80}}, Meta: map[string]string{"version": version},
			Proxy: &Proxy{DestinationServiceName: service, Upstreams: []Upstream{
				{DestinationName: "a", LocalBindPort: 1, Config: map[string]any{"protocol": "http"}},
				{DestinationName: "b", LocalBindPort: 2, Config: map[string]any{"protocol": "http"}},
			}},
		},
		Checks: []Check{{Node: "node-" + node, CheckID: "serfHealth", Status: StatusPassing, ServiceTags: []string{version}}},
	}
}

func TestSharingChangesNoContent(t *testing.T) {
	s := newShares()
	for round := range 2 {
		for i := range 50 {
			in := shareable(fmt.Sprintf("s%d", i%5), fmt.Sprint(i%7), fmt.Sprintf("v%d", i%3))
			in.Service.Proxy.Upstreams[1].LocalBindPort = i % 4
			in.Service.Proxy.Upstreams[i%2].Config["protocol"] = fmt.Sprint(i % 3)
			got := s.instance(in)
			if !reflect.DeepEqual(got, in) {
				t.Fatalf("round %d: %+v became %+v", round, in, got)
			}
		}
	}
	if empty := (&Instance{}); !reflect.DeepEqual(s.instance(empty), empty) {
		t.Error("an empty instance became another")
	}
}

func TestWhatInstancesHaveInCommonIsKeptOnce(t *testing.T) {
	s := newShares()
	a, b := s.instance(shareable("api", "1", "v1")), s.instance(shareable("api", "2", "v1"))
	c := s.instance(shareable("web", "1", "v2"))
	same := func(what string, x, y any) {
		t.Helper()
		if reflect.ValueOf(x).Pointer() != reflect.ValueOf(y).Pointer() {
			t.Errorf("%s is kept twice", what)
		}
	}
	same("the meta of a service", a.Service.Meta, b.Service.Meta)
	same("the tags of a service", a.Service.Tags, b.Service.Tags)
	same("the tags of a check", a.Service.Tags, b.Checks[0].ServiceTags)
	same("the meta of a node", a.Node.Meta, c.Node.Meta)
	same("the addresses of a node", a.Node.TaggedAddresses, c.Node.TaggedAddresses)
	same("the upstreams of sidecars", a.Service.Proxy.Upstreams, c.Service.Proxy.Upstreams)
	same("the configuration of upstreams", a.Service.Proxy.Upstreams[0].Config, a.Service.Proxy.Upstreams[1].Config)
	if unsafe.StringData(a.Node.Address) != unsafe.StringData(c.Service.Address) {
		t.Error("a text is kept twice")
	}
}

func TestWhatLooksAlikeIsNotShared(t *testing.T) {
	s := newShares()
	for _, tags := range [][]string{{"a", "b"}, {"a\x00b"}, {"a", "b", ""}, {"a\x00", "b"}} {
		if got := s.list(tags); !reflect.DeepEqual(got, tags) {
			t.Errorf("%q became %q", tags, got)
		}
	}
	for _, m := range []map[string]string{{"a": "b", "c": "d"}, {"a": "b\x00c\x00d"}, {"a\x00b\x00c": "d"}} {
		if got := s.table(m); !reflect.DeepEqual(got, m) {
			t.Errorf("%q became %q", m, got)
		}
	}
}

func TestAShelfHoldsWhatWasUsedLately(t *testing.T) {
	s := shelf[int, int]{room: 100}
	s.put(-1, -1)
	for i := range 10_000 {
		s.put(i, i)
		if _, ok := s.find(-1); !ok {
			t.Fatalf("what is used again and again was dropped after %d", i)
		}
		if n := len(s.young) + len(s.old); n > 200 {
			t.Fatalf("%d values are held", n)
		}
	}
	if _, ok := s.find(0); ok {
		t.Error("what was used long ago is still held")
	}
}
