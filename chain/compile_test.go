package chain_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/catenary-mesh/catenary/chain"
)

// TestCustomizationHash has the hashes that Consul 1.22.5 printed.
func TestCustomizationHash(t *testing.T) {
	http := &chain.ServiceDefaults{Header: head("web"), Protocol: "http"}
	tests := []struct {
		name      string
		overrides chain.Overrides
		entry     chain.Entry
		want      string
	}{
		{"none", chain.Overrides{}, nil, ""},
		{"connect timeout", chain.Overrides{ConnectTimeout: 3 * time.Second}, nil, "db31938f"},
		{"connect timeout as it is", chain.Overrides{ConnectTimeout: 5 * time.Second}, nil, ""},
		{"negative connect timeout", chain.Overrides{ConnectTimeout: -time.Second}, nil, ""},
		{"protocol", chain.Overrides{Protocol: "grpc"}, nil, "ef15b5b5"},
		{"protocol as it is", chain.Overrides{Protocol: "tcp"}, nil, ""},
		{"protocol that strips", chain.Overrides{Protocol: "tcp"}, http, "96f2c150"},
		{"mesh gateway", chain.Overrides{MeshGateway: chain.MeshGatewayLocal}, nil, "c225dc1c"},
		{"all", chain.Overrides{MeshGateway: chain.MeshGatewayLocal, Protocol: "http", ConnectTimeout: 7 * time.Second}, nil, "5379effb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries := &chain.EntrySet{}
			if tt.entry != nil {
				entries.Put(tt.entry)
				entries.Put(&chain.ServiceRouter{Header: head("web")})
			}
			c, problems := chain.Compile(chain.Request{Service: "web", Overrides: tt.overrides}, entries)
			if c == nil || c.CustomizationHash != tt.want {
				t.Errorf("got %+v %+v, want the hash %q", c, problems, tt.want)
			}
		})
	}
}

// TestChainsRoundTrip reads the chain of every scenario back.
func TestChainsRoundTrip(t *testing.T) {
	files, _ := filepath.Glob("testdata/scenario/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := section(archive, "chain.json")
		if want == nil {
			continue
		}
		var c chain.Chain
		if err := json.Unmarshal(want, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := indent(t, c); !bytes.Equal(got, want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", file, got, want)
		}
	}
}

func TestDurationsAreReadAsTextAndAsNumbers(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{"RequestTimeout":"3s"}`: 3 * time.Second,
		`{"RequestTimeout":5}`:    5,
		`{"RequestTimeout":""}`:   0,
		`{}`:                      0,
	} {
		var d chain.RouteDestination
		if err := json.Unmarshal([]byte(text), &d); err != nil || d.RequestTimeout != want {
			t.Errorf("%s: got %v, %v", text, d.RequestTimeout, err)
		}
	}
	var d chain.RouteDestination
	if err := json.Unmarshal([]byte(`{"IdleTimeout":"soon"}`), &d); err == nil {
		t.Error(`"soon" was read as a duration`)
	}
}

// recorder remembers what was looked up.
type recorder struct {
	chain.Entries
	seen []string
}

func (r *recorder) Entry(kind chain.Kind, name string) chain.Entry {
	r.seen = append(r.seen, string(kind)+"/"+name)
	return r.Entries.Entry(kind, name)
}

func TestCompileLooksUpOnlyWhatTakesPart(t *testing.T) {
	entries := chain.NewEntrySet(
		&chain.ServiceResolver{Header: head("web"), Redirect: &chain.Redirect{Service: "api"}},
		&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 100, Service: "never"}}},
		&chain.ServiceResolver{Header: head("never")},
	)
	r := &recorder{Entries: entries}
	if c, problems := chain.Compile(chain.Request{Service: "web"}, r); c == nil {
		t.Fatal(problems)
	}
	want := []string{
		"proxy-defaults/global",
		"service-defaults/api", "service-defaults/web",
		"service-resolver/api", "service-resolver/web",
		"service-router/web", "service-splitter/web",
	}
	slices.Sort(r.seen)
	if !slices.Equal(slices.Compact(slices.Clone(r.seen)), want) || len(r.seen) != len(want) {
		t.Errorf("looked up %q, want each of %q once", r.seen, want)
	}
}

func TestCompileWithoutEntries(t *testing.T) {
	for name, entries := range map[string]chain.Entries{
		"nil":           nil,
		"typed nil":     (*typedNils)(nil),
		"another type":  wrongTypes{},
		"empty":         &chain.EntrySet{},
		"empty entries": chain.NewEntrySet(&chain.ServiceDefaults{Header: head("web")}),
	} {
		c, problems := chain.Compile(chain.Request{Service: "web"}, entries)
		if c == nil || !c.Default || c.Protocol != "tcp" || c.Datacenter != "dc1" {
			t.Errorf("%s: got %+v %+v", name, c, problems)
		}
	}
}

type typedNils struct{}

func (*typedNils) Entry(kind chain.Kind, _ string) chain.Entry {
	switch kind {
	case chain.KindServiceRouter:
		return (*chain.ServiceRouter)(nil)
	case chain.KindServiceSplitter:
		return (*chain.ServiceSplitter)(nil)
	case chain.KindServiceResolver:
		return (*chain.ServiceResolver)(nil)
	case chain.KindServiceDefaults:
		return (*chain.ServiceDefaults)(nil)
	case chain.KindProxyDefaults:
		return (*chain.ProxyDefaults)(nil)
	default:
		return nil
	}
}

type wrongTypes struct{}

func (wrongTypes) Entry(chain.Kind, string) chain.Entry { return &misfit{} }

type misfit struct{ chain.Header }

func (*misfit) Kind() chain.Kind { return "misfit" }

func http() chain.Entry {
	return &chain.ProxyDefaults{Header: head(chain.GlobalName), Config: map[string]any{"protocol": "http"}}
}

// TestCompileLeavesEntriesAlone compiles one set of entries twice.
func TestCompileLeavesEntriesAlone(t *testing.T) {
	files, _ := filepath.Glob("testdata/scenario/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		entries := decodeEntries(t, section(archive, "entries.json"))
		fresh := decodeEntries(t, section(archive, "entries.json"))
		req := decodeRequest(t, section(archive, "request.json"))
		first, _ := chain.Compile(req, entries)
		if !reflect.DeepEqual(entries, fresh) {
			t.Errorf("%s: entries were changed", file)
		}
		if second, _ := chain.Compile(req, entries); !reflect.DeepEqual(first, second) {
			t.Errorf("%s: two compilations differ", file)
		}
	}
}

// listed is entries in an order, as a database without an index might hold them.
type listed []chain.Entry

func (l listed) Entry(kind chain.Kind, name string) chain.Entry {
	for _, e := range l {
		if e.Kind() == kind && strings.EqualFold(e.Head().Name, name) {
			return e
		}
	}
	return nil
}

func TestTheOrderOfEntriesChangesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	files, _ := filepath.Glob("testdata/scenario/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var raws []json.RawMessage
		if err := json.Unmarshal(section(archive, "entries.json"), &raws); err != nil {
			t.Fatal(err)
		}
		var entries listed
		for _, raw := range raws {
			e, err := chain.UnmarshalEntry(raw)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		req := decodeRequest(t, section(archive, "request.json"))
		want, wantProblems := chain.Compile(req, entries)
		for range 10 {
			random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
			for _, shuffled := range []chain.Entries{entries, chain.NewEntrySet(entries...)} {
				got, problems := chain.Compile(req, shuffled)
				if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(problems, wantProblems) {
					t.Fatalf("%s: got %+v %+v, want %+v %+v", file, got, problems, want, wantProblems)
				}
			}
		}
	}
}

func TestNormalize(t *testing.T) {
	router := &chain.ServiceRouter{Header: head("web"), Routes: []chain.ServiceRoute{
		{}, {Match: &chain.RouteMatch{HTTP: &chain.HTTPMatch{Methods: []string{"get", "Put"}}}},
	}}
	normal := chain.Normalize(router).(*chain.ServiceRouter)
	if got := strings.Join(normal.Routes[1].Match.HTTP.Methods, " "); got != "GET PUT" {
		t.Errorf("methods: %s", got)
	}
	if got := router.Routes[1].Match.HTTP.Methods[0]; got != "get" {
		t.Errorf("the entry given was changed: %s", got)
	}
	splitter := chain.Normalize(&chain.ServiceSplitter{Splits: []chain.ServiceSplit{{Weight: 33.336}, {Weight: 33.333}}}).(*chain.ServiceSplitter)
	if splitter.Splits[0].Weight != 33.34 || splitter.Splits[1].Weight != 33.33 {
		t.Errorf("weights: %+v", splitter.Splits)
	}
	defaults := chain.Normalize(&chain.ServiceDefaults{Protocol: "HTTP2", UpstreamConfig: &chain.UpstreamConfiguration{
		Defaults: &chain.UpstreamConfig{Protocol: "GRPC"}, Overrides: []*chain.UpstreamConfig{{Protocol: "Http"}, nil},
	}}).(*chain.ServiceDefaults)
	if defaults.Protocol != "http2" || defaults.UpstreamConfig.Defaults.Protocol != "grpc" || defaults.UpstreamConfig.Overrides[0].Protocol != "http" {
		t.Errorf("protocols: %+v", defaults)
	}
	if got := chain.Normalize(&chain.ProxyDefaults{}).Head().Name; got != chain.GlobalName {
		t.Errorf("the name of proxy-defaults: %q", got)
	}
	if same := (&chain.ServiceResolver{}); chain.Normalize(same) != chain.Entry(same) {
		t.Error("a resolver was copied")
	}
}
