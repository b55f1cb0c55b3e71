package entry_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
)

func TestWhatIsWrongIsSaidWithItsPlace(t *testing.T) {
	const splitter = "Kind = \"service-splitter\"\nName = \"api\"\n"
	const resolver = "Kind: service-resolver\nName: api\n"
	for _, test := range []struct {
		name, file, src string
		// want begins with the origin, and is in the text of the only problem.
		origin, code, entry, field, text string
	}{
		{
			"a key that is not known", "a.hcl", splitter + "Splits = [\n  { Weight = 100, ServiceSubst = \"v1\" },\n]",
			"a.hcl:4", entry.CodeUnknownKey, "service-splitter/api", "Splits[0].ServiceSubst", "did you mean ServiceSubset?",
		},
		{
			"a key with an underscore too many", "a.yaml", resolver + "default__subset: v1\n",
			"a.yaml:3", entry.CodeUnknownKey, "service-resolver/api", "default__subset", "did you mean DefaultSubset?",
		},
		{
			"a key within a user's map", "a.hcl", "Kind = \"service-resolver\"\nName = \"api\"\nSubsets = {\n  v1 = {\n    Fliter = \"x == y\"\n  }\n}",
			"a.hcl:5", entry.CodeUnknownKey, "service-resolver/api", `Subsets["v1"].Fliter`, "did you mean Filter?",
		},
		{
			"a key in two spellings", "a.yaml", resolver + "ConnectTimeout: 3s\nconnect_timeout: 4s\n",
			"a.yaml:4", entry.CodeTwice, "service-resolver/api", "connect_timeout", "first in line 3",
		},
		{
			"a key twice in JSON", "a.json", "{\"Kind\": \"proxy-defaults\", \"Name\": \"global\",\n\"Config\": {\"a\": {\"b\": 1,\n\"b\": 2}}}",
			"a.json:3", entry.CodeTwice, "proxy-defaults/global", `Config["a"]["b"]`, "first in line 2",
		},
		{
			"an object twice", "a.hcl", "Kind = \"service-resolver\"\nName = \"api\"\nRedirect { Service = \"b\" }\nRedirect { Datacenter = \"dc2\" }",
			"a.hcl:3", entry.CodeType, "service-resolver/api", "Redirect", "must be a map, and is a list",
		},
		{
			"text for a number", "a.yaml", "Kind: service-defaults\nName: api\nMaxInboundConnections:\n  many\n",
			"a.yaml:4", entry.CodeType, "service-defaults/api", "MaxInboundConnections", "a whole number, and is a string (many)",
		},
		{
			"a negative count", "a.json", `{"Kind": "service-router", "Name": "api", "Routes": [{"Destination": {"NumRetries": -1}}]}`,
			"a.json:1", entry.CodeType, "service-router/api", "Routes[0].Destination.NumRetries", "a whole number from 0",
		},
		{
			"a duration without a unit", "a.yaml", resolver + "ConnectTimeout: \"5\"\n",
			"a.yaml:3", entry.CodeType, "service-resolver/api", "ConnectTimeout", `such as "3s"`,
		},
		{
			"not a boolean", "a.yaml", resolver + "Subsets: {v1: {OnlyPassing: maybe}}\n",
			"a.yaml:3", entry.CodeType, "service-resolver/api", `Subsets["v1"].OnlyPassing`, "true or false",
		},
		{
			"a namespace", "a.yaml", resolver + "Namespace: default\n",
			"a.yaml:3", chain.CodeEnterprise, "service-resolver/api", "Namespace", "Enterprise",
		},
		{
			"a kind that is not known", "a.yaml", "Kind: service-resolve\nName: api\n",
			"a.yaml:1", entry.CodeKind, "service-resolve/api", "Kind", "service-resolver",
		},
		{"no kind", "a.yaml", "Name: api\n", "a.yaml:1", entry.CodeNeither, "", "", "Kind"},
		{"no object", "a.json", "[\n7]", "a.json:2", entry.CodeNeither, "", "", "Kind"},
		{"an agent's setting", "a.hcl", "service { name = \"a\" }\nnode_name = \"x\"", "a.hcl:2", entry.CodeUnknownKey, "", "node_name", "do not belong here"},
		{"an empty file", "a.hcl", " \n", "a.hcl:1", entry.CodeEmpty, "", "", "empty"},
		{"no text", "a.hcl", "\xff\xfe", "a.hcl:1", entry.CodeSyntax, "", "", "UTF-8"},
		{"broken HCL", "a.hcl", "Kind = \"mesh\"\nName = \n", "a.hcl:3", entry.CodeSyntax, "", "", "not HCL"},
		{"a number out of range", "a.hcl", "Kind = \"mesh\"\nName = 1e999", "a.hcl:2", entry.CodeSyntax, "", "", "1e999"},
		{"an escape that is no text", "a.hcl", "Kind = \"mesh\"\nName = \"a\\xff\"", "a.hcl:2", entry.CodeSyntax, "", "", "UTF-8"},
		{"an escape in a key that is no text", "a.hcl", "Kind = \"mesh\"\n\"\\xff\" = 1", "a.hcl:2", entry.CodeSyntax, "", "", "UTF-8"},
		{"broken JSON", "a.json", "{\"Kind\": \"mesh\",\n\"Name\": }", "a.json:2", entry.CodeSyntax, "", "", "not JSON"},
		{"JSON that ends", "a.json", "{\"Kind\": \"mesh\",\n", "a.json:2", entry.CodeSyntax, "", "", "ends too early"},
		{"broken YAML", "a.yaml", "Kind: mesh\nName: [a\n", "a.yaml:1", entry.CodeSyntax, "", "", "not YAML"},
		{"an alias", "a.yaml", "Kind: &a mesh\nName: *a\n", "a.yaml:2", entry.CodeSyntax, "", "", "aliases"},
		{"infinity", "a.yaml", "Kind: proxy-defaults\nConfig: {a: .inf}\n", "a.yaml:2", entry.CodeSyntax, "", "", "not a number"},
		{"deep HCL", "a.hcl", "a = " + strings.Repeat("[", 1<<20), "a.hcl:1", entry.CodeSyntax, "", "", "deeper"},
		{"deep JSON", "a.json", strings.Repeat("[", 1<<20), "a.json:1", entry.CodeSyntax, "", "", "deeper"},
		{"deep YAML", "a.yaml", strings.Repeat("[", 500) + strings.Repeat("]", 500), "a.yaml:1", entry.CodeSyntax, "", "", "deeper"},
		{
			"an entry that is not valid", "a.yaml", resolver + "Subsets:\n  v1:\n    OnlyPassing: true\n    Filter: \"( what\"\n",
			"a.yaml:6", chain.CodeFilter, "service-resolver/api", `Subsets["v1"].Filter`, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := entry.Decode(test.file, []byte(test.src))
			if len(f.Problems) != 1 || len(f.Entries) != 0 {
				t.Fatalf("entries %v, problems %v", f.Entries, f.Problems)
			}
			p := f.Problems[0]
			if p.Origin != test.origin || p.Code != test.code || p.Entry != test.entry || p.Field != test.field ||
				p.Severity != chain.SeverityError || !strings.Contains(p.Message, test.text) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestOneMistakeDoesNotHideAnother(t *testing.T) {
	f := entry.Decode("a.yaml", []byte("Kind: service-defaults\nName: a\nProtocl: http\nMaxInboundConnections: x\n---\nKind: service-defaults\nName: b\n"))
	if len(f.Problems) != 2 || len(f.Entries) != 1 || f.Entries[0].Head().Name != "b" {
		t.Errorf("entries %v, problems %v", f.Entries, f.Problems)
	}
}
