package entry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// instances decodes a file that holds service definitions and nothing wrong.
func instances(t *testing.T, name, src string) []*facts.Instance {
	t.Helper()
	f := entry.Decode(name, []byte(src))
	if len(f.Problems) != 0 {
		t.Fatalf("problems %v", f.Problems)
	}
	return f.Instances
}

func node() facts.Node { return facts.Node{Node: "files", Address: "127.0.0.1"} }

// TestServicesAreRegisteredAsConsulDoes has what Consul 1.22.5 made of these definitions.
func TestServicesAreRegisteredAsConsulDoes(t *testing.T) {
	got := instances(t, "a.hcl", `
services = [
  {
    name = "two" port = 81 address = "10.1.1.1" weights { passing = 5 }
    checks = [
      { ttl = "1h" status = "passing" },
      { id = "x" name = "nx" tcp = "127.0.0.1:1" interval = "1h" status = "warning" notes = "n" },
    ]
  },
  { Name = "three", enable_tag_override = true, tagged_addresses = { lan = { address = "1.2.3.4", port = 99 } }, token = "t" },
]
service { name = "four" id = "four-1" tags = ["a"] check { http = "http://127.0.0.1/" interval = "10s" header { x = ["y"] } } }`)
	service := func(s facts.Service) facts.Service {
		if s.Weights == (facts.Weights{}) {
			s.Weights = facts.Weights{Passing: 1, Warning: 1}
		}
		return s
	}
	want := []*facts.Instance{
		{
			Node: node(),
			Service: service(facts.Service{
				ID: "two", Service: "two", Address: "10.1.1.1", Port: 81, Weights: facts.Weights{Passing: 5, Warning: 1},
			}),
			Checks: []facts.Check{
				{Node: "files", CheckID: "service:two:1", Name: "Service 'two' check", Status: facts.StatusPassing, ServiceID: "two", ServiceName: "two"},
				{
					Node: "files", CheckID: "x", Name: "nx", Status: facts.StatusWarning, Notes: "n", ServiceID: "two", ServiceName: "two",
					Definition: &facts.CheckDefinition{TCP: "127.0.0.1:1", Interval: time.Hour},
				},
			},
		},
		{Node: node(), Service: service(facts.Service{
			ID: "three", Service: "three", EnableTagOverride: true,
			TaggedAddresses: map[string]facts.Address{"lan": {Address: "1.2.3.4", Port: 99}},
		})},
		{
			Node:    node(),
			Service: service(facts.Service{ID: "four-1", Service: "four", Tags: []string{"a"}}),
			Checks: []facts.Check{{
				Node: "files", CheckID: "service:four-1", Name: "Service 'four' check", Status: facts.StatusCritical,
				ServiceID: "four-1", ServiceName: "four", ServiceTags: []string{"a"},
				Definition: &facts.CheckDefinition{HTTP: "http://127.0.0.1/", Header: map[string][]string{"x": {"y"}}, Interval: 10 * time.Second},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestSidecarsAreRegisteredAsConsulDoes has what Consul 1.22.5 made of this definition, but for the
// port, and for the check whether the sidecar listens.
func TestSidecarsAreRegisteredAsConsulDoes(t *testing.T) {
	got := instances(t, "a.hcl", `
service {
  name = "web" id = "web-1" port = 8080 tags = ["t1"] address = "10.0.0.1"
  meta { v = "1" }
  locality { region = "r" zone = "z" }
  check { ttl = "1h" status = "warning" }
  connect { sidecar_service { proxy {
    upstreams = [{ destination_name = "api" local_bind_port = 9191 config { a { b = 1 } l = [{ c = 1 }] } }]
    config { x = 1 }
    expose { checks = true }
  } } }
}`)
	want := &facts.Instance{
		Node: node(),
		Service: facts.Service{
			Kind: "connect-proxy", ID: "web-1-sidecar-proxy", Service: "web-sidecar-proxy", Tags: []string{"t1"},
			Address: "10.0.0.1", Meta: map[string]string{"v": "1"}, Weights: facts.Weights{Passing: 1, Warning: 1},
			Locality: &facts.Locality{Region: "r", Zone: "z"},
			Proxy: &facts.Proxy{
				DestinationServiceName: "web", DestinationServiceID: "web-1",
				LocalServiceAddress: "127.0.0.1", LocalServicePort: 8080,
				Config: map[string]any{"x": int64(1)},
				Upstreams: []facts.Upstream{{
					DestinationType: "service", DestinationName: "api", LocalBindPort: 9191,
					Config: map[string]any{"a": map[string]any{"b": int64(1)}, "l": map[string]any{"c": int64(1)}},
				}},
				Expose: chain.Expose{Checks: true},
			},
		},
		Checks: []facts.Check{{
			Node: "files", CheckID: "service:web-1-sidecar-proxy:2", Name: "Connect Sidecar Aliasing web-1",
			Status: facts.StatusWarning, ServiceID: "web-1-sidecar-proxy", ServiceName: "web-sidecar-proxy",
			ServiceTags: []string{"t1"},
		}},
	}
	if len(got) != 2 || got[0].Service.ID != "web-1" {
		t.Fatalf("%v", got)
	}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestAServiceMayBeOnANodeOfItsOwn(t *testing.T) {
	got := instances(t, "a.yaml", "services:\n- {name: a, node: n1}\n- {name: a, node: n2, connect: {native: true}}\n")
	if len(got) != 2 || got[0].Node.Node != "n1" || got[1].Node.Node != "n2" || !got[1].Service.Connect.Native {
		t.Errorf("%+v", got)
	}
}

func TestServicesKnowWhereTheyAreDefined(t *testing.T) {
	f := entry.Decode("a.json", []byte("{\"services\": [\n{\"name\": \"a\"},\n{\"name\": \"b\", \"connect\": {\"sidecar_service\": {}}}]}"))
	var got []string
	for _, in := range f.Instances {
		got = append(got, f.Origins[in])
	}
	if strings.Join(got, " ") != "a.json:2 a.json:3 a.json:3" {
		t.Errorf("%v, %v", got, f.Problems)
	}
}

func TestServicesThatConsulWouldRefuse(t *testing.T) {
	for text, src := range map[string]string{
		"needs a name":            `service { port = 1 }`,
		"70000 is not a port":     `service { name = "a" port = 70000 }`,
		"a weight is 0 or more":   `service { name = "a" weights { passing = -1 } }`,
		`"up" is not a status`:    `service { name = "a" check { status = "up" ttl = "1s" } }`,
		`"down" is not a status`:  `service { name = "a" checks = [{ ttl = "1s" }, { status = "down" }] }`,
		"a sidecar must name":     `service { name = "a" kind = "connect-proxy" }`,
		"a sidecar has no":        `service { name = "a" connect { sidecar_service { connect { sidecar_service {} } } } }`,
		"did you mean Port?":      `service { name = "a" prot = 1 }`,
		"LocalBindPort?":          `service { name = "a" connect { sidecar_service { proxy { upstreams { local_bnd_port = 1 } } } } }`,
		"must be a map, and is a": `service = "a"`,
		"holds bootstrap":         `config_entries = 7`,
	} {
		f := entry.Decode("a.hcl", []byte(src))
		if len(f.Problems) != 1 || len(f.Instances) != 0 || !strings.Contains(f.Problems[0].Message, text) {
			t.Errorf("%s: want %q, got %v", src, text, f.Problems)
		}
	}
}
