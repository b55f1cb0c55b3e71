package snapshot

import (
	"fmt"
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// GRPCRoute is a route as gRPC clients can follow it.
type GRPCRoute struct {
	// Match is nil where every call matches. It has neither methods nor query parameters.
	Match *chain.HTTPMatch
	// Node is the splitter or resolver that calls go to.
	Node *chain.Node
	// Timeout is how long a call may last: 0 is for ever, nil leaves it to the caller.
	Timeout *time.Duration
	// RetryOn are the status codes after which a call is tried again, at most Retries times, in gRPC's words.
	RetryOn []string
	Retries uint32
	// Hash are the inputs of ring_hash, in order.
	Hash []chain.HashPolicy
}

// GRPCRoutes returns the routes of a chain for gRPC clients, in order, and says what they cannot do of what the
// chain asks.
func GRPCRoutes(c *chain.Chain) (routes []GRPCRoute, notes []string) {
	n := &grpcNotes{}
	start := c.Nodes[c.StartNode]
	if start == nil {
		return nil, nil
	}
	if start.Type != chain.NodeRouter {
		r := GRPCRoute{Node: start, Hash: n.hash(start)}
		// A resolver's request timeout holds only where the chain starts with it.
		if start.Resolver != nil && start.Resolver.RequestTimeout > 0 {
			r.Timeout = &start.Resolver.RequestTimeout
		}
		n.splits(start)
		return []GRPCRoute{r}, n.list
	}
	for i, route := range start.Routes {
		n.where = fmt.Sprintf("route %d: ", i+1)
		r := GRPCRoute{Node: c.Nodes[route.NextNode]}
		if r.Node == nil || !n.match(&r, route.Definition) {
			continue
		}
		n.destination(&r, route.Definition)
		r.Hash = n.hash(r.Node)
		n.splits(r.Node)
		routes = append(routes, r)
	}
	return routes, n.list
}

// grpcNotes collects what gRPC clients cannot do.
type grpcNotes struct {
	where string
	list  []string
}

func (n *grpcNotes) add(text string) {
	if text = n.where + text; !slices.Contains(n.list, text) {
		n.list = append(n.list, text)
	}
}

// match takes over what a route matches by, and reports whether a call can match at all: each is a POST without
// query parameters.
func (n *grpcNotes) match(r *GRPCRoute, def *chain.ServiceRoute) bool {
	if def == nil || def.Match == nil || def.Match.HTTP == nil {
		return true
	}
	h := *def.Match.HTTP
	if len(h.QueryParam) > 0 {
		n.add("it is left out: gRPC calls have no query parameters")
		return false
	}
	if len(h.Methods) > 0 && !slices.Contains(h.Methods, "POST") {
		n.add("it is left out: gRPC calls are all POST")
		return false
	}
	h.Methods, h.QueryParam = nil, nil
	r.Match = &h
	return true
}

func (n *grpcNotes) destination(r *GRPCRoute, def *chain.ServiceRoute) {
	if def == nil || def.Destination == nil {
		return
	}
	d := def.Destination
	if d.RequestTimeout != 0 {
		timeout := max(d.RequestTimeout, 0)
		r.Timeout = &timeout
	}
	if d.PrefixRewrite != "" {
		n.add("PrefixRewrite is ignored: gRPC clients cannot rewrite paths")
	}
	if d.IdleTimeout != 0 {
		n.add("IdleTimeout is ignored: gRPC clients do not have it")
	}
	if !noHeaders(d.RequestHeaders) || !noHeaders(d.ResponseHeaders) {
		n.add("RequestHeaders and ResponseHeaders are ignored: gRPC clients cannot change headers")
	}
	n.retry(r, d)
}

func noHeaders(m *chain.HeaderModifiers) bool {
	return m == nil || len(m.Add)+len(m.Set)+len(m.Remove) == 0
}

// grpcCodes are the conditions of a retry by which gRPC goes, each after itself, and those of HTTP that a gRPC
// client meets as a status. Conditions that are not here have no counterpart.
var grpcCodes = map[string]string{
	"cancelled": "cancelled", "deadline-exceeded": "deadline-exceeded", "internal": "internal",
	"resource-exhausted": "resource-exhausted", "unavailable": "unavailable",
	// no answer came, or one of a proxy on the way
	"5xx": "unavailable", "gateway-error": "unavailable", "reset": "unavailable", "connect-failure": "unavailable",
	"refused-stream": "unavailable",
}

// retriedStatus are the statuses of HTTP that a gRPC client takes for unavailable.
var retriedStatus = []uint32{429, 502, 503, 504}

// retry translates retries into gRPC's codes.
func (n *grpcNotes) retry(r *GRPCRoute, d *chain.RouteDestination) {
	on := slices.Clone(d.RetryOn)
	if d.RetryOnConnectFailure {
		on = append(on, "connect-failure")
	}
	for _, condition := range on {
		code, ok := grpcCodes[condition]
		if !ok {
			n.add(fmt.Sprintf("the retry condition %q is ignored: gRPC clients do not have it", condition))
			continue
		}
		r.RetryOn = append(r.RetryOn, code)
	}
	for _, status := range d.RetryOnStatusCodes {
		if !slices.Contains(retriedStatus, status) {
			n.add(fmt.Sprintf("retries on the HTTP status %d are ignored: no call to gRPC ends so", status))
			continue
		}
		r.RetryOn = append(r.RetryOn, "unavailable")
	}
	slices.Sort(r.RetryOn)
	r.RetryOn = slices.Compact(r.RetryOn)
	r.Retries = max(d.NumRetries, 1)
}

// hash returns the inputs of ring_hash that a gRPC client has. The address of whoever calls stands for one
// client, which gRPC tells by its channel.
func (n *grpcNotes) hash(node *chain.Node) []chain.HashPolicy {
	if node.LoadBalancer == nil || node.LoadBalancer.Policy != "ring_hash" {
		return nil
	}
	var list []chain.HashPolicy
	for _, h := range node.LoadBalancer.HashPolicies {
		if h.SourceIP || h.Field == "header" {
			list = append(list, h)
			continue
		}
		n.add(fmt.Sprintf("the hash policy of the %s %q is ignored: gRPC clients hash headers, and the source_ip as their own channel", h.Field, h.FieldValue))
	}
	return list
}

func (n *grpcNotes) splits(node *chain.Node) {
	for _, s := range node.Splits {
		if s.Definition != nil && (!noHeaders(s.Definition.RequestHeaders) || !noHeaders(s.Definition.ResponseHeaders)) {
			n.add("the RequestHeaders and ResponseHeaders of splits are ignored: gRPC clients cannot change headers")
		}
	}
}
