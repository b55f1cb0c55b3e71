package explain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
)

func route(m chain.HTTPMatch, rewrite string) *chain.ServiceRoute {
	return &chain.ServiceRoute{
		Match: &chain.RouteMatch{HTTP: &m}, Destination: &chain.RouteDestination{PrefixRewrite: rewrite},
	}
}

// The rules are those that a real Envoy follows: test/integration holds the same kinds of matches against one.
func TestWhyARouteRefuses(t *testing.T) {
	get := explain.Request{
		Method: "GET", Host: "shop", Path: "/Cart/1",
		Headers: []explain.Pair{{Name: "X-Team", Value: "a"}, {Name: "x-team", Value: "b"}, {Name: "empty"}},
		Query:   []explain.Pair{{Name: "v", Value: "2"}, {Name: "v", Value: "3"}, {Name: "debug"}, {Name: "q", Value: "a%20b"}},
	}
	header := func(h chain.HeaderMatch) chain.HTTPMatch { return chain.HTTPMatch{Header: []chain.HeaderMatch{h}} }
	query := func(q chain.QueryParamMatch) chain.HTTPMatch {
		return chain.HTTPMatch{QueryParam: []chain.QueryParamMatch{q}}
	}
	for _, tt := range []struct {
		name  string
		match chain.HTTPMatch
		want  string // what it says; empty where it takes the request
	}{
		{"nothing-asked", chain.HTTPMatch{}, ""},
		{"exact-path", chain.HTTPMatch{PathExact: "/Cart/1"}, ""},
		{"exact-path-in-another-case", chain.HTTPMatch{PathExact: "/cart/1"}, "the path /Cart/1 is not /cart/1"},
		{"exact-path-in-any-case", chain.HTTPMatch{PathExact: "/cart/1", CaseInsensitive: true}, ""},
		{"prefix", chain.HTTPMatch{PathPrefix: "/Ca"}, ""},
		{"prefix-in-another-case", chain.HTTPMatch{PathPrefix: "/ca"}, "the path /Cart/1 does not begin with /ca"},
		{"prefix-in-any-case", chain.HTTPMatch{PathPrefix: "/cART", CaseInsensitive: true}, ""},
		{"regex-of-all", chain.HTTPMatch{PathRegex: "/Cart/[0-9]+"}, ""},
		{"regex-of-a-part", chain.HTTPMatch{PathRegex: "/Cart"}, `the path "/Cart/1" is not matched in full by /Cart`},
		{"regex-of-either", chain.HTTPMatch{PathRegex: "/Cart|/Cart/1"}, ""},
		{"regex-in-any-case", chain.HTTPMatch{PathRegex: "/cart/.", CaseInsensitive: true}, ""},
		{"broken-regex", chain.HTTPMatch{PathRegex: "("}, `"(" is no regular expression`},
		{"header-present", header(chain.HeaderMatch{Name: "x-TEAM", Present: true}), ""},
		{"empty-header-present", header(chain.HeaderMatch{Name: "empty", Present: true}), ""},
		{"header-not-present", header(chain.HeaderMatch{Name: "x-team", Present: true, Invert: true}), "the header x-team is present"},
		{"missing-header-not-present", header(chain.HeaderMatch{Name: "x", Present: true, Invert: true}), ""},
		{"missing-header", header(chain.HeaderMatch{Name: "x", Exact: "1"}), "the header x is missing"},
		{"missing-header-inverted", header(chain.HeaderMatch{Name: "x", Exact: "1", Invert: true}), "the header x is missing"},
		{"first-of-values", header(chain.HeaderMatch{Name: "x-team", Exact: "a"}), ""},
		{"second-of-values", header(chain.HeaderMatch{Name: "x-team", Exact: "b"}), ""},
		{"none-of-values", header(chain.HeaderMatch{Name: "x-team", Exact: "a,b"}), `the header x-team is "b", which is not "a,b", and neither do its other values match`},
		{"header-prefix", header(chain.HeaderMatch{Name: "x-team", Prefix: "c"}), `which does not begin with "c"`},
		{"header-suffix", header(chain.HeaderMatch{Name: "x-team", Suffix: ",a"}), `which does not end with ",a"`},
		{"header-regex", header(chain.HeaderMatch{Name: "x-team", Regex: "a,b"}), "is not matched in full by a,b"},
		{"header-regex-inverted", header(chain.HeaderMatch{Name: "x-team", Regex: "a,b", Invert: true}), ""},
		{"header-excluded", header(chain.HeaderMatch{Name: "x-team", Prefix: "a", Invert: true}), "which the route excludes"},
		{"host", header(chain.HeaderMatch{Name: ":authority", Exact: "shop"}), ""},
		{"host-by-its-old-name", header(chain.HeaderMatch{Name: "Host", Exact: "x", Invert: true}), ""},
		{"path-as-a-header", header(chain.HeaderMatch{Name: ":path", Suffix: "debug&q=a%20b"}), ""},
		{"query", query(chain.QueryParamMatch{Name: "v", Exact: "2"}), ""},
		{"query-first-value", query(chain.QueryParamMatch{Name: "v", Exact: "3"}), `the query parameter v is "2", which is not "3"`},
		{"query-name-in-another-case", query(chain.QueryParamMatch{Name: "V", Present: true}), "the query parameter V is missing"},
		{"query-without-a-value", query(chain.QueryParamMatch{Name: "debug", Present: true}), ""},
		{"query-not-decoded", query(chain.QueryParamMatch{Name: "q", Exact: "a b"}), `is "a%20b"`},
		{"method", chain.HTTPMatch{Methods: []string{"PUT", "GET"}}, ""},
		{"other-method", chain.HTTPMatch{Methods: []string{"PUT", "POST"}}, "the method GET is not PUT or POST"},
		{"everything-that-fails", chain.HTTPMatch{PathExact: "/", Methods: []string{"PUT"}}, "the path /Cart/1 is not /; the method GET is not PUT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(get.Refuses(route(tt.match, "")), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
		})
	}
	if why := get.Refuses(nil); len(why) > 0 {
		t.Errorf("no route at all refuses: %v", why)
	}
}

func TestValuesOfAHeaderThatRepeatsAreJoinedForOlderEnvoys(t *testing.T) {
	r := explain.Request{Headers: []explain.Pair{{Name: "X-a", Value: "1"}, {Name: "b", Value: "2"}, {Name: "x-A", Value: "3"}}}
	if got := r.Joined().Headers; !slices.Equal(got, []explain.Pair{{Name: "X-a", Value: "1,3"}, {Name: "b", Value: "2"}}) || r.Headers[0].Value != "1" {
		t.Errorf("joined %v, of %v", got, r.Headers)
	}
}

func TestThePathThatTheInstanceSees(t *testing.T) {
	for _, tt := range []struct {
		match         chain.HTTPMatch
		rewrite, path string
		want          string
	}{
		{chain.HTTPMatch{PathPrefix: "/shop"}, "", "/shop/1", "/shop/1"},
		{chain.HTTPMatch{PathPrefix: "/shop"}, "/", "/shop/1", "/1"},
		{chain.HTTPMatch{PathPrefix: "/shop"}, "/", "/shopping", "/ping"},
		{chain.HTTPMatch{PathPrefix: "/shop/"}, "/v2/", "/shop/1", "/v2/1"},
		{chain.HTTPMatch{PathExact: "/shop"}, "/new", "/shop", "/new"},
		{chain.HTTPMatch{PathRegex: "/s.*"}, "/new", "/shop/1", "/new"},
		{chain.HTTPMatch{}, "/v1/", "/cart", "/v1/cart"},
	} {
		if got := (explain.Request{Path: tt.path}).Arrives(route(tt.match, tt.rewrite)); got != tt.want {
			t.Errorf("%+v rewritten to %s: %s becomes %s, want %s", tt.match, tt.rewrite, tt.path, got, tt.want)
		}
	}
}
