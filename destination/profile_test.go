package destination

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// profileOf translates the chain of api, of an HTTP service unless an entry says otherwise.
func profileOf(t *testing.T, entries ...chain.Entry) Profile {
	t.Helper()
	set := chain.NewEntrySet(&chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, Config: map[string]any{"protocol": "http"}})
	for _, e := range entries {
		set.Put(chain.Normalize(e))
	}
	c, problems := chain.Compile(chain.Request{Service: "api", Datacenter: "dc1"}, set)
	if c == nil {
		t.Fatal(problems)
	}
	return NewProfile(c, Name{Service: "api", Datacenter: "dc1", Port: 80})
}

func head(name string) chain.Header { return chain.Header{Name: name} }

func overridesOf(p Profile) string {
	var words []string
	for _, d := range p.GetDstOverrides() {
		words = append(words, fmt.Sprintf("%s=%d", d.GetAuthority(), d.GetWeight()))
	}
	return strings.Join(words, " ")
}

func subsets() *chain.ServiceResolver {
	return &chain.ServiceResolver{Header: head("api"), Subsets: map[string]chain.Subset{"v1": {}, "v2": {}}}
}

const self = "api.service.dc1.consul:80=10000"

func TestRequestsAreSplitAsTheChainDoes(t *testing.T) {
	for name, c := range map[string]struct {
		entries []chain.Entry
		want    string
	}{
		"no splitter": {nil, self},
		"redirect":    {[]chain.Entry{&chain.ServiceResolver{Header: head("api"), Redirect: &chain.Redirect{Service: "web"}}}, self},
		"splitter of subsets": {[]chain.Entry{subsets(), &chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{
			{Weight: 99.99, ServiceSubset: "v1"}, {Weight: 0.01, ServiceSubset: "v2"},
		}}}, "v1.api.service.dc1.consul:80=9999 v2.api.service.dc1.consul:80=1"},
		"legs of nothing are dropped": {[]chain.Entry{subsets(), &chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{
			{Weight: 100, ServiceSubset: "v1"}, {Weight: 0, ServiceSubset: "v2"},
		}}}, "v1.api.service.dc1.consul:80=10000"},
		"nested splitters": {[]chain.Entry{
			&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 60}, {Weight: 40, Service: "web"}}},
			&chain.ServiceSplitter{Header: head("web"), Splits: []chain.ServiceSplit{{Weight: 75}, {Weight: 25, Service: "spare"}}},
		}, "api.service.dc1.consul:80=6000 web.service.dc1.consul:80=3000 spare.service.dc1.consul:80=1000"},
		"legs that end in one are one": {[]chain.Entry{
			&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 40}, {Weight: 60, Service: "web"}}},
			&chain.ServiceResolver{Header: head("web"), Redirect: &chain.Redirect{Service: "api"}},
		}, self},
		"router before a splitter": {[]chain.Entry{
			subsets(),
			&chain.ServiceRouter{Header: head("api"), Routes: []chain.ServiceRoute{{Match: &chain.RouteMatch{HTTP: &chain.HTTPMatch{PathPrefix: "/a"}}}}},
			&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{{Weight: 50, ServiceSubset: "v1"}, {Weight: 50, ServiceSubset: "v2"}}},
		}, "v1.api.service.dc1.consul:80=5000 v2.api.service.dc1.consul:80=5000"},
		"legs keep their shares, whatever their names": {[]chain.Entry{
			&chain.ServiceSplitter{Header: head("api"), Splits: []chain.ServiceSplit{
				{Weight: 50}, {Weight: 20, Service: "api.v2"}, {Weight: 20, Service: "far"}, {Weight: 10, Service: strings.Repeat("é", 100)},
			}},
			&chain.ServiceResolver{Header: head("far"), Redirect: &chain.Redirect{Service: "there", Peer: "cloud"}},
		}, "api.service.dc1.consul:80=5000 hex--6170692e7632.service.dc1.dc.consul:80=2000 there.service.cloud.peer.consul:80=2000 none.service.none.peer.consul:80=1000"},
		"a route of all to another service": {[]chain.Entry{
			&chain.ServiceRouter{Header: head("api"), Routes: []chain.ServiceRoute{{Destination: &chain.RouteDestination{Service: "web"}}}},
		}, "web.service.dc1.consul:80=10000"},
	} {
		t.Run(name, func(t *testing.T) {
			p := profileOf(t, c.entries...)
			if got := overridesOf(p); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			for _, d := range p.GetDstOverrides() {
				if _, err := (Names{Datacenter: "dc1"}).Parse(d.GetAuthority()); err != nil {
					t.Errorf("Get does not understand it: %v", err)
				}
			}
		})
	}
}

func TestWhatAProfileSaysOfItsService(t *testing.T) {
	p := profileOf(t)
	if p.GetFullyQualifiedName() != "api.service.dc1.consul" || p.GetParentRef().GetResource().GetGroup() != "consul" || p.GetProfileRef() != nil || p.GetOpaqueProtocol() {
		t.Errorf("got %v", p.DestinationProfile)
	}
	b := p.GetRetryBudget()
	if b.GetRetryRatio() != 0.2 || b.GetMinRetriesPerSecond() != 10 || b.GetTtl().AsDuration() != 10*time.Second {
		t.Errorf("the budget is %v", b)
	}
	p = profileOf(t, &chain.ServiceDefaults{Header: head("api"), Protocol: "tcp"},
		&chain.ServiceResolver{Header: head("api"), RequestTimeout: time.Second})
	if !p.GetOpaqueProtocol() || len(p.GetRoutes()) > 0 || overridesOf(p) != self {
		t.Errorf("of a tcp service: %v", p.DestinationProfile)
	}
	p = profileOf(t, &chain.ServiceResolver{Header: head("api"), RequestTimeout: time.Second})
	if len(p.GetRoutes()) != 1 || p.GetRoutes()[0].GetTimeout().AsDuration() != time.Second {
		t.Errorf("the timeout of a resolver: %v", p.GetRoutes())
	}
	if p := NewProfile(nil, Name{Service: "api", Datacenter: "dc1", Port: 80}); overridesOf(p) != self {
		t.Errorf("without a chain: %v", p.DestinationProfile)
	}
	if p := DefaultProfile(); p.GetFullyQualifiedName() != "" || len(p.GetDstOverrides()) > 0 || p.GetRetryBudget() == nil {
		t.Errorf("of what is not known: %v", p.DestinationProfile)
	}
}

// route is one route of a router, short enough for tables.
func route(m chain.HTTPMatch, d *chain.RouteDestination) chain.ServiceRoute {
	return chain.ServiceRoute{Match: &chain.RouteMatch{HTTP: &m}, Destination: d}
}

func routesOf(p Profile) string {
	var words []string
	for _, r := range p.GetRoutes() {
		word := conditionText(r.GetCondition())
		if r.GetTimeout() != nil {
			word += " " + r.GetTimeout().AsDuration().String()
		}
		if r.GetIsRetryable() {
			word += " retry"
		}
		for _, c := range r.GetResponseClasses() {
			word += fmt.Sprintf(" %d-%d:%v", c.GetCondition().GetStatus().GetMin(), c.GetCondition().GetStatus().GetMax(), c.GetIsFailure())
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

func conditionText(m *pb.RequestMatch) string {
	var seq []*pb.RequestMatch
	op := "&"
	switch {
	case m.GetPath() != nil:
		return m.GetPath().GetRegex()
	case m.GetMethod() != nil:
		return m.GetMethod().GetRegistered().String() + m.GetMethod().GetUnregistered()
	case m.GetAll() != nil:
		seq = m.GetAll().GetMatches()
	case m.GetAny() != nil:
		seq, op = m.GetAny().GetMatches(), "|"
	}
	var words []string
	for _, s := range seq {
		words = append(words, conditionText(s))
	}
	return "(" + strings.Join(words, op) + ")"
}

func TestRoutesThatCanBeSaid(t *testing.T) {
	type match = chain.HTTPMatch
	slow := &chain.RouteDestination{RequestTimeout: 5 * time.Second}
	for name, c := range map[string]struct {
		routes           []chain.ServiceRoute
		want             string
		hidden, weakened int
	}{
		"paths": {[]chain.ServiceRoute{
			route(match{PathExact: "/a.b"}, slow), route(match{PathPrefix: "/c+"}, nil), route(match{PathRegex: "/d[0-9]+"}, nil), route(match{PathRegex: "/e|/f"}, nil),
			route(match{PathPrefix: "/G", CaseInsensitive: true}, nil),
		}, `/a\.b 5s; /c\+.*; /d[0-9]+; /[ef]; (?i:/G.*); .*`, 0, 0},
		"methods": {[]chain.ServiceRoute{
			route(match{Methods: []string{"get"}}, slow), route(match{PathExact: "/a", Methods: []string{"PUT", "POST"}}, nil),
		}, "GET 5s; (/a&(PUT|POST)); .*", 0, 0},
		"retries": {[]chain.ServiceRoute{
			route(match{PathExact: "/a"}, &chain.RouteDestination{NumRetries: 3, RetryOnStatusCodes: []uint32{503, 429, 502}}),
			route(match{PathExact: "/b"}, &chain.RouteDestination{RetryOn: []string{"5xx"}}),
			route(match{PathExact: "/c"}, &chain.RouteDestination{RetryOnConnectFailure: true}),
		}, "/a retry 429-429:true 502-503:true 500-599:false; /b retry 500-599:true; /c retry 500-599:false; .*", 0, 0},
		"negative timeouts": {[]chain.ServiceRoute{route(match{PathExact: "/a"}, &chain.RouteDestination{RequestTimeout: -1})}, "/a; .*", 0, 0},
		"a header hides a route, and what it could fall to is weakened": {[]chain.ServiceRoute{
			route(match{PathExact: "/first"}, slow),
			route(match{PathPrefix: "/a", Header: []chain.HeaderMatch{{Name: "x", Present: true}}}, nil),
			route(match{PathPrefix: "/a/b"}, slow), route(match{PathExact: "/c"}, slow),
		}, "/first 5s; /a/b.*; /c 5s; .*", 1, 1},
		"another destination": {[]chain.ServiceRoute{
			route(match{PathPrefix: "/admin", Methods: []string{"GET"}}, &chain.RouteDestination{Service: "web"}),
			route(match{PathRegex: "/.*"}, slow), route(match{PathExact: "/admin", Methods: []string{"POST"}}, slow),
		}, "(?-s:/.*); (/admin&POST) 5s; .*", 1, 1},
		"query": {[]chain.ServiceRoute{
			route(match{QueryParam: []chain.QueryParamMatch{{Name: "x", Present: true}}}, nil), route(match{PathExact: "/a"}, slow),
		}, "/a; .*", 1, 1},
		"nothing after a route of all": {[]chain.ServiceRoute{
			{Destination: slow}, route(match{PathExact: "/a"}, slow),
		}, ".* 5s", 0, 0},
		"expressions that only one side knows": {[]chain.ServiceRoute{
			route(match{PathRegex: `/\C`}, nil), route(match{PathRegex: "/" + strings.Repeat(`\pL`, 50)}, nil),
		}, ".*", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := profileOf(t, &chain.ServiceRouter{Header: head("api"), Routes: c.routes})
			if got := routesOf(p); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p.Unexpressed != c.hidden || p.Weakened != c.weakened {
				t.Errorf("%d routes are left out and %d weakened, want %d and %d", p.Unexpressed, p.Weakened, c.hidden, c.weakened)
			}
			if p.Unexpressed+p.Weakened > len(p.Notes) {
				t.Errorf("the notes are %q", p.Notes)
			}
			if p.GetProfileRef().GetResource().GetKind() != "service-router" {
				t.Errorf("the router is not named: %v", p.GetProfileRef())
			}
		})
	}
}

func TestAProfileIsNotLargerThanAProxyTakes(t *testing.T) {
	var routes []chain.ServiceRoute
	for i := range 600 {
		path := fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 10_000))
		routes = append(routes, route(chain.HTTPMatch{PathExact: path}, &chain.RouteDestination{RequestTimeout: time.Second}))
	}
	p := profileOf(t, &chain.ServiceDefaults{Header: head("api"), Protocol: "http"}, &chain.ServiceRouter{Header: head("api"), Routes: routes})
	size := 0
	for _, r := range p.Routes {
		size += proto.Size(r)
	}
	if size > maxRoutes+1000 || size < maxRoutes-20_000 || p.Unexpressed+len(p.Routes) != 601 {
		t.Errorf("%d bytes of %d routes, and %d are left out", size, len(p.Routes), p.Unexpressed)
	}
	if last := p.Routes[len(p.Routes)-1]; last.Timeout != nil {
		t.Error("who falls to the last route has a timeout that was meant for others")
	}
}

func TestWhichRoutesShareRequests(t *testing.T) {
	type match = chain.HTTPMatch
	for _, c := range []struct {
		a, b match
		want bool
	}{
		{match{PathExact: "/a"}, match{PathExact: "/a"}, true},
		{match{PathExact: "/a"}, match{PathExact: "/A"}, false},
		{match{PathExact: "/a", CaseInsensitive: true}, match{PathExact: "/A"}, true},
		{match{PathExact: "/a/b"}, match{PathPrefix: "/a"}, true},
		{match{PathExact: "/b"}, match{PathPrefix: "/a"}, false},
		{match{PathPrefix: "/a"}, match{PathPrefix: "/b"}, false},
		{match{PathPrefix: "/a"}, match{PathPrefix: "/"}, true},
		{match{PathRegex: "/[ab]"}, match{PathExact: "/a"}, true},
		{match{PathRegex: "/[ab]"}, match{PathExact: "/c"}, false},
		{match{PathRegex: "/[ab]"}, match{PathPrefix: "/c"}, true},
		{match{PathRegex: "/["}, match{PathExact: "/c"}, true},
		{match{Methods: []string{"GET"}}, match{Methods: []string{"PUT"}}, false},
		{match{Methods: []string{"GET"}}, match{}, true},
	} {
		for _, pair := range [][2]match{{c.a, c.b}, {c.b, c.a}} {
			if got := shadows([]*chain.HTTPMatch{&pair[0]}, &pair[1]); got != c.want {
				t.Errorf("%+v and %+v: got %v", pair[0], pair[1], got)
			}
		}
	}
}

// TestExpressionsMeanTheSameToBoth has what the libraries of Envoy and of Linkerd's proxy read differently.
func TestExpressionsMeanTheSameToBoth(t *testing.T) {
	for raw, want := range map[string]string{
		`/users/{id}`: `/users/\{id\}`, // a repetition of nothing, which the proxy refuses
		`/a{,2}`:      `/a\{,2\}`,
		`/a{2,3}`:     `/a{2,3}`,
		`/[a[b]`:      `/[\[ab]`, // a class in a class
		`/[&-.&&x]`:   `/[&-\.x]`,
		`/[+--]`:      `/[\+-\-]`, // the difference of two classes
		`/\<b\>`:      `/<b>`,     // the bounds of a word
		`/\d+`:        `/[0-9]+`,  // digits of all scripts
		`/\Qa.b\E`:    `/a\.b`,
		`/a|b`:        `(?:/a|b)`,
	} {
		if got := pathRegex(&chain.HTTPMatch{PathRegex: raw}); got != want {
			t.Errorf("%s is written %s, want %s", raw, got, want)
		}
	}
	if got := pathRegex(&chain.HTTPMatch{PathRegex: "/{a}|/b", CaseInsensitive: true}); got != `(?:(?i:/(?:\{A\}|B)))` {
		t.Errorf("in whatever case it is written %s", got)
	}
}

func FuzzQuotedPaths(f *testing.F) {
	f.Add("/a.b", "/a.bc")
	f.Fuzz(func(t *testing.T, exact, other string) {
		if exact == "" || strings.ContainsAny(exact+other, "\n") {
			return
		}
		re, err := regexp.Compile("^" + pathRegex(&chain.HTTPMatch{PathExact: exact}) + "$")
		if err != nil {
			return // not UTF-8, which no request's path is compared as
		}
		if re.MatchString(other) != (exact == other) {
			t.Errorf("%q matches %q: %v", exact, other, re.MatchString(other))
		}
	})
}

func FuzzExpressions(f *testing.F) {
	f.Add(`/users/{id}|/[^/]+\.\d{2,3}$`, "/users/{id}", true)
	f.Fuzz(func(t *testing.T, raw, path string, fold bool) {
		m := &chain.HTTPMatch{PathRegex: raw, CaseInsensitive: fold}
		flags := ""
		if fold {
			flags = "(?i)"
		}
		want, err := regexp.Compile("^(?:" + flags + "(?:" + raw + "))$")
		if err != nil {
			return // it is left out
		}
		if _, err := regexp.Compile(raw); err != nil {
			return // a parenthesis too many, that is closed by ours
		}
		got, err := regexp.Compile("^" + pathRegex(m) + "$")
		if err != nil || got.MatchString(path) != want.MatchString(path) {
			t.Errorf("%q is written %q, which matches %q otherwise: %v", raw, pathRegex(m), path, err)
		}
	})
}
