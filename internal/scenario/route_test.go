package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// follow does what a route says with a request that it takes.
func (s *simulator) follow(route *routev3.Route, r request) (answer, error) {
	if err := only(route, "match", "route", "direct_response", "request_headers_to_add",
		"request_headers_to_remove", "response_headers_to_add", "response_headers_to_remove"); err != nil {
		return answer{}, err
	}
	if d := route.GetDirectResponse(); d != nil {
		return answer{refused: fmt.Sprintf("%d %q", d.GetStatus(), d.GetBody().GetInlineString())}, nil
	}
	shares, err := s.split(route.GetRoute())
	if err != nil {
		return answer{}, err
	}
	for i := range shares {
		if shares[i].failed {
			shares[i].to = "503 (" + shares[i].to + ")"
		}
	}
	notes, err := s.notes(route, r)
	return answer{shares: shares, notes: append(speaks(shares), notes...)}, err
}

// split divides requests among the clusters of a route.
func (s *simulator) split(a *routev3.RouteAction) ([]share, error) {
	switch to := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		return s.spread(to.Cluster)
	case *routev3.RouteAction_WeightedClusters:
		return s.weighted(to.WeightedClusters)
	}
	return nil, fmt.Errorf("the simulator does not know the destination %T", a.GetClusterSpecifier())
}

func (s *simulator) weighted(w *routev3.WeightedCluster) ([]share, error) {
	if err := only(w, "clusters"); err != nil {
		return nil, err
	}
	sum := 0.0
	for _, leg := range w.GetClusters() {
		sum += float64(leg.GetWeight().GetValue())
	}
	if sum == 0 {
		return nil, fmt.Errorf("a split's weights are all 0, which Envoy refuses")
	}
	var all []share
	for _, leg := range w.GetClusters() {
		if err := only(leg, "name", "weight", "request_headers_to_add", "request_headers_to_remove",
			"response_headers_to_add", "response_headers_to_remove"); err != nil {
			return nil, err
		}
		shares, err := s.spread(leg.GetName())
		if err != nil {
			return nil, err
		}
		changes, err := headerChanges(leg)
		if err != nil {
			return nil, err
		}
		for _, sh := range shares {
			sh.percent *= float64(leg.GetWeight().GetValue()) / sum
			sh.changes = strings.Join(changes, " ")
			all = append(all, sh)
		}
	}
	return all, nil
}

// notes are what happens to a request beside being sent on.
func (s *simulator) notes(route *routev3.Route, r request) ([]string, error) {
	a := route.GetRoute()
	if err := only(a, "cluster", "weighted_clusters", "prefix_rewrite", "regex_rewrite", "timeout", "idle_timeout",
		"retry_policy", "hash_policy"); err != nil {
		return nil, err
	}
	path, err := rewritten(route, r.path)
	if err != nil {
		return nil, err
	}
	var notes []string
	if path != r.path {
		notes = append(notes, "path="+path)
	}
	notes = append(notes, duration("timeout", a.GetTimeout())...)
	notes = append(notes, duration("idle", a.GetIdleTimeout())...)
	if p := a.GetRetryPolicy(); p != nil {
		retries, err := retryNotes(p)
		if err != nil {
			return nil, err
		}
		notes = append(notes, retries...)
	}
	for _, h := range a.GetHashPolicy() {
		hash, err := hashNote(h)
		if err != nil {
			return nil, err
		}
		notes = append(notes, hash)
	}
	changes, err := headerChanges(route)
	return append(notes, changes...), err
}

// rewritten is the path that the instance sees: what the route matched by is replaced.
func rewritten(route *routev3.Route, path string) (string, error) {
	a := route.GetRoute()
	if r := a.GetRegexRewrite(); r != nil {
		re, err := regexp.Compile(r.GetPattern().GetRegex())
		groups := regexp.MustCompile(`\\(\d)`).ReplaceAllString(r.GetSubstitution(), "$${$1}")
		if err != nil {
			return "", err
		}
		return re.ReplaceAllString(path, groups), nil
	}
	if a.GetPrefixRewrite() == "" {
		return path, nil
	}
	if by, ok := route.GetMatch().GetPathSpecifier().(*routev3.RouteMatch_Prefix); ok {
		return a.GetPrefixRewrite() + path[len(by.Prefix):], nil
	}
	return a.GetPrefixRewrite(), nil
}

func duration(name string, d *durationpb.Duration) []string {
	switch {
	case d == nil:
		return nil
	case d.AsDuration() == 0:
		return []string{name + "=off"}
	}
	return []string{name + "=" + d.AsDuration().String()}
}

func retryNotes(p *routev3.RetryPolicy) ([]string, error) {
	if err := only(p, "retry_on", "num_retries", "retriable_status_codes", "retry_priority"); err != nil {
		return nil, err
	}
	retries := uint32(1) // Envoy's default
	if p.GetNumRetries() != nil {
		retries = p.GetNumRetries().GetValue()
	}
	on := p.GetRetryOn()
	for i, code := range p.GetRetriableStatusCodes() {
		sep := ","
		if i == 0 {
			sep = ":"
		}
		on += sep + strconv.FormatUint(uint64(code), 10)
	}
	if on == "" {
		on = "nothing"
	}
	notes := []string{fmt.Sprintf("retries=%d", retries), "on=" + on}
	if p.GetRetryPriority() != nil {
		notes = append(notes, "at=next-target")
	}
	return notes, nil
}

func hashNote(h *routev3.RouteAction_HashPolicy) (string, error) {
	note := ""
	switch by := h.GetPolicySpecifier().(type) {
	case *routev3.RouteAction_HashPolicy_Header_:
		note = "hash=header:" + by.Header.GetHeaderName()
	case *routev3.RouteAction_HashPolicy_Cookie_:
		note = "hash=cookie:" + by.Cookie.GetName()
	case *routev3.RouteAction_HashPolicy_QueryParameter_:
		note = "hash=query:" + by.QueryParameter.GetName()
	case *routev3.RouteAction_HashPolicy_ConnectionProperties_:
		note = "hash=source-ip"
	default:
		return "", fmt.Errorf("the simulator does not know the hash policy %T", by)
	}
	if h.GetTerminal() {
		note += "!"
	}
	return note, nil
}

// headersChanger is a route or a leg of a split.
type headersChanger interface {
	GetRequestHeadersToAdd() []*corev3.HeaderValueOption
	GetRequestHeadersToRemove() []string
	GetResponseHeadersToAdd() []*corev3.HeaderValueOption
	GetResponseHeadersToRemove() []string
}

// headerChanges prints an addition as +name:value, a replacement as =name:value and a removal as
// -name; those of responses have a < before them.
func headerChanges(c headersChanger) ([]string, error) {
	request, err := changes(c.GetRequestHeadersToAdd(), c.GetRequestHeadersToRemove())
	if err != nil {
		return nil, err
	}
	response, err := changes(c.GetResponseHeadersToAdd(), c.GetResponseHeadersToRemove())
	for _, change := range response {
		request = append(request, "<"+change)
	}
	return request, err
}

func changes(add []*corev3.HeaderValueOption, remove []string) ([]string, error) {
	var out []string
	for _, h := range add {
		mark := ""
		switch h.GetAppendAction() {
		case corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			mark = "+"
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			mark = "="
		default:
			return nil, fmt.Errorf("the simulator does not know the header action %s", h.GetAppendAction())
		}
		out = append(out, mark+h.GetHeader().GetKey()+":"+h.GetHeader().GetValue())
	}
	for _, name := range remove {
		out = append(out, "-"+name)
	}
	return out, nil
}
