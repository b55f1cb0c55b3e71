package xds

import (
	"context"
	"crypto/x509"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/snapshot"
)

// byCertificate admits who has shown a certificate that the connection has verified. One that names
// services admits only who speaks for one of them; any other admits a reader, who gets no secrets.
func (g *guard) byCertificate(ctx context.Context, c snapshot.Client) (*Grant, error) {
	leaf := certificateOf(ctx)
	if leaf == nil {
		return nil, status.Error(codes.Unauthenticated, "the client has shown no certificate: connect with one of the authority in --grpc-tls-ca")
	}
	var other *url.URL
	for _, uri := range leaf.URIs {
		if !namesService(uri) {
			continue
		}
		if c.Service != "" && g.names(uri, c.Service) {
			return lasting(true), nil
		}
		other = uri
	}
	if other != nil && c.Service != "" {
		return nil, status.Errorf(codes.PermissionDenied, "the certificate is of %.256s, and the client speaks for service %q: it needs one of %s",
			other, c.Service, g.nameOf(c.Service))
	}
	return lasting(false), nil
}

// certificateOf returns the certificate of a stream's client; nil unless the connection has verified it.
func certificateOf(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

// namesService reports whether a URI is a service's in the form of Consul, of whatever trust domain,
// partition and namespace.
func namesService(uri *url.URL) bool {
	parts := strings.Split(uri.Path, "/")
	return strings.EqualFold(uri.Scheme, "spiffe") && len(parts) >= 3 && parts[len(parts)-2] == "svc"
}

// names reports whether a URI is that of a service here. The case of the service's name counts: Consul
// issues certificates by rules that mind it, so Web and web may be given to different people.
func (g *guard) names(uri *url.URL, service string) bool {
	got, want, before := uri.String(), g.nameOf(service), len(g.nameOf(""))
	return uri.User == nil && uri.RawQuery == "" && uri.Fragment == "" && len(got) == len(want) &&
		strings.EqualFold(got[:before], want[:before]) && got[before:] == want[before:]
}

// nameOf is the name of a service in certificates.
func (g *guard) nameOf(service string) string {
	u := url.URL{
		Scheme: "spiffe", Host: g.cfg.TrustDomain,
		Path: "/ns/default/dc/" + g.cfg.Datacenter + "/svc/" + service,
	}
	return u.String()
}
