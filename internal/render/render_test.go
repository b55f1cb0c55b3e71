package render

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

func TestTableAlignsItsColumns(t *testing.T) {
	var out strings.Builder
	err := Table(&out, []string{"Proxy", "State", "Error"}, [][]string{
		{"web-1", "SYNCED"},
		{"a-rather-long-id", "NACKED", "bad\n\tcluster \x1b[31m"},
		{"größe", "", "x"},
		{"b", "SYNCED", "", "more than the header"},
	})
	want := `
PROXY              STATE    ERROR
web-1              SYNCED
a-rather-long-id   NACKED   bad  cluster  [31m
größe                       x
b                  SYNCED
`
	if err != nil || out.String() != want[1:] {
		t.Errorf("%v\n%q\n%q", err, out.String(), want[1:])
	}
}

func TestTableWithoutRowsIsItsHeader(t *testing.T) {
	var out strings.Builder
	if err := Table(&out, []string{"id", "age"}, nil); err != nil || out.String() != "ID   AGE\n" {
		t.Errorf("%v %q", err, out.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrorsAreReturned(t *testing.T) {
	for name, err := range map[string]error{
		"table": Table(broken{}, []string{"a"}, nil),
		"json":  JSON(broken{}, 1),
		"yaml":  YAML(broken{}, 1),
	} {
		if err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type inner struct {
	Filter string
	Empty  string `json:",omitempty"`
}

type sample struct {
	Name  string `json:"service_name"`
	Text  string
	Inner *inner
	Nil   *inner
	List  []int
	None  []string
	Map   map[string]any
}

func newSample() sample {
	return sample{
		Name: "web", Text: "two\nlines", Inner: &inner{Filter: `Service.Meta.v == "2" && a < b`},
		List: []int{1, 2}, None: []string{}, Map: map[string]any{"b": 1.5, "a": true},
	}
}

func TestJSON(t *testing.T) {
	var out strings.Builder
	err := JSON(&out, newSample())
	want := `
{
    "service_name": "web",
    "Text": "two\nlines",
    "Inner": {
        "Filter": "Service.Meta.v == \"2\" && a < b"
    },
    "Nil": null,
    "List": [
        1,
        2
    ],
    "None": [],
    "Map": {
        "a": true,
        "b": 1.5
    }
}
`
	if err != nil || out.String() != want[1:] {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestYAML(t *testing.T) {
	var out strings.Builder
	err := YAML(&out, newSample())
	want := `
service_name: web
Text: |-
  two
  lines
Inner:
  Filter: Service.Meta.v == "2" && a < b
Nil: null
List:
  - 1
  - 2
None: []
Map:
  a: true
  b: 1.5
`
	if err != nil || out.String() != want[1:] {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestYAMLKeepsTypes(t *testing.T) {
	for _, v := range []any{
		"no", "yes", "On", "y", "true", "null", "~", "", " ", "1", "0x1f", "012", "1e3", "1:30", "12:34:56", ".inf",
		"2024-01-01", "- a", "a: b", "# c", "a #b", "!x", "&x", "*x", "{", "[", "%", "@", "`", "'", `"`, `\`, "|", ">",
		"\u2028\u0085\t", "é😀", "trailing\n", "\nleading", "  indented\nlines", "<<", "=", "\u0000\u001b", "\ufeff",
		1, -1, math.MaxInt64, uint64(math.MaxUint64), 1e21, 1e-7, 0.1, true, false, nil,
		map[string]any{},
		[]any{},
		map[string]any{"": 1, "no": 2, "1": 3, "a b": 4, "<<": 5},
		[]any{[]any{[]any{}}},
	} {
		var out strings.Builder
		if err := YAML(&out, v); err != nil {
			t.Errorf("%#v: %v", v, err)
			continue
		}
		var back any
		if err := yaml.Unmarshal([]byte(out.String()), &back); err != nil {
			t.Errorf("%#v: %v in %q", v, err, out.String())
			continue
		}
		if got, want := asJSON(t, back), asJSON(t, v); got != want {
			t.Errorf("%s became %s by %q", want, got, out.String())
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%#v: %v", v, err)
	}
	return string(text)
}

func TestFormatIsAFlag(t *testing.T) {
	f := NewFormat(FormatTable, FormatJSON, FormatYAML)
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.VarP(f, "output", "o", "the form of the output")
	if f.String() != FormatTable {
		t.Errorf("the default is %q", f)
	}
	if usage := flags.FlagUsages(); !strings.Contains(usage, "-o, --output table|json|yaml") {
		t.Errorf("the usage does not list the forms: %s", usage)
	}
	if err := flags.Parse([]string{"-o", "yaml"}); err != nil || f.String() != FormatYAML {
		t.Errorf("%v, %q", err, f)
	}
	err := flags.Parse([]string{"-o", "xml"})
	if err == nil || !strings.Contains(err.Error(), "must be one of: table, json, yaml") || f.String() != FormatYAML {
		t.Errorf("%v, %q", err, f)
	}
	if got := f.Allowed(); !reflect.DeepEqual(got, []string{"table", "json", "yaml"}) {
		t.Errorf("allowed %q", got)
	}
}
