package support

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

func TestEveryFieldIsListedAndEveryRowIsAField(t *testing.T) {
	for _, kind := range chain.AllKinds() {
		used := map[string]bool{}
		for _, path := range leaves(reflect.TypeOf(chain.New(kind)).Elem(), "") {
			row, ok := find(kind, path)
			if !ok {
				t.Errorf("%s has no row for %s: add one that says what becomes of the field", kind, path)
			}
			used[row.Path] = true
		}
		seen := map[string]bool{}
		for _, row := range rows(kind) {
			if !used[row.Path] && row.Path != "Meta" {
				t.Errorf("%s has a row for %s, which no field needs", kind, row.Path)
			}
			if seen[row.Path] && row.Path != "Meta" {
				t.Errorf("%s has two rows for %s", kind, row.Path)
			}
			seen[row.Path] = true
		}
	}
}

// TestTheTableTellsTheTruth sets one field after the other, and looks at what is said of it.
func TestTheTableTellsTheTruth(t *testing.T) {
	for _, kind := range chain.AllKinds() {
		for _, f := range Fields(kind) {
			e := chain.New(kind)
			set(t, reflect.ValueOf(e).Elem(), f.Path)
			code := "CAT1004"
			if before, _, ok := strings.Cut(f.Note, ":"); ok && f.Level == Rejected {
				code = before
			}
			name := string(kind) + " " + f.Path
			if got := has(chain.Validate(e), code); got != (f.Level == Rejected) {
				t.Errorf("%s is %s, and whether %s is found is %t", name, f.Level, code, got)
			}
			if got := has(Check(e), CodeDenied); got != (f.Level == Denied) {
				t.Errorf("%s is %s, and whether %s is found is %t", name, f.Level, CodeDenied, got)
			}
			if got := has(Check(e), CodeIgnored); got != (f.Level == Ignored) {
				t.Errorf("%s is %s, and whether %s is found is %t", name, f.Level, CodeIgnored, got)
			}
		}
	}
}

func has(problems []chain.Problem, code string) bool {
	return slices.ContainsFunc(problems, func(p chain.Problem) bool { return p.Code == code })
}

// set gives the value at a path some content.
func set(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	name, rest, _ := strings.Cut(path, ".")
	plain := strings.TrimRight(name, "[]{}")
	f := v.FieldByName(plain)
	switch {
	case strings.HasSuffix(name, "[]"):
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		f = f.Index(0)
	case strings.HasSuffix(name, "{}"):
		item := reflect.New(f.Type().Elem()).Elem()
		set(t, item, rest)
		f.Set(reflect.MakeMap(f.Type()))
		f.SetMapIndex(reflect.ValueOf("v1"), item)
		return
	}
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.New(f.Type().Elem()))
		f = f.Elem()
	}
	if rest != "" {
		set(t, f, rest)
		return
	}
	fill(t, f)
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(time.Second))
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Elem().Kind() == reflect.String {
			v.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf("x"))
		}
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

func TestWarningsSayWhere(t *testing.T) {
	e := &chain.ServiceDefaults{
		Header:           chain.Header{Name: "web", Origin: "web.hcl:3"},
		TransparentProxy: &chain.TransparentProxy{OutboundListenerPort: 15001}, Mode: "transparent",
		UpstreamConfig: &chain.UpstreamConfiguration{Overrides: []*chain.UpstreamConfig{
			nil, {Name: "api", Peer: "p"},
		}},
	}
	got := Check(e)
	if len(got) != 3 || got[0].String() != "web.hcl:3: service-defaults/web: Mode: has no effect here: sidecars are not configured by it yet (CAT1601)" ||
		got[2].Field != "UpstreamConfig.Overrides[1].Peer" || got[2].Severity != chain.SeverityWarning {
		t.Errorf("%v", got)
	}
	if got := Check(&chain.ServiceResolver{Failover: map[string]chain.Failover{"b": {}, "a": {}}}); got != nil {
		t.Errorf("%v", got)
	}
}
