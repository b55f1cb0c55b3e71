package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// chainEntries are entries that use most of what a chain can hold, in an order that Consul accepts.
func chainEntries() []string {
	return []string{`
Kind = "proxy-defaults"
Name = "global"
Config { protocol = "http" }
MeshGateway { Mode = "local" }
FailoverPolicy { Regions = ["r1"] }
EnvoyExtensions = [{ Name = "builtin/lua", Arguments = { ProxyType = "connect-proxy", Listener = "inbound", Script = "-- <&>" } }]
`, `
Kind = "service-defaults"
Name = "web"
Protocol = "http"
Meta = { team = "shop" }
TransparentProxy { DialedDirectly = true }
`, `
Kind = "service-defaults"
Name = "out"
Protocol = "http"
ExternalSNI = "out.example"
`, `
Kind = "service-defaults"
Name = "db"
Protocol = "tcp"
`, `
Kind = "service-resolver"
Name = "api"
DefaultSubset = "v1"
ConnectTimeout = "3s"
RequestTimeout = "20s"
Subsets = {
  v1 = { Filter = "Service.Meta.version == v1" }
  v2 = { Filter = "Service.Meta.version == v2", OnlyPassing = true }
}
Failover = {
  "v2" = { Targets = [{ Datacenter = "dc2" }, { Service = "stock" }, { Peer = "p" }] }
  "*"  = { Datacenters = ["dc2", "dc3"] }
}
LoadBalancer {
  Policy = "ring_hash"
  RingHashConfig { MinimumRingSize = 1024 }
  HashPolicies = [{ Field = "cookie", FieldValue = "s", CookieConfig { TTL = "1h", Path = "/" } }]
}
`, `
Kind = "service-resolver"
Name = "old"
Redirect { Service = "stock", Datacenter = "dc2" }
`, `
Kind = "service-splitter"
Name = "stock"
Splits = [
  { Weight = 33.33, RequestHeaders { Set = { "x-leg" = "1" } } },
  { Weight = 66.67, Service = "api", ServiceSubset = "v2" },
]
`, `
Kind = "service-splitter"
Name = "web"
Splits = [
  { Weight = 50, Service = "stock", RequestHeaders { Set = { "x-web" = "1" } }, ResponseHeaders { Remove = ["x-r"] } },
  { Weight = 50 },
]
`, `
Kind = "service-router"
Name = "web"
Routes = [
  {
    Match { HTTP { PathPrefix = "/a", Header = [{ Name = "x", Exact = "1", Invert = true }], QueryParam = [{ Name = "q", Present = true }], Methods = ["get", "put"] } }
    Destination { Service = "api", ServiceSubset = "v2", PrefixRewrite = "/", RequestTimeout = "7s", IdleTimeout = "1m", NumRetries = 3, RetryOn = ["reset"], RetryOnStatusCodes = [503] }
  },
  { Match { HTTP { PathExact = "/old" } }, Destination { Service = "old" } },
  { Match { HTTP { PathRegex = "/(out|<x>)" } }, Destination { Service = "out" } },
  { Destination { Service = "stock" } },
]
`}
}

// TestConsulsClientReadsTheSameChainsHere points Consul's own client at the admin address.
func TestConsulsClientReadsTheSameChainsHere(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	for _, e := range chainEntries() {
		f.consul.WriteEntry(e)
	}
	here := chainClient(t, f.catenary)
	options := map[string]*api.DiscoveryChainOptions{
		"plain":       nil,
		"compile-dc":  {EvaluateInDatacenter: "dc9"},
		"protocol":    {OverrideProtocol: "grpc"},
		"strips":      {OverrideProtocol: "tcp"},
		"timeout":     {OverrideConnectTimeout: 7 * time.Second},
		"equal":       {OverrideConnectTimeout: 3 * time.Second, OverrideProtocol: "http"},
		"gateway":     {OverrideMeshGateway: api.MeshGatewayConfig{Mode: api.MeshGatewayModeRemote}},
		"all-at-once": {EvaluateInDatacenter: "dc2", OverrideProtocol: "http2", OverrideConnectTimeout: time.Second, OverrideMeshGateway: api.MeshGatewayConfig{Mode: api.MeshGatewayModeNone}},
	}
	for _, service := range []string{"web", "WEB", "api", "stock", "old", "out", "db", "nobody"} {
		for name, o := range options {
			t.Run(service+"/"+name, func(t *testing.T) {
				testenv.Eventually(t, patience, func() error { return sameChain(f.consul.Client(), here, service, o) })
			})
		}
		if err := sameBody(f.consul.Client(), here, service); err != nil {
			t.Errorf("%s: %v", service, err)
		}
	}
}

// chainClient is Consul's client of catenary.
func chainClient(t *testing.T, c *testenv.Catenary) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: c.AdminAddr, Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// sameChain compares what two servers answer.
func sameChain(consul, here *api.Client, service string, o *api.DiscoveryChainOptions) error {
	want, _, err := consul.DiscoveryChain().Get(service, o, nil)
	if err != nil {
		return err
	}
	got, meta, err := here.DiscoveryChain().Get(service, o, nil)
	if err != nil {
		return err
	}
	if meta.LastIndex == 0 || !meta.KnownLeader || meta.LastContact != 0 {
		return fmt.Errorf("the headers say %+v", meta)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("catenary answers\n%+v\nand Consul\n%+v", got.Chain, want.Chain)
	}
	return nil
}

// sameBody compares the whole answers, of which Consul's client drops some, but for virtual IPs, which
// Consul alone gives out.
func sameBody(consul, here *api.Client, service string) error {
	bodies := map[*api.Client]map[string]map[string]any{}
	for _, c := range []*api.Client{consul, here} {
		var body map[string]map[string]any
		if _, err := c.Raw().Query("/v1/discovery-chain/"+service, &body, nil); err != nil {
			return err
		}
		delete(body["Chain"], "AutoVirtualIPs")
		delete(body["Chain"], "ManualVirtualIPs")
		bodies[c] = body
	}
	if got, want := bodies[here], bodies[consul]; !reflect.DeepEqual(got, want) {
		return fmt.Errorf("catenary answers\n%v\nand Consul\n%v", got, want)
	}
	return nil
}

func TestConsulsClientWaitsHere(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	f.http("api", "stock")
	here := chainClient(t, f.catenary)
	var index uint64
	testenv.Eventually(t, patience, func() error {
		got, meta, err := here.DiscoveryChain().Get("api", nil, nil)
		if err == nil && got.Chain.Protocol != "http" {
			err = fmt.Errorf("protocol %s", got.Chain.Protocol)
		}
		if err == nil {
			index = meta.LastIndex
		}
		return err
	})
	type answer struct {
		chain *api.DiscoveryChainResponse
		meta  *api.QueryMeta
		err   error
	}
	answers := make(chan answer, 1)
	wait := func(service string, index uint64) {
		chain, meta, err := here.DiscoveryChain().Get(service, nil, &api.QueryOptions{WaitIndex: index, WaitTime: time.Minute})
		answers <- answer{chain, meta, err}
	}
	go wait("api", index)
	// Neither what another chain is made of nor an entry without effect wakes the query.
	f.subsets("stock", "v1")
	f.consul.WriteEntry("Kind = \"service-resolver\"\nName = \"api\"\n")
	testenv.Throughout(t, 300*time.Millisecond, func() error {
		if len(answers) > 0 {
			return fmt.Errorf("woken for nothing: %+v", <-answers)
		}
		return nil
	})
	f.subsets("api", "v1", "v2")
	a := <-answers
	if a.err != nil || a.meta.LastIndex <= index || a.chain.Chain.Nodes[a.chain.Chain.StartNode].Resolver.Default {
		t.Fatalf("woken with %+v", a)
	}
	// The end of the server ends what waits.
	go wait("api", a.meta.LastIndex)
	testenv.Throughout(t, 100*time.Millisecond, func() error {
		if len(answers) > 0 {
			return fmt.Errorf("did not wait: %+v", <-answers)
		}
		return nil
	})
	begin := time.Now()
	f.catenary.Stop()
	if <-answers; time.Since(begin) > patience {
		t.Errorf("the query ended %s after the server was told to", time.Since(begin))
	}
}

func TestAChainIsNotAnsweredBeforeTheEntriesAreKnown(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t)
	consul.Stop()
	c := testenv.StartCatenary(t, consul.Env(), "--consul-addr", consul.HTTPAddr())
	here := chainClient(t, c)
	_, _, err := here.DiscoveryChain().Get("api", nil, nil)
	if status, ok := errors.AsType[api.StatusError](err); !ok || status.Code != http.StatusServiceUnavailable ||
		!strings.Contains(status.Body, consul.HTTPAddr()) {
		t.Errorf("without Consul: %v", err)
	}
}
