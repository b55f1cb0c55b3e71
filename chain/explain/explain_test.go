package explain_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

// TestNothingOfAChainIsLeftOut explains the chain of every scenario of the compiler: the steps must
// end in exactly the nodes and targets of the chain.
func TestNothingOfAChainIsLeftOut(t *testing.T) {
	files, err := filepath.Glob("../testdata/scenario/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios found", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			req, entries := scenario(t, file)
			c, _ := chain.Compile(req, entries)
			if c == nil {
				return // there is nothing to explain
			}
			checkComplete(t, c, explain.Explain(req, c, entries))
		})
	}
}

// checkComplete compares the steps with the chain.
func checkComplete(t *testing.T, c *chain.Chain, ex *explain.Explanation) {
	t.Helper()
	targets, failovers := map[string]bool{}, map[string]bool{}
	var walk func(s *explain.Step)
	walk = func(s *explain.Step) {
		switch s.Kind {
		case explain.KindTarget:
			targets[s.Name] = true
		case explain.KindFailover:
			failovers[s.Name] = true
		}
		if s.Again && len(s.Next) > 0 {
			t.Errorf("%s %s is explained twice", s.Kind, s.Name)
		}
		for _, next := range s.Next {
			walk(next)
		}
	}
	walk(ex.Start)
	if start := c.Nodes[c.StartNode]; start.Type == chain.NodeSplitter {
		var want []string
		for _, leg := range start.Splits {
			want = append(want, strconv.FormatFloat(float64(leg.Weight), 'f', -1, 32)+" %")
		}
		if got := shares(ex.Start); !slices.Equal(got, want) {
			t.Errorf("the legs have the shares %v, and are explained with %v", want, got)
		}
	}
	wantTargets, wantFailovers := map[string]bool{}, map[string]bool{}
	for _, n := range c.Nodes {
		if n.Type != chain.NodeResolver {
			continue
		}
		wantTargets[n.Resolver.Target] = true
		if f := n.Resolver.Failover; f != nil {
			for _, id := range f.Targets {
				wantFailovers[id] = true
			}
		}
	}
	if !maps.Equal(targets, wantTargets) || !maps.Equal(failovers, wantFailovers) {
		t.Errorf("targets %v and failovers %v are explained, of %v and %v", targets, failovers, wantTargets, wantFailovers)
	}
}

// shares lists the effective weights of a splitter's legs.
func shares(splitter *explain.Step) []string {
	var list []string
	for _, leg := range splitter.Next {
		switch {
		case leg.Kind == explain.KindSplitter:
			list = append(list, shares(leg)...)
		case leg.Share != "":
			list = append(list, leg.Share)
		default:
			list = append(list, leg.Via)
		}
	}
	return list
}

func scenario(t *testing.T, file string) (chain.Request, *chain.EntrySet) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var req chain.Request
	var entries *chain.EntrySet
	for _, f := range archive.Files {
		switch f.Name {
		case "request.json":
			req = request(t, f.Data)
		case "entries.json":
			entries = decode(t, f.Data)
		}
	}
	return req, entries
}

// request reads a request, with the timeout as text.
func request(t *testing.T, data []byte) chain.Request {
	t.Helper()
	var in struct {
		Service, Datacenter, TrustDomain string
		Overrides                        struct {
			Protocol, ConnectTimeout string
			MeshGateway              chain.MeshGatewayMode
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	timeout, _ := time.ParseDuration(in.Overrides.ConnectTimeout) // 0 where there is none
	return chain.Request{
		Service: in.Service, Datacenter: in.Datacenter, TrustDomain: in.TrustDomain,
		Overrides: chain.Overrides{
			Protocol: in.Overrides.Protocol, ConnectTimeout: timeout, MeshGateway: in.Overrides.MeshGateway,
		},
	}
}

func decode(t *testing.T, data []byte) *chain.EntrySet {
	t.Helper()
	f := entry.Decode("e.json", data)
	for _, p := range f.Problems {
		if p.Severity == chain.SeverityError {
			t.Fatal(p)
		}
	}
	return chain.NewEntrySet(f.Entries...)
}

// explained compiles and explains entries, and prints the steps one a line.
func explained(t *testing.T, req chain.Request, hcl string) string {
	t.Helper()
	var list []chain.Entry
	for i, text := range strings.Split(hcl, "---\n") {
		if text == "" {
			continue
		}
		f := entry.Decode(fmt.Sprintf("%d.hcl", i+1), []byte(text))
		for _, p := range f.Problems {
			t.Fatal(p)
		}
		list = append(list, f.Entries...)
	}
	entries := chain.NewEntrySet(list...)
	c, problems := chain.Compile(req, entries)
	if c == nil {
		t.Fatal(problems)
	}
	ex := explain.Explain(req, c, entries)
	checkComplete(t, c, ex)
	var b strings.Builder
	facts(&b, "", ex.Facts)
	steps(&b, "", ex.Start)
	return b.String()
}

func facts(b *strings.Builder, indent string, list []explain.Fact) {
	for _, f := range list {
		fmt.Fprintf(b, "%s- %s", indent, f.What)
		if f.From != "" {
			fmt.Fprintf(b, " [%s]", f.From)
		}
		b.WriteString("\n")
	}
}

func steps(b *strings.Builder, indent string, s *explain.Step) {
	words := []string{s.Via, s.Share, s.Kind, s.Name, s.From}
	if s.Again {
		words = append(words, "again")
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	fmt.Fprintf(b, "%s%s\n", indent, strings.Join(words, " | "))
	facts(b, indent+"  ", s.Facts)
	for _, next := range s.Next {
		steps(b, indent+"  ", next)
	}
}

func TestExplanations(t *testing.T) {
	web := chain.Request{Service: "web"}
	for _, tt := range []struct {
		name string
		req  chain.Request
		hcl  string
		want string
	}{
		{"nothing-but-defaults", web, "", `
- protocol tcp [default]
target | web.default.default.dc1
  - protocol tcp [default]
  - connect timeout 5s [default]
`},
		{"redirects-and-default-subset", web, `
Kind = "service-resolver"
Name = "web"
Redirect { Service = "api", Datacenter = "dc2" }
---
Kind = "service-resolver"
Name = "api"
DefaultSubset = "v1"
Subsets = { v1 = { Filter = "Service.Meta.v == 1", OnlyPassing = true } }
ConnectTimeout = "3s"
---
Kind = "proxy-defaults"
Name = "global"
Config { protocol = "http" }
`, `
- protocol http [proxy-defaults/global (3.hcl:1)]
redirect | web.default.default.dc1 | service-resolver/web (1.hcl:2)
  redirect | redirect | api.default.default.dc2 | service-resolver/api (2.hcl:1)
    default subset v1 | target | v1.api.default.default.dc2 | service-resolver/api (2.hcl:1)
      - protocol http [proxy-defaults/global (3.hcl:1)]
      - subset v1: Service.Meta.v == 1
      - only passing instances
      - connect timeout 3s [service-resolver/api (2.hcl:1)]
`},
		{"routes-splits-failover-again", web, `
Kind = "service-defaults"
Name = "web"
Protocol = "http"
---
Kind = "service-defaults"
Name = "api"
Protocol = "http"
---
Kind = "service-router"
Name = "web"
Routes = [
  { Match { HTTP { PathPrefix = "/a", Header = [{ Name = "x", Exact = "1", Invert = true }], Methods = ["get"] } },
    Destination { Service = "api", PrefixRewrite = "/", NumRetries = 2, RetryOnStatusCodes = [502, 503] } },
  { Match { HTTP { QueryParam = [{ Name = "q", Present = true }] } }, Destination { Service = "api" } },
]
---
Kind = "service-splitter"
Name = "web"
Splits = [
  { Weight = 50, RequestHeaders { Set = { "x-leg" = "1" } } },
  { Weight = 50, Service = "api" },
]
---
Kind = "service-splitter"
Name = "api"
Splits = [{ Weight = 90 }, { Weight = 10, Service = "old" }]
---
Kind = "service-resolver"
Name = "api"
Failover = { "*" = { Targets = [{ Service = "old" }, { Peer = "p" }] } }
---
Kind = "service-resolver"
Name = "old"
Redirect { Service = "web" }
---
Kind = "service-defaults"
Name = "old"
Protocol = "http"
`, `
- protocol http [service-defaults/web (1.hcl:2)]
router | web | service-router/web (3.hcl:1)
  route 1: path prefix /a, not (header x = 1), method GET | splitter | api | service-splitter/api (5.hcl:1)
    - route: path rewritten to /
    - route: 2 retries
    - route: retry on status 502 503
    90 % | target | api.default.default.dc1 | service-resolver/api (6.hcl:1)
      - protocol http [service-defaults/api (2.hcl:1)]
      - connect timeout 5s [default]
      failover 1 | redirect | old.default.default.dc1 | service-resolver/old (7.hcl:1)
        redirect | failover | web.default.default.dc1
          - protocol http [service-defaults/web (1.hcl:2)]
          - connect timeout 5s [default]
      failover 2 | failover | api.default.default.external.p | service-resolver/api (6.hcl:1)
        - at the peer p
        - connect timeout 5s [default]
    10 % | redirect | old.default.default.dc1 | service-resolver/old (7.hcl:1)
      redirect | target | web.default.default.dc1
        - protocol http [service-defaults/web (1.hcl:2)]
        - connect timeout 5s [default]
  route 2: query q present | splitter | api | service-splitter/api (5.hcl:1) | again
  otherwise | splitter | web | service-splitter/web (4.hcl:1)
    50 % | target | web.default.default.dc1 | again
      - request header set: x-leg: 1
    50 % | splitter | api | service-splitter/api (5.hcl:1)
      90 % | 45 % | target | api.default.default.dc1 | service-resolver/api (6.hcl:1) | again
      10 % | 5 % | redirect | old.default.default.dc1 | service-resolver/old (7.hcl:1) | again
`},
		{"overrides", chain.Request{Service: "web", Overrides: chain.Overrides{
			Protocol: "tcp", ConnectTimeout: 7 * time.Second, MeshGateway: "local",
		}}, `
Kind = "proxy-defaults"
Name = "global"
Config { protocol = "http" }
MeshGateway { Mode = "remote" }
TransparentProxy { DialedDirectly = true }
---
Kind = "service-router"
Name = "web"
`, `
- protocol tcp [override]
- without service-router/web (2.hcl:1) [override]
- customization hash dfccd84a [override]
target | web.default.default.dc1
  - protocol http [proxy-defaults/global (1.hcl:2)]
  - connect timeout 7s [override]
  - mesh gateway local [override]
  - may be dialed directly [proxy-defaults/global (1.hcl:2)]
`},
		{"what-decides", web, `
Kind = "proxy-defaults"
Name = "global"
MeshGateway { Mode = "remote" }
FailoverPolicy { Mode = "sequential" }
EnvoyExtensions = [{ Name = "builtin/lua", Arguments = { ProxyType = "connect-proxy", Listener = "inbound", Script = "x" } }]
---
Kind = "service-defaults"
Name = "web"
TransparentProxy { DialedDirectly = true }
MeshGateway { Mode = "none" }
---
Kind = "service-resolver"
Name = "web"
RequestTimeout = "2s"
LoadBalancer { Policy = "maglev" }
Failover = { "*" = { Datacenters = ["dc1", "dc2"] } }
---
Kind = "service-defaults"
Name = "out"
ExternalSNI = "out.example"
`, `
- protocol tcp [service-defaults/web (2.hcl:1), which names none]
- Envoy extension builtin/lua
target | web.default.default.dc1 | service-resolver/web (3.hcl:1)
  - protocol tcp [service-defaults/web (2.hcl:1), which names none]
  - connect timeout 5s [default]
  - request timeout 2s
  - load balancer maglev
  - mesh gateway none [service-defaults/web (2.hcl:1)]
  - may be dialed directly [service-defaults/web (2.hcl:1)]
  - failover policy sequential [proxy-defaults/global (1.hcl:2)]
  failover 1 | failover | web.default.default.dc2 | service-resolver/web (3.hcl:1)
    - protocol tcp [service-defaults/web (2.hcl:1), which names none]
    - connect timeout 5s [default]
    - mesh gateway none [service-defaults/web (2.hcl:1)]
    - may be dialed directly [service-defaults/web (2.hcl:1)]
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := explained(t, tt.req, tt.hcl); got != tt.want[1:] {
				t.Errorf("got\n%swant\n%s", got, tt.want[1:])
			}
		})
	}
}
