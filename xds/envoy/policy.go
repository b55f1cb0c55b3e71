package envoy

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
)

// timeout leaves an unset one to Envoy and writes a negative one as 0, which turns it off.
func timeout(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(max(d, 0))
}

// retry translates a destination's retries; nil when it asks for none.
func retry(d *chain.RouteDestination) *routev3.RetryPolicy {
	on := slices.Clone(d.RetryOn)
	if d.RetryOnConnectFailure {
		on = append(on, "connect-failure")
	}
	if len(d.RetryOnStatusCodes) > 0 {
		on = append(on, "retriable-status-codes")
	}
	if len(on) == 0 && d.NumRetries == 0 {
		return nil
	}
	out := &routev3.RetryPolicy{
		RetryOn: strings.Join(on, ","), RetriableStatusCodes: d.RetryOnStatusCodes,
	}
	if d.NumRetries > 0 {
		out.NumRetries = wrapperspb.UInt32(d.NumRetries)
	}
	return out
}

// previousPriorities has a retry go on to the next target of a failover, instead of back to the one that has
// just failed. Consul asks for it behind splitters only.
func previousPriorities() *routev3.RetryPolicy_RetryPriority {
	return &routev3.RetryPolicy_RetryPriority{
		Name: "envoy.retry_priorities.previous_priorities",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
			TypedConfig: pack(&prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 1}),
		},
	}
}

// modify translates changes of headers, in the order of their names.
func modify(m *chain.HeaderModifiers) (add []*corev3.HeaderValueOption, remove []string) {
	if m == nil {
		return nil, nil
	}
	for _, k := range slices.Sorted(maps.Keys(m.Add)) {
		add = append(add, header(k, m.Add[k], corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD))
	}
	for _, k := range slices.Sorted(maps.Keys(m.Set)) {
		add = append(add, header(k, m.Set[k], corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	}
	return add, m.Remove
}

func header(k, v string, action corev3.HeaderValueOption_HeaderAppendAction) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header: &corev3.HeaderValue{Key: k, Value: v}, AppendAction: action,
	}
}

// hashPolicies translates the inputs of ring_hash and maglev; other policies have none.
func hashPolicies(lb *chain.LoadBalancer) []*routev3.RouteAction_HashPolicy {
	if lb.Policy != "ring_hash" && lb.Policy != "maglev" {
		return nil
	}
	var list []*routev3.RouteAction_HashPolicy
	for i := range lb.HashPolicies {
		if p := hashPolicy(&lb.HashPolicies[i]); p != nil {
			list = append(list, p)
		}
	}
	return list
}

func hashPolicy(h *chain.HashPolicy) *routev3.RouteAction_HashPolicy {
	out := &routev3.RouteAction_HashPolicy{Terminal: h.Terminal}
	switch {
	case h.SourceIP:
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
		}
	case h.Field == "header":
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: h.FieldValue},
		}
	case h.Field == "query_parameter":
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: h.FieldValue},
		}
	case h.Field == "cookie":
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookie(h)}
	default:
		return nil
	}
	return out
}

// cookie translates a cookie's policy. A TTL, zero for a session cookie, makes Envoy set the cookie
// on requests that have none; without one it only reads it.
func cookie(h *chain.HashPolicy) *routev3.RouteAction_HashPolicy_Cookie {
	out := &routev3.RouteAction_HashPolicy_Cookie{Name: h.FieldValue}
	if c := h.CookieConfig; c != nil {
		out.Path = c.Path
		switch {
		case c.Session:
			out.Ttl = durationpb.New(0)
		case c.TTL > 0:
			out.Ttl = durationpb.New(c.TTL)
		}
	}
	return out
}
