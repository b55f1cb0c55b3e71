package snapshot

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// ServerListener begins the name by which a gRPC server asks for its listener. The address and port that it
// listens at follow. A bootstrap has it as a template.
const ServerListener = "grpc/server?xds.resource.listening_address="

// GRPCListenerKey is the listener of a gRPC server. The product is a [GRPCListener].
type GRPCListenerKey struct {
	// Name is as the server asks.
	Name string
	// Address and Port are where it listens: it takes no listener for another place.
	Address string
	Port    int
	// Intentions is who may call; zero for a server outside the mesh, which everyone may call in plaintext.
	Intentions IntentionsKey
}

// Product implements [Key].
func (GRPCListenerKey) Product() string { return ProductListener }

// Mesh reports whether it is the listener of a service of the mesh.
func (k GRPCListenerKey) Mesh() bool { return k.Intentions != IntentionsKey{} }

// GRPCListener is the listener of a gRPC server, with who may call: such a server has no other place for it.
type GRPCListener struct {
	Key        GRPCListenerKey
	Intentions Intentions
}

func (k GRPCListenerKey) make(r *facts.Reader) (any, bool) {
	out := GRPCListener{Key: k}
	if !k.Mesh() {
		return out, true
	}
	product, ok := k.Intentions.make(r)
	if !ok {
		return nil, false
	}
	out.Intentions = product.(Intentions).shown()
	return out, true
}

// ServingKey is the part of a plan that the listener of a gRPC server makes up.
type ServingKey struct {
	// Name is as the server asks.
	Name    string
	Address string
	Port    int
	// Service is the service of the mesh that the server is; empty outside the mesh.
	Service string
	Dialect Dialect
}

// serving is the part that a name makes up which ends in the address of a server.
func serving(c Client, name, address string) PartKey {
	at, err := netip.ParseAddrPort(address)
	host, _, split := net.SplitHostPort(address)
	if err != nil || split != nil || at.Port() == 0 {
		return UnservedKey{Name: name, Reason: fmt.Sprintf("%q is not the IP address and port that a gRPC server listens at", address)}
	}
	// The server compares the address as text, so that it is left as it is spelled.
	k := ServingKey{Name: name, Address: host, Port: int(at.Port()), Dialect: c.Dialect}
	if c.Mesh {
		k.Service = c.Service
	}
	return k
}

func (k ServingKey) plan(p *planner) *Part {
	out := &Part{Name: k.Name, Bind: net.JoinHostPort(k.Address, strconv.Itoa(k.Port))}
	key := GRPCListenerKey{Name: k.Name, Address: k.Address, Port: k.Port}
	if k.Service != "" {
		protocol := cmp.Or(centralOf(p.r, Mesh, k.Service).inbound.Protocol, "tcp")
		key.Intentions = IntentionsKey{Service: k.Service, TrustDomain: p.cfg.TrustDomain, Layer7: chain.IsLayer7(protocol)}
		out.needs = []facts.Topic{facts.DefaultIntention()}
		if out.Pending = key.Intentions.pending(p.r); out.Pending != "" {
			return out
		}
		out.Notes = k.notes(p.r, key.Intentions)
	}
	out.Resources = []Ref{{Name: k.Name, Key: key}}
	return out
}

// notes say what of the intentions cannot be followed as written.
func (k ServingKey) notes(r *facts.Reader, intentions IntentionsKey) []string {
	notes := intentions.notes(r)
	if k.Dialect == DialectGRPCNode {
		notes = append(notes, "@grpc/grpc-js-xds takes a listener with intentions only with GRPC_XDS_EXPERIMENTAL_RBAC=true in its environment")
	}
	if !intentions.Layer7 {
		return notes // which has said that permissions count for nothing
	}
	for _, e := range intentions.entries(r) {
		for _, s := range e.Sources {
			if slices.ContainsFunc(s.Permissions, asksForHidden) {
				notes = append(notes, fmt.Sprintf("service-intentions %q asks for a header of %s that gRPC servers do not judge by: it may not call %s at all", e.Name, s.Name, k.Service))
			}
		}
	}
	return notes
}

// shown is the intentions without what a gRPC server cannot judge: where it is not seen what may pass, nothing may.
func (i Intentions) shown() Intentions {
	var rules []IntentionRule
	for _, rule := range i.Rules {
		if slices.ContainsFunc(rule.Permissions, asksForHidden) {
			if !i.DefaultAllow {
				continue
			}
			rule.Permissions = nil
		}
		rules = append(rules, rule)
	}
	i.Rules = rules
	return i
}

// asksForHidden reports whether a permission is about a header that gRPC servers do not judge by.
func asksForHidden(p *chain.IntentionPermission) bool {
	return p.HTTP != nil && slices.ContainsFunc(p.HTTP.Header, func(h chain.IntentionHeader) bool { return isHidden(h.Name) })
}

// isHidden reports whether gRPC servers refuse to look at a header, or take it for absent (gRFC A41).
func isHidden(header string) bool {
	switch name := strings.ToLower(header); name {
	case ":scheme", "te", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	default:
		return strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-bin")
	}
}

// UnservedKey is the part of a plan that a name makes up under which there is no listener.
type UnservedKey struct{ Name, Reason string }

func (k UnservedKey) plan(*planner) *Part { return &Part{Name: k.Name, Missing: []string{k.Reason}} }
