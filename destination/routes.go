package destination

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/catenary-mesh/catenary/chain"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// maxRoute bounds the name of a route in metrics, and maxExpression its expression for paths, in bytes: \pL alone takes
// thousands of them.
const (
	maxRoute      = 128
	maxExpression = 16 << 10
	// maxRoutes bounds the routes of a profile together: clients take messages of 4 MiB by default.
	maxRoutes = 2 << 20
)

// routed translates the routes of a router and returns the node that requests go to: that of the first route
// which takes all. Routes that send elsewhere, or look at what Linkerd does not, are left out and never widened.
// Since the first match counts, a request of theirs falls to a later route: one that could be hit so loses what
// it would do to such a request, its retries and timeout.
func (p *Profile) routed(c *chain.Chain, router *chain.Node) *chain.Node {
	at := slices.IndexFunc(router.Routes, func(r *chain.Route) bool { return takesAll(httpMatch(r)) })
	if at < 0 {
		at = len(router.Routes) - 1
	}
	if at < 0 {
		return nil
	}
	next := router.Routes[at].NextNode
	var hidden []*chain.HTTPMatch
	size := 0
	for i, r := range router.Routes[:at+1] {
		m := httpMatch(r)
		reason := unexpressed(r, m, next)
		if reason == "" && size+proto.Size(condition(m)) > maxRoutes {
			reason = "a profile with all routes is more than a proxy takes"
		}
		if reason != "" {
			p.Unexpressed++
			p.note("route %d, %q, is left out: %s", i+1, routeName(m), reason)
			hidden = append(hidden, m)
			continue
		}
		out := &pb.Route{Condition: condition(m), MetricsLabels: map[string]string{"route": routeName(m)}}
		p.treat(out, r, m)
		if shadows(hidden, m) && (out.IsRetryable || out.Timeout != nil) {
			p.Weakened++
			p.note("route %d, %q, loses its retries and timeout: requests of a route that is left out come to it too", i+1, routeName(m))
			out.IsRetryable, out.Timeout, out.ResponseClasses = false, nil, nil
		}
		if !p.OpaqueProtocol {
			p.Routes = append(p.Routes, out)
			size += proto.Size(out)
		}
	}
	return c.Nodes[next]
}

func httpMatch(r *chain.Route) *chain.HTTPMatch {
	if r.Definition == nil || r.Definition.Match == nil || r.Definition.Match.HTTP == nil {
		return &chain.HTTPMatch{}
	}
	return r.Definition.Match.HTTP
}

// takesAll reports whether every request matches: every path begins with a slash.
func takesAll(m *chain.HTTPMatch) bool {
	return m.PathExact == "" && (m.PathPrefix == "" || m.PathPrefix == "/") && m.PathRegex == "" &&
		len(m.Header) == 0 && len(m.QueryParam) == 0 && len(m.Methods) == 0
}

// unexpressed says why a route cannot be a route of a profile; empty when it can.
func unexpressed(r *chain.Route, m *chain.HTTPMatch, next string) string {
	switch {
	case r.NextNode != next:
		return "it sends to another destination, and the routes of a profile choose none"
	case len(m.Header) > 0:
		return "it looks at headers, and Linkerd only at path and method"
	case len(m.QueryParam) > 0:
		return "it looks at query parameters, and Linkerd only at path and method"
	}
	if m.PathRegex == "" {
		return ""
	}
	// A proxy would drop it in silence.
	if _, err := regexp.Compile(m.PathRegex); err != nil || len(portable(m)) > maxExpression {
		return "its regular expression is not one that Linkerd's proxy takes"
	}
	return ""
}

// treat says what becomes of the requests of a route.
func (p *Profile) treat(out *pb.Route, r *chain.Route, m *chain.HTTPMatch) {
	if r.Definition == nil || r.Definition.Destination == nil {
		return
	}
	d := r.Definition.Destination
	if d.RequestTimeout > 0 {
		out.Timeout = durationpb.New(d.RequestTimeout)
	}
	if d.PrefixRewrite != "" || d.RequestHeaders != nil || d.ResponseHeaders != nil {
		p.note("route %q: requests are not rewritten, nor headers changed: Linkerd does neither", routeName(m))
	}
	out.IsRetryable, out.ResponseClasses = retries(d)
}

// retries are those of a destination, with the responses that are failures. Linkerd takes every 5xx for a failure
// and sends such a request again: what the destination does not name is therefore said to be none.
func retries(d *chain.RouteDestination) (bool, []*pb.ResponseClass) {
	if d.NumRetries == 0 && !d.RetryOnConnectFailure && len(d.RetryOn) == 0 && len(d.RetryOnStatusCodes) == 0 {
		return false, nil
	}
	var ranges []*pb.HttpStatusRange
	for _, condition := range d.RetryOn {
		switch condition {
		case "5xx":
			ranges = append(ranges, &pb.HttpStatusRange{Min: 500, Max: 599})
		case "gateway-error":
			ranges = append(ranges, &pb.HttpStatusRange{Min: 502, Max: 504})
		case "retriable-4xx":
			ranges = append(ranges, &pb.HttpStatusRange{Min: 409, Max: 409})
		}
	}
	for _, code := range d.RetryOnStatusCodes {
		if code >= 100 && code <= 999 {
			ranges = append(ranges, &pb.HttpStatusRange{Min: code, Max: code})
		}
	}
	ranges = merged(ranges)
	var classes []*pb.ResponseClass
	all := false
	for _, r := range ranges {
		all = all || r.Min <= 500 && r.Max >= 599
		classes = append(classes, class(r, true))
	}
	if !all {
		classes = append(classes, class(&pb.HttpStatusRange{Min: 500, Max: 599}, false))
	}
	return true, classes
}

func class(r *pb.HttpStatusRange, failure bool) *pb.ResponseClass {
	return &pb.ResponseClass{
		Condition: &pb.ResponseMatch{Match: &pb.ResponseMatch_Status{Status: r}}, IsFailure: failure,
	}
}

// merged puts ranges in order, and those that touch together.
func merged(ranges []*pb.HttpStatusRange) []*pb.HttpStatusRange {
	slices.SortFunc(ranges, func(a, b *pb.HttpStatusRange) int {
		return cmp.Or(cmp.Compare(a.Min, b.Min), cmp.Compare(a.Max, b.Max))
	})
	var out []*pb.HttpStatusRange
	for _, r := range ranges {
		if n := len(out); n > 0 && r.Min <= out[n-1].Max+1 {
			out[n-1].Max = max(out[n-1].Max, r.Max)
			continue
		}
		out = append(out, r)
	}
	return out
}

func anyPath() *pb.RequestMatch { return path(".*") }

func path(regex string) *pb.RequestMatch {
	return &pb.RequestMatch{Match: &pb.RequestMatch_Path{Path: &pb.PathMatch{Regex: regex}}}
}

// condition is which requests a route takes.
func condition(m *chain.HTTPMatch) *pb.RequestMatch {
	if takesAll(m) {
		return anyPath()
	}
	var all []*pb.RequestMatch
	if m.PathExact != "" || m.PathPrefix != "" || m.PathRegex != "" {
		all = append(all, path(pathRegex(m)))
	}
	if len(m.Methods) > 0 {
		all = append(all, methods(m.Methods))
	}
	if len(all) == 1 {
		return all[0]
	}
	return &pb.RequestMatch{Match: &pb.RequestMatch_All{All: &pb.RequestMatch_Seq{Matches: all}}}
}

// pathRegex is the path of a match as an expression for the whole of it, which the proxy anchors.
func pathRegex(m *chain.HTTPMatch) string {
	var regex string
	switch {
	case m.PathExact != "":
		regex = regexp.QuoteMeta(m.PathExact)
	case m.PathPrefix != "":
		regex = regexp.QuoteMeta(m.PathPrefix) + ".*"
	default:
		return portable(m)
	}
	if m.CaseInsensitive {
		return "(?i:" + regex + ")"
	}
	return regex
}

// portable is the expression of a match, written so that it means to Linkerd's proxy what it means to Envoy. As they
// come they may not: a brace that repeats nothing stands for itself in the one's, and is refused by the other's, as is
// [ in a class; && and -- in classes, \< and \d are of other characters.
func portable(m *chain.HTTPMatch) string {
	regex := m.PathRegex
	if m.CaseInsensitive {
		regex = "(?i:" + regex + ")"
	}
	if parsed, err := syntax.Parse(regex, syntax.Perl); err == nil {
		regex = parsed.String()
	}
	if strings.Contains(regex, "|") {
		return "(?:" + regex + ")" // else the anchors would be parts of the alternatives
	}
	return regex
}

func methods(list []string) *pb.RequestMatch {
	var all []*pb.RequestMatch
	for _, name := range list {
		all = append(all, &pb.RequestMatch{Match: &pb.RequestMatch_Method{Method: method(name)}})
	}
	if len(all) == 1 {
		return all[0]
	}
	return &pb.RequestMatch{Match: &pb.RequestMatch_Any{Any: &pb.RequestMatch_Seq{Matches: all}}}
}

func method(name string) *pb.HttpMethod {
	if number, ok := pb.HttpMethod_Registered_value[name]; ok {
		return &pb.HttpMethod{Type: &pb.HttpMethod_Registered_{Registered: pb.HttpMethod_Registered(number)}}
	}
	return &pb.HttpMethod{Type: &pb.HttpMethod_Unregistered{Unregistered: name}}
}

// routeName is what metrics call a route.
func routeName(m *chain.HTTPMatch) string {
	name := "*"
	switch {
	case m.PathExact != "":
		name = m.PathExact
	case m.PathPrefix != "" && !takesAll(m):
		name = m.PathPrefix + "*"
	case m.PathRegex != "":
		name = "~" + m.PathRegex
	}
	if len(m.Methods) > 0 {
		name = strings.Join(m.Methods, ",") + " " + name
	}
	if len(name) > maxRoute {
		name = name[:maxRoute]
	}
	return clean(name)
}
