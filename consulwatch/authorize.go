package consulwatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/identity"
)

// Authorizer asks Consul what the tokens of clients may. It implements [identity.Authorizer]. Create one
// with [NewAuthorizer].
type Authorizer struct {
	client    *http.Client
	transport *transport
	base      url.URL
	auth      *api.HttpBasicAuth
	explain   func(q query, err error) *failure
	access    *access

	mu     sync.Mutex // held while looking at the files of the certificates
	looked time.Time
}

const (
	// mostQuestions is how many questions Consul answers in one call.
	mostQuestions = 64
	// authorizers is how many connections are kept for questions about tokens. They are apart from those
	// of the watches: a client must not wait for a blocking query to end.
	authorizers = 4
	// maxAnswer bounds what is read of an answer; 64 answers with the longest names are far below.
	maxAnswer = 1 << 20
	// anonymous is what Consul takes for having no token, whatever token the agent has of its own.
	anonymous = "anonymous"

	authorizePath = "/v1/internal/acl/authorize"
)

// NewAuthorizer returns an authorizer at the Consul of a configuration, of which it uses only how to
// reach it: never the token. Nil means [api.DefaultConfig]. It connects to nothing.
func NewAuthorizer(cfg *api.Config) (*Authorizer, error) {
	if cfg == nil {
		cfg = api.DefaultConfig()
	}
	_, transport, own, err := connect(cfg, authorizers)
	if err != nil {
		return nil, err
	}
	client := *own.HttpClient
	// Nothing in Consul's API redirects, and a token must not follow.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a := &Authorizer{
		client: &client, auth: own.HttpAuth, transport: transport,
		access: newAccess(cfg, own, authorizers), looked: time.Now(),
		base:    url.URL{Scheme: own.Scheme, Host: own.Address, Path: own.PathPrefix},
		explain: (&Source{address: own.Address}).explain,
	}
	if strings.HasPrefix(own.Address, "/") { // a socket: the client dials it whatever the name
		a.base = url.URL{Scheme: "http", Host: "localhost"}
	}
	return a, nil
}

// Close closes the connections.
func (a *Authorizer) Close() { a.transport.closeIdle() }

// refresh looks from time to time whether the certificates are others, when it is about to ask. What cannot
// be read stays as it was: a [Source] on the same files tells of that.
func (a *Authorizer) refresh() {
	if !a.access.files.any() || !a.mu.TryLock() {
		return
	}
	defer a.mu.Unlock()
	if time.Since(a.looked) < reloadTime {
		return
	}
	a.looked = time.Now()
	if fresh, err := a.access.renew(); err == nil && fresh != nil {
		a.transport.replace(fresh)
	}
}

// aclQuestion is a question in Consul's form, and with Allow the answer.
type aclQuestion struct {
	Resource, Segment, Access string
	Allow                     bool `json:",omitempty"`
}

// Authorize implements [identity.Authorizer].
func (a *Authorizer) Authorize(ctx context.Context, token identity.Token, questions []identity.Question) ([]bool, error) {
	secret := cmp.Or(token.Secret(), anonymous)
	answers := make([]bool, 0, len(questions))
	for part := range slices.Chunk(questions, mostQuestions) {
		got, err := a.authorize(ctx, secret, part)
		if err != nil {
			return nil, a.doubt(ctx, err)
		}
		answers = append(answers, got...)
	}
	if slices.Contains(answers, false) {
		if err := a.led(ctx); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// authorize makes one call.
func (a *Authorizer) authorize(ctx context.Context, secret string, part []identity.Question) ([]bool, error) {
	ask := make([]aclQuestion, 0, len(part))
	for _, q := range part {
		ask = append(ask, aclQuestion{Resource: "service", Segment: q.Service, Access: string(q.Access)})
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	raw, err := a.call(ctx, authorizePath, secret, body)
	if err != nil {
		return nil, err
	}
	var said []aclQuestion
	if err := json.Unmarshal(raw, &said); err != nil || len(said) != len(part) {
		return nil, fmt.Errorf("POST %s: the answer has not the shape of Consul's API (%d answers to %d questions): %w",
			authorizePath, len(said), len(part), cmp.Or(err, errShape))
	}
	answers := make([]bool, 0, len(part))
	for i, s := range said {
		if s.Segment != part[i].Service || s.Access != string(part[i].Access) {
			return nil, fmt.Errorf("POST %s: an answer is to another question: %w", authorizePath, errShape)
		}
		answers = append(answers, s.Allow)
	}
	return answers, nil
}

var errShape = errors.New("is there a proxy before Consul?")

// doubt is what an error means for the token.
func (a *Authorizer) doubt(ctx context.Context, err error) error {
	var status api.StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch {
	case status.Code == http.StatusUnauthorized && strings.Contains(status.Body, "ACL support disabled"):
		return identity.ErrACLsOff
	case status.Code == http.StatusForbidden && strings.Contains(status.Body, "ACL not found"):
		if err := a.led(ctx); err != nil {
			return err
		}
		return identity.ErrUnknownToken
	}
	f := a.explain(query{path: authorizePath}, status)
	if f.again || f.limited {
		return &identity.Unreachable{Reason: f.text}
	}
	return f
}

// led returns an error unless the servers have a leader. An agent that has lost its servers denies what
// it does not remember, and with acl.down_policy "deny" everything: it would look as if all tokens had
// lost their rights at once.
func (a *Authorizer) led(ctx context.Context) error {
	raw, err := a.call(ctx, "/v1/status/leader", anonymous, nil)
	if err != nil {
		return a.unreachable(err)
	}
	var leader string
	if err := json.Unmarshal(raw, &leader); err != nil || leader == "" {
		return &identity.Unreachable{Reason: "Consul has no leader now, so that what it denies may be allowed"}
	}
	return nil
}

// unreachable makes an error one of reaching Consul.
func (a *Authorizer) unreachable(err error) error {
	var gone *identity.Unreachable
	if errors.As(err, &gone) {
		return gone
	}
	return &identity.Unreachable{Reason: a.explain(query{path: "/v1/status/leader"}, err).text}
}

// call returns the body of an answer that is 200; any other is an [api.StatusError].
func (a *Authorizer) call(ctx context.Context, path, secret string, body []byte) ([]byte, error) {
	a.refresh()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	target := a.base
	target.Path += path
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Consul-Token", secret)
	req.Header.Set("Content-Type", "application/json")
	if a.auth != nil {
		req.SetBasicAuth(a.auth.Username, a.auth.Password)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, &identity.Unreachable{Reason: a.explain(query{path: path}, err).text}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &identity.Unreachable{Reason: a.explain(query{path: path}, err).text}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, api.StatusError{Code: resp.StatusCode, Body: string(raw)}
	}
	return raw, nil
}
