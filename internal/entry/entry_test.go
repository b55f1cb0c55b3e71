package entry_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

// one decodes a file that holds one entry and nothing wrong.
func one(t *testing.T, name, src string) chain.Entry {
	t.Helper()
	f := entry.Decode(name, []byte(src))
	if len(f.Problems) != 0 || len(f.Entries) != 1 {
		t.Fatalf("%d entries, problems %v", len(f.Entries), f.Problems)
	}
	return f.Entries[0]
}

// equal compares entries but for where they were read.
func equal(t *testing.T, want, got chain.Entry) {
	t.Helper()
	got.Head().Origin = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func router() *chain.ServiceRouter {
	return &chain.ServiceRouter{
		Header: chain.Header{Name: "web", Meta: map[string]string{"Owner_Team": "shop", "on": "1", "size": "1.5"}},
		Routes: []chain.ServiceRoute{{
			Match: &chain.RouteMatch{HTTP: &chain.HTTPMatch{
				PathPrefix: "/v2", Methods: []string{"GET"},
				Header: []chain.HeaderMatch{{Name: "x-canary", Present: true}},
			}},
			Destination: &chain.RouteDestination{
				Service: "api", ServiceSubset: "v2", RequestTimeout: 3 * time.Second, IdleTimeout: 5,
				NumRetries: 2, RetryOnStatusCodes: []uint32{503},
				RequestHeaders: &chain.HeaderModifiers{Add: map[string]string{"X_Seen": "1"}, Remove: []string{"cookie"}},
			},
		}},
	}
}

func TestAnEntryIsTheSameInEveryLanguageAndSpelling(t *testing.T) {
	for name, src := range map[string]string{
		"camel.hcl": `
Kind = "service-router"
Name = "web"
Meta = { Owner_Team = "shop", on = true, size = 1.50 }
Routes = [
  {
    Match = { HTTP = { PathPrefix = "/v2", Methods = ["GET"], Header = [{ Name = "x-canary", Present = true }] } }
    Destination = {
      Service = "api", ServiceSubset = "v2", RequestTimeout = "3s", IdleTimeout = 5, NumRetries = 2,
      RetryOnStatusCodes = [503], RequestHeaders = { Add = { X_Seen = "1" }, Remove = ["cookie"] }
    }
  },
]`,
		"snake.hcl": `
kind = "service-router"
name = "web"
meta { Owner_Team = "shop" on = true size = 1.5 }
routes {
  match { http { path_prefix = "/v2" methods = "get" header { name = "x-canary" present = "true" } } }
  destination {
    service = "api"
    service_subset = "v2"
    request_timeout = 3000000000
    idle_timeout = "5ns"
    num_retries = "2"
    retry_on_status_codes = "0x1f7"
    request_headers { add { X_Seen = 1 } remove = "cookie" }
  }
}`,
		"a.json": `{"KIND": "service-router", "NAME": "web", "CreateIndex": 7,
	"Meta": {"Owner_Team": "shop", "on": true, "size": 1.50},
	"Routes": {"Match": {"HTTP": {"PathPrefix": "/v2", "Methods": ["get"], "Header": {"Name": "x-canary", "Present": 1}}},
	"Destination": {"Service": "api", "service_subset": "v2", "RequestTimeout": "3s", "IdleTimeout": 5.0, "NumRetries": 2,
	"RetryOnStatusCodes": ["503"], "RequestHeaders": {"Add": {"X_Seen": true}, "Remove": ["cookie"], "Set": null}}}}`,
		"json.hcl": `{"Kind": "service-router", "Name": "web", "Meta": {"Owner_Team": "shop", "on": "1", "size": "1.5"},
	"Routes": [{"Match": {"HTTP": {"PathPrefix": "/v2", "Methods": ["GET"], "Header": [{"Name": "x-canary", "Present": true}]}},
	"Destination": {"Service": "api", "ServiceSubset": "v2", "RequestTimeout": "3s", "IdleTimeout": 5, "NumRetries": 2,
	"RetryOnStatusCodes": [503], "RequestHeaders": {"Add": {"X_Seen": "1"}, "Remove": ["cookie"]}}}]}`,
		"a.yaml": `
Kind: service-router
Name: web
Meta: {Owner_Team: shop, on: true, size: 1.5}
Routes:
- Match:
    HTTP:
      PathPrefix: /v2
      Methods: [GET]
      Header:
      - Name: x-canary
        Present: true
  Destination:
    Service: api
    ServiceSubset: v2
    RequestTimeout: 3s
    IdleTimeout: 5
    NumRetries: 2
    RetryOnStatusCodes: [503]
    RequestHeaders: {Add: {X_Seen: "1"}, Remove: [cookie]}
`,
	} {
		t.Run(name, func(t *testing.T) { equal(t, router(), one(t, name, src)) })
	}
}

func TestBlocksAndListsOfOneAreWhatConsulMakesOfThem(t *testing.T) {
	// What Consul 1.22.5 answered after `consul config write` of these.
	for _, test := range []struct {
		name, src string
		want      map[string]any
	}{
		{"a.hcl", `Kind = "proxy-defaults" Config { a { b = 1 } l = [{ c = 1 }] two = [{ c = 1 }, { c = 2 }]
			rep { x = 1 } rep { y = 2 } s = ["a"] e = [] em = {} n { m { o = [{ p = { q = 1.5 } }] } }
			bool = true neg = -3 f = 1e3 hex = 0x10 hd = <<X
hello
X
}`, map[string]any{
			"a": map[string]any{"b": int64(1)}, "l": map[string]any{"c": int64(1)},
			"two": []any{map[string]any{"c": int64(1)}, map[string]any{"c": int64(2)}},
			"rep": []any{map[string]any{"x": int64(1)}, map[string]any{"y": int64(2)}},
			"s":   "a", "e": []any{}, "em": map[string]any{},
			"n":    map[string]any{"m": map[string]any{"o": map[string]any{"p": map[string]any{"q": 1.5}}}},
			"bool": true, "neg": int64(-3), "f": int64(1000), "hex": int64(16), "hd": "hello\n",
		}},
		{
			"a.json", `{"Kind": "proxy-defaults", "Config": {"l": [{"c": 1}], "ll": [[{"x": 1}]], "n": null, "u": "\ud83d\ude00"}}`,
			map[string]any{"l": map[string]any{"c": int64(1)}, "ll": map[string]any{"x": int64(1)}, "n": nil, "u": "😀"},
		},
	} {
		got := one(t, test.name, test.src).(*chain.ProxyDefaults)
		if diff := cmp.Diff(test.want, got.Config); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", test.name, diff)
		}
		if got.Name != "global" {
			t.Errorf("the name is %q", got.Name)
		}
	}
}

func TestBlocksWithLabelsAreMaps(t *testing.T) {
	want := &chain.ServiceResolver{
		Header:  chain.Header{Name: "api"},
		Subsets: map[string]chain.Subset{"v1": {Filter: "Service.Meta.v == 1"}, "v2": {OnlyPassing: true}},
	}
	equal(t, want, one(t, "a.hcl", `Kind = "service-resolver" Name = "api"
		Subsets "v1" { Filter = "Service.Meta.v == 1" } Subsets "v2" { OnlyPassing = 2 }`))
	equal(t, want, one(t, "a.hcl", `Kind = "service-resolver" Name = "api"
		Subsets { v1 { Filter = "Service.Meta.v == 1" } v2 { only_passing = true } }`))
}

func TestFieldsHaveASnakeCaseAlias(t *testing.T) {
	for key, src := range map[string]string{
		"ExternalSNI":             `Kind = "service-defaults" Name = "a" external_sni = "x"`,
		"MutualTLSMode":           `Kind = "service-defaults" Name = "a" mutual_tls_mode = "strict"`,
		"EnvoyListenerJSON":       `Kind = "service-defaults" Name = "a" upstream_config { defaults { envoy_listener_json = "{}" } }`,
		"EnforcingConsecutive5xx": `Kind = "service-defaults" Name = "a" upstream_config { defaults { passive_health_check { enforcing_consecutive_5xx = 3 } } }`,
		"SourceIP":                `Kind = "service-resolver" Name = "a" load_balancer { policy = "maglev" hash_policies { source_ip = true } }`,
		"JSONFormat":              `Kind = "proxy-defaults" access_logs { enabled = true json_format = "{}" }`,
	} {
		t.Run(key, func(t *testing.T) { one(t, "a.hcl", src) })
	}
}

func TestSomeFieldsHaveNoAlias(t *testing.T) {
	for key, src := range map[string]string{
		"MaxRequestHeadersKB": `Kind = "service-defaults" Name = "a" max_request_headers_kb = 3`,
		"ConsulVersion":       `Kind = "proxy-defaults" envoy_extensions { consul_version = "1" }`,
		"EnvoyVersion":        `Kind = "proxy-defaults" envoy_extensions { envoy_version = "1" }`,
		"SamenessGroup":       `Kind = "service-resolver" Name = "a" redirect { sameness_group = "a" }`,
	} {
		t.Run(key, func(t *testing.T) {
			problems := entry.Decode("a.hcl", []byte(src)).Problems
			if len(problems) != 1 || problems[0].Code != entry.CodeUnknownKey || !strings.Contains(problems[0].Message, key) {
				t.Errorf("want one unknown key, and its name told, got %v", problems)
			}
		})
	}
}

func TestAFileHoldsSeveralEntries(t *testing.T) {
	for name, src := range map[string]string{
		"a.json": `[{"Kind": "service-defaults", "Name": "a"}, {"Kind": "service-defaults", "Name": "b"}]`,
		"a.yaml": "Kind: service-defaults\nName: a\n---\n---\nkind: service-defaults\nname: b\n",
		"b.yml":  "- Kind: service-defaults\n  Name: a\n- Kind: service-defaults\n  Name: b\n",
		"a.hcl": `config_entries { bootstrap = [
			{ kind = "service-defaults", name = "a" }, { kind = "service-defaults", name = "b" }] }`,
		"b.hcl": `config_entries { bootstrap { kind = "service-defaults" name = "a" }
			bootstrap { kind = "service-defaults" name = "b" } }`,
	} {
		f := entry.Decode(name, []byte(src))
		if len(f.Problems) != 0 || len(f.Entries) != 2 || f.Entries[1].Head().Name != "b" {
			t.Errorf("%s: %d entries, %v", name, len(f.Entries), f.Problems)
		}
	}
}

func TestStandardInputIsRecognised(t *testing.T) {
	for language, src := range map[string]string{
		"hcl":      "# comment: here\nKind = \"service-defaults\"\nName = \"a\"\n",
		"json":     " {\"Kind\": \"service-defaults\", \"Name\": \"a\"}",
		"json bom": "\xef\xbb\xbf{\"Kind\": \"service-defaults\", \"Name\": \"a\"}",
		"yaml":     "# x = 1\nKind: service-defaults\nName: a\n",
		"yaml doc": "---\nKind: service-defaults\nName: a\n",
	} {
		t.Run(language, func(t *testing.T) { one(t, "-", src) })
	}
}

func TestKindsThatNothingUsesAreIgnoredWithAWarning(t *testing.T) {
	for _, kind := range []string{
		"exported-services", "ingress-gateway", "terminating-gateway", "api-gateway",
		"http-route", "tcp-route", "inline-certificate", "file-system-certificate", "jwt-provider", "sameness-group",
		"control-plane-request-limit", "bound-api-gateway",
	} {
		f := entry.Decode("a.yaml", []byte("Kind: "+kind+"\nName: x\nWhatever: {a: [1]}\n"))
		if len(f.Entries) != 0 || len(f.Problems) != 1 || f.Problems[0].Severity != chain.SeverityWarning ||
			f.Problems[0].Code != entry.CodeIgnoredKind || f.Problems[0].Entry != kind+"/x" {
			t.Errorf("%s: %v", kind, f.Problems)
		}
	}
}

func TestConsulItselfMayKnowMore(t *testing.T) {
	e, problems := entry.DecodeJSON([]byte(`{"Kind": "service-resolver", "Name": "api", "Novelty": {"a": 1},
		"Subsets": {"v1": {"Filter": "not a ( filter"}}, "ConnectTimeout": "3s", "ModifyIndex": 12, "Hash": 99}`))
	want := &chain.ServiceResolver{
		Header:         chain.Header{Name: "api", ModifyIndex: 12, Origin: "consul"},
		Subsets:        map[string]chain.Subset{"v1": {Filter: "not a ( filter"}},
		ConnectTimeout: 3 * time.Second,
	}
	if diff := cmp.Diff(chain.Entry(want), e); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if len(problems) != 1 || problems[0].Severity != chain.SeverityWarning || problems[0].Field != "Novelty" {
		t.Errorf("problems: %v", problems)
	}
	e, _ = entry.DecodeJSON([]byte(`{"Kind": "proxy-defaults", "Name": "global", "Config": {"l": [{"x": 1}]}}`))
	if got := e.(*chain.ProxyDefaults).Config["l"]; !reflect.DeepEqual(got, []any{map[string]any{"x": int64(1)}}) {
		t.Errorf("a list of one that Consul kept became %v", got)
	}
	for _, bad := range []string{``, `null`, `7`, `[]`, `{}`, `{"Kind": "http-route"}`, `{"Kind": 3}`, `{"Kind": "service-router"} {}`, `{"Name": `} {
		if e, problems := entry.DecodeJSON([]byte(bad)); e != nil || len(problems) == 0 {
			t.Errorf("%s: %v, %v", bad, e, problems)
		}
	}
}

func TestEntriesKnowWhereTheyWereRead(t *testing.T) {
	f := entry.Decode("dir/shop.yaml", []byte("# shop\nKind: service-defaults\nName: a\n---\n\nKind: service-defaults\nName: b\n"))
	var got []string
	for _, e := range f.Entries {
		got = append(got, e.Head().Origin)
	}
	if strings.Join(got, " ") != "dir/shop.yaml:2 dir/shop.yaml:6" {
		t.Errorf("%v, %v", got, f.Problems)
	}
}
