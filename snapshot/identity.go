package snapshot

import (
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// The names of the secrets of a mesh client, for all alike: which certificate a client gets is decided by
// who it has proved to be, and not by a name that it asks for.
const (
	LeafSecret  = "leaf"
	RootsSecret = "roots"
)

// IdentityKey is the part of a plan that proves to others who the client is.
type IdentityKey struct {
	// Service is the client's own.
	Service string
}

func (k IdentityKey) plan(*planner) *Part {
	return &Part{Name: "identity", Resources: []Ref{
		{Name: LeafSecret, Key: LeafKey(k)},
		{Name: RootsSecret, Key: RootsKey{}},
	}}
}

// LeafKey is the certificate of a service and its key. The product is a [facts.Leaf], which says which
// certificate it is: keys are nowhere but where they were made and in what is sent.
type LeafKey struct{ Service string }

// Product implements [Key].
func (LeafKey) Product() string { return ProductSecret }

func (k LeafKey) make(r *facts.Reader) (any, bool) {
	leaf, state := r.Leaf(k.Service)
	return leaf, state == facts.Present
}

// RootsKey is the certificates by which mesh clients know each other. The product is [Roots].
type RootsKey struct{}

// Product implements [Key].
func (RootsKey) Product() string { return ProductSecret }

// Roots are the certificates of all authorities that are trusted, as PEM.
type Roots struct{ PEM string }

func (RootsKey) make(r *facts.Reader) (any, bool) {
	roots, state := r.Roots()
	if state != facts.Present {
		return nil, false
	}
	var pem strings.Builder
	for _, root := range roots.List {
		pem.WriteString(root.Cert)
		if !strings.HasSuffix(root.Cert, "\n") {
			pem.WriteByte('\n')
		}
	}
	return Roots{PEM: pem.String()}, true
}

// identified reports whether a client can be given the identity of its service, without which a mesh
// sidecar gets nothing: it would have to speak plaintext.
func (s *selector) identified(c Client, service string) bool {
	if s.cfg.Dry {
		return true
	}
	if !c.Proved {
		s.hold = fmt.Sprintf("a mesh sidecar is served together with its certificate, which only who proves to be the service %q gets: "+
			"serve with --grpc-auth consul and a token with service:write on it, or with --grpc-auth mtls", service)
		return false
	}
	if service != c.Service { // look-ups ignore the case of names, rights and certificates mind it
		s.unregistered = fmt.Sprintf("the sidecar is registered for the service %q, and the node says that it is of %q: node.cluster must be spelled alike", service, c.Service)
		return false
	}
	for _, topic := range []facts.Topic{facts.CARoots(), facts.LeafOf(service)} {
		s.needs = append(s.needs, topic)
		if s.hold == "" && !s.r.Has(topic) {
			s.hold = s.r.Why(facts.ID{Topic: topic})
		}
	}
	if roots, _ := s.r.Roots(); s.hold == "" && roots.TrustDomain != s.cfg.TrustDomain {
		s.hold = fmt.Sprintf("the certificates of Consul are of the trust domain %q, and Catenary has another, %q: "+
			"start it again, without --trust-domain", roots.TrustDomain, s.cfg.TrustDomain)
	}
	return s.hold == ""
}
