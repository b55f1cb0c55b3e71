package chain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// TestValidateAgreesWithConsul holds Validate against what Consul 1.22.5 did with each entry of
// testdata/validate: it stored it or refused it.
func TestValidateAgreesWithConsul(t *testing.T) {
	files, err := filepath.Glob("testdata/validate/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no entries found", err)
	}
	for _, file := range files {
		stored := strings.HasSuffix(file, ".stored.json")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			t.Fatal(file, err)
		}
		for _, raw := range list {
			e, err := chain.UnmarshalEntry(raw)
			if err != nil {
				t.Errorf("%s: %s: %v", file, raw, err)
				continue
			}
			faults := errorsOf(chain.Validate(e))
			if stored && len(faults) > 0 {
				t.Errorf("Consul stores %s, but: %+v", raw, faults)
			}
			if !stored && len(faults) == 0 {
				t.Errorf("Consul refuses %s, but no problem was found", raw)
			}
		}
	}
}

func errorsOf(problems []chain.Problem) []chain.Problem {
	var faults []chain.Problem
	for _, p := range problems {
		if p.Severity == chain.SeverityError {
			faults = append(faults, p)
		}
	}
	return faults
}

func ptr[T any](v T) *T { return &v }

func head(name string) chain.Header { return chain.Header{Name: name, Origin: "shop.hcl:12"} }

// TestValidateNamesTheField has one entry for each code.
func TestValidateNamesTheField(t *testing.T) {
	match := func(m chain.HTTPMatch) chain.Entry {
		return &chain.ServiceRouter{Header: head("web"), Routes: []chain.ServiceRoute{
			{}, {Match: &chain.RouteMatch{HTTP: &m}},
		}}
	}
	route := func(d chain.RouteDestination) chain.Entry {
		return &chain.ServiceRouter{Header: head("web"), Routes: []chain.ServiceRoute{{Destination: &d}}}
	}
	splitter := func(splits ...chain.ServiceSplit) chain.Entry {
		return &chain.ServiceSplitter{Header: head("web"), Splits: splits}
	}
	resolver := func(r chain.ServiceResolver) chain.Entry {
		r.Header = head("web")
		return &r
	}
	failover := func(f chain.Failover) chain.Entry {
		return resolver(chain.ServiceResolver{Failover: map[string]chain.Failover{"*": f}})
	}
	balancer := func(lb chain.LoadBalancer) chain.Entry {
		return resolver(chain.ServiceResolver{LoadBalancer: &lb})
	}
	defaults := func(d chain.ServiceDefaults) chain.Entry {
		d.Header = head("web")
		return &d
	}
	upstream := func(u chain.UpstreamConfig) chain.Entry {
		return defaults(chain.ServiceDefaults{UpstreamConfig: &chain.UpstreamConfiguration{Overrides: []*chain.UpstreamConfig{&u}}})
	}
	proxy := func(p chain.ProxyDefaults) chain.Entry {
		p.Header = head(chain.GlobalName)
		return &p
	}
	intentions := func(sources ...*chain.SourceIntention) chain.Entry {
		return &chain.ServiceIntentions{Header: head("web"), Sources: sources}
	}
	permission := func(h chain.IntentionHTTP) chain.Entry {
		return intentions(&chain.SourceIntention{Name: "a", Permissions: []*chain.IntentionPermission{{Action: chain.IntentionDeny, HTTP: &h}}})
	}
	source := func(s chain.SourceIntention) chain.Entry {
		s.Name = "a"
		return intentions(&s)
	}
	mesh := func(p chain.MeshTLSParameters) chain.Entry {
		return &chain.Mesh{Header: head(chain.MeshName), TLS: &chain.MeshTLS{Outgoing: &p}}
	}
	headers := &chain.HeaderModifiers{Set: map[string]string{"a": "b"}}
	v1 := map[string]chain.Subset{"v1": {}}

	tests := []struct {
		code, field string
		entry       chain.Entry
	}{
		{chain.CodeNoName, "Name", &chain.ServiceResolver{}},
		{chain.CodeNameNotAllowed, "Name", &chain.ServiceDefaults{Header: head("*")}},
		{chain.CodeNameNotAllowed, "Name", &chain.ProxyDefaults{Header: head("web")}},
		{chain.CodeMeta, `Meta["k"]`, &chain.ServiceResolver{Header: chain.Header{Name: "web", Meta: map[string]string{"k": strings.Repeat("v", 513)}}}},
		{chain.CodeEnterprise, "Redirect.Partition", resolver(chain.ServiceResolver{Redirect: &chain.Redirect{Service: "a", Partition: "p"}})},
		{chain.CodeNoEffect, "MeshGateway.Mode", defaults(chain.ServiceDefaults{MeshGateway: chain.MeshGateway{Mode: "near"}})},
		{chain.CodeUnknownValue, "BalanceInboundConnections", defaults(chain.ServiceDefaults{BalanceInboundConnections: "exact"})},
		{chain.CodeExtension, "EnvoyExtensions[0].Name", proxy(chain.ProxyDefaults{EnvoyExtensions: []chain.EnvoyExtension{{Name: "lua"}}})},
		{chain.CodePathForms, "Routes[1].Match.HTTP", match(chain.HTTPMatch{PathExact: "/a", PathPrefix: "/b"})},
		{chain.CodePathSlash, "Routes[1].Match.HTTP.PathPrefix", match(chain.HTTPMatch{PathPrefix: "b"})},
		{chain.CodeMatchName, "Routes[1].Match.HTTP.QueryParam[0]", match(chain.HTTPMatch{QueryParam: []chain.QueryParamMatch{{Present: true}}})},
		{chain.CodeMatchForms, "Routes[1].Match.HTTP.Header[0]", match(chain.HTTPMatch{Header: []chain.HeaderMatch{{Name: "a", Exact: "b", Suffix: "c"}}})},
		{chain.CodeMethod, "Routes[1].Match.HTTP.Methods[0]", match(chain.HTTPMatch{Methods: []string{"FETCH"}})},
		{chain.CodeMethodRepeated, "Routes[1].Match.HTTP.Methods[1]", match(chain.HTTPMatch{Methods: []string{"GET", "GET"}})},
		{chain.CodeRegexNotCompile, "Routes[1].Match.HTTP.PathRegex", match(chain.HTTPMatch{PathRegex: "/("})},
		{chain.CodePrefixRewrite, "Routes[0].Destination.PrefixRewrite", route(chain.RouteDestination{PrefixRewrite: "/"})},
		{chain.CodeRetryOn, "Routes[0].Destination.RetryOn[0]", route(chain.RouteDestination{RetryOn: []string{"bored"}})},
		{chain.CodeNoSplits, "Splits", splitter()},
		{chain.CodeWeightSum, "Splits", splitter(chain.ServiceSplit{Weight: 99.99})},
		{chain.CodeLegRepeated, "Splits[1]", splitter(chain.ServiceSplit{Weight: 50}, chain.ServiceSplit{Weight: 50, Service: "web"})},
		{chain.CodeLegRepeatedAlike, "Splits[1]", splitter(chain.ServiceSplit{Weight: 50, RequestHeaders: headers}, chain.ServiceSplit{Weight: 50, RequestHeaders: headers})},
		{chain.CodeWeightOutOfSpan, "Splits[0].Weight", splitter(chain.ServiceSplit{Weight: -10}, chain.ServiceSplit{Weight: 50, Service: "a"}, chain.ServiceSplit{Weight: 60, Service: "b"})},
		{chain.CodeSubsetName, `Subsets["V1"]`, resolver(chain.ServiceResolver{Subsets: map[string]chain.Subset{"V1": {}}})},
		{chain.CodeFilter, `Subsets["v1"].Filter`, resolver(chain.ServiceResolver{Subsets: map[string]chain.Subset{"v1": {Filter: "x ="}}})},
		{chain.CodeUnknownSubset, "DefaultSubset", resolver(chain.ServiceResolver{DefaultSubset: "v2", Subsets: v1})},
		{chain.CodeRedirectFailover, "Failover", resolver(chain.ServiceResolver{Redirect: &chain.Redirect{Service: "a"}, Failover: map[string]chain.Failover{"*": {Service: "b"}}})},
		{chain.CodeRedirectEmpty, "Redirect", resolver(chain.ServiceResolver{Redirect: &chain.Redirect{}})},
		{chain.CodeRedirectService, "Redirect", resolver(chain.ServiceResolver{Redirect: &chain.Redirect{Peer: "east"}})},
		{chain.CodePeerCombined, `Failover["*"].Targets[0].Datacenter`, failover(chain.Failover{Targets: []chain.FailoverTarget{{Peer: "east", Datacenter: "dc2"}}})},
		{chain.CodeFailoverKey, `Failover["v2"]`, resolver(chain.ServiceResolver{Failover: map[string]chain.Failover{"v2": {Service: "a"}}})},
		{chain.CodeFailoverEmpty, `Failover["*"]`, failover(chain.Failover{})},
		{chain.CodeFailoverForms, `Failover["*"]`, failover(chain.Failover{Service: "a", Targets: []chain.FailoverTarget{{Service: "b"}}})},
		{chain.CodeDatacenterEmpty, `Failover["*"].Datacenters[1]`, failover(chain.Failover{Datacenters: []string{"dc2", ""}})},
		{chain.CodeNegativeTimeout, "ConnectTimeout", resolver(chain.ServiceResolver{ConnectTimeout: -time.Second})},
		{chain.CodeBalancerPolicy, "LoadBalancer.Policy", balancer(chain.LoadBalancer{Policy: "best"})},
		{chain.CodeBalancerConfig, "LoadBalancer.HashPolicies", balancer(chain.LoadBalancer{Policy: "random", HashPolicies: []chain.HashPolicy{{SourceIP: true}}})},
		{chain.CodeHashPolicy, "LoadBalancer.HashPolicies[0].FieldValue", balancer(chain.LoadBalancer{Policy: "maglev", HashPolicies: []chain.HashPolicy{{Field: "header"}}})},
		{chain.CodeProtocol, "Protocol", defaults(chain.ServiceDefaults{Protocol: "udp"})},
		{chain.CodeDestinationUpstream, "UpstreamConfig", defaults(chain.ServiceDefaults{UpstreamConfig: &chain.UpstreamConfiguration{}, Destination: &chain.EgressDestination{Addresses: []string{"a.example"}, Port: 80}})},
		{chain.CodeDestination, "Destination.Addresses[0]", defaults(chain.ServiceDefaults{Destination: &chain.EgressDestination{Addresses: []string{"*.example"}, Port: 80}})},
		{chain.CodeUpstreamName, "UpstreamConfig.Overrides[0].Name", upstream(chain.UpstreamConfig{})},
		{chain.CodeUpstreamLimit, "UpstreamConfig.Overrides[0].Limits.MaxConnections", upstream(chain.UpstreamConfig{Name: "a", Limits: &chain.UpstreamLimits{MaxConnections: ptr(-1)}})},
		{chain.CodeConfigProtocol, "Config.protocol", proxy(chain.ProxyDefaults{Config: map[string]any{"protocol": map[string]any{}}})},
		{chain.CodeAccessLogs, "AccessLogs.Path", proxy(chain.ProxyDefaults{AccessLogs: &chain.AccessLogs{Type: "file"}})},
		{chain.CodeNameNotAllowed, "Name", &chain.Mesh{Header: head("web")}},
		{chain.CodeNoSources, "Sources", intentions()},
		{chain.CodeSourceName, "Sources[0].Name", intentions(&chain.SourceIntention{Action: chain.IntentionAllow})},
		{chain.CodeWildcard, "Sources[0].Peer", source(chain.SourceIntention{Peer: "*", Action: chain.IntentionAllow})},
		{chain.CodeSourceRepeated, "Sources[3]", intentions(&chain.SourceIntention{Name: "a", Action: chain.IntentionAllow}, nil, &chain.SourceIntention{Name: "b", Action: chain.IntentionAllow}, &chain.SourceIntention{Name: "b", Action: chain.IntentionDeny})},
		{chain.CodeIntentionAction, "Sources[0].Action", source(chain.SourceIntention{Action: "refuse"})},
		{chain.CodePermissionEmpty, "Sources[0].Permissions[0].HTTP", permission(chain.IntentionHTTP{})},
		{chain.CodePermissionsWildcard, "Sources[0].Permissions", &chain.ServiceIntentions{Header: head("*"), Sources: permission(chain.IntentionHTTP{PathPrefix: "/"}).(*chain.ServiceIntentions).Sources}},
		{chain.CodeMatchForms, "Sources[0].Permissions[0].HTTP.Header[0]", permission(chain.IntentionHTTP{Header: []chain.IntentionHeader{{Name: "h", Exact: "a", Contains: "b"}}})},
		{chain.CodeIgnoreCase, "Sources[0].Permissions[0].HTTP.Header[0].IgnoreCase", permission(chain.IntentionHTTP{Header: []chain.IntentionHeader{{Name: "h", Present: true, IgnoreCase: true}}})},
		{chain.CodePathSlash, "Sources[0].Permissions[0].HTTP.PathExact", permission(chain.IntentionHTTP{PathExact: "x"})},
		{chain.CodeDescription, "Sources[0].Description", source(chain.SourceIntention{Action: chain.IntentionAllow, Description: strings.Repeat("x", 513)})},
		{chain.CodeJWTProvider, "JWT.Providers[0]", &chain.ServiceIntentions{Header: head("web"), Sources: []*chain.SourceIntention{{Name: "a", Action: chain.IntentionAllow}}, JWT: &chain.JWTRequirement{Providers: []*chain.JWTProvider{nil}}}},
		{chain.CodeLegacyMeta, "Sources[0].LegacyMeta", source(chain.SourceIntention{Action: chain.IntentionAllow, LegacyMeta: map[string]string{"a": "b"}})},
		{chain.CodeTLSVersions, "TLS.Outgoing", mesh(chain.MeshTLSParameters{TLSMinVersion: "TLSv1_2", TLSMaxVersion: "TLSv1_1"})},
		{chain.CodeTLSCiphers, "TLS.Outgoing.CipherSuites", mesh(chain.MeshTLSParameters{TLSMinVersion: "TLSv1_3", CipherSuites: []string{"TLS_RSA_WITH_AES_128_CBC_SHA"}})},
		{chain.CodeFailoverMode, "FailoverPolicy.Mode", proxy(chain.ProxyDefaults{FailoverPolicy: &chain.FailoverPolicy{Mode: "near"}})},
	}
	for _, tt := range tests {
		t.Run(tt.code+" "+tt.field, func(t *testing.T) {
			problems := chain.Validate(tt.entry)
			if len(problems) != 1 {
				t.Fatalf("want one problem, got %+v", problems)
			}
			p := problems[0]
			if p.Code != tt.code || p.Field != tt.field || p.Message == "" {
				t.Errorf("got %+v, want %s at %s", p, tt.code, tt.field)
			}
			h := tt.entry.Head()
			if p.Entry != string(tt.entry.Kind())+"/"+h.Name || p.Origin != h.Origin {
				t.Errorf("the problem is at %q of %q", p.Origin, p.Entry)
			}
		})
	}
}

func TestValidateFindsAllAtOnce(t *testing.T) {
	e := &chain.ServiceResolver{
		Header: head("web"), DefaultSubset: "v9", ConnectTimeout: -1, RequestTimeout: -1,
		Failover: map[string]chain.Failover{"b": {}, "a": {Service: "x"}},
	}
	var got []string
	for _, p := range chain.Validate(e) {
		got = append(got, p.Code+" "+p.Field)
	}
	want := `CAT1303 DefaultSubset; CAT1312 ConnectTimeout; CAT1312 RequestTimeout; CAT1308 Failover["a"]; CAT1308 Failover["b"]; CAT1309 Failover["b"]`
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// TestCodesAreDocumented keeps docs/codes.md complete.
func TestCodesAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`CAT\d{4}`)
	documented := code.FindAllString(string(docs), -1)
	for _, file := range []string{"codes.go", "problem.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range code.FindAllString(string(source), -1) {
			if !slices.Contains(documented, c) {
				t.Errorf("docs/codes.md does not explain %s", c)
			}
		}
	}
}
