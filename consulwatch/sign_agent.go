package consulwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/identity"
)

// AgentIssuer has certificates made by the agent, which makes the keys too. It implements
// [identity.Issuer]. Create one with [Source.AgentIssuer].
type AgentIssuer struct{ source *Source }

// AgentIssuer returns an issuer at the agent that the source follows, with its token.
func (s *Source) AgentIssuer() *AgentIssuer { return &AgentIssuer{s} }

const leafPath = "/v1/agent/connect/ca/leaf/"

// Issue implements [identity.Issuer]. An agent returns the same certificate until it has renewed it.
func (i *AgentIssuer) Issue(ctx context.Context, o identity.Order) (identity.Issued, error) {
	var leaf struct{ CertPEM, PrivateKeyPEM string }
	q := query{path: leafPath + o.Service}
	if _, err := i.source.client.Raw().Query(q.path, &leaf, i.source.options(ctx)); err != nil {
		return identity.Issued{}, i.explain(q, err)
	}
	if leaf.CertPEM == "" {
		return identity.Issued{}, errNoCertificate
	}
	return identity.Issued{Chain: leaf.CertPEM, Key: identity.NewKey([]byte(leaf.PrivateKeyPEM))}, nil
}

// explain says what an error means for orders.
func (i *AgentIssuer) explain(q query, err error) error {
	f := i.source.explain(q, err)
	var status api.StatusError
	if errors.As(err, &status) {
		text := strings.TrimSpace(status.Body)
		switch {
		case status.Code == http.StatusForbidden:
			return forbidden(text)
		case status.Code == http.StatusTooManyRequests, strings.Contains(text, "Rate limit reached"):
			return tooMany(text)
		}
	}
	if f.server {
		return &identity.Unreachable{Reason: f.text}
	}
	return f
}

// forbidden says what Consul's refusal means.
func forbidden(text string) error {
	if strings.Contains(text, "ACL not found") {
		return fmt.Errorf("Consul issues no certificates: %w: give Catenary a valid one in CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE", identity.ErrUnknownToken) //nolint:staticcheck // a name
	}
	return &identity.Forbidden{Reason: fmt.Sprintf("Consul refuses a certificate (%s): the token of Catenary needs service:write on the services whose sidecars it serves", text)}
}

// tooMany says that Consul limits orders.
func tooMany(text string) error {
	return &identity.Limited{Reason: fmt.Sprintf("Consul limits how many certificates it signs (%s): csr_max_per_second in connect.ca_config, or limits.request_limits", text)}
}

var errNoCertificate = errors.New("the answer holds no certificate: is there a proxy before Consul?")
