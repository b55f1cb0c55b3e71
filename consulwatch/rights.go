package consulwatch

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// anonymousID is the accessor of the token that stands for having none.
const anonymousID = "00000000-0000-0000-0000-000000000002"

// rights answers whether Consul would tell when it hides something. With a token it does, in a
// header; to the anonymous token it does not, so without a token only a Consul that has no ACLs, or
// an agent with a token of its own, can be believed to have hidden nothing.
type rights struct {
	source *Source
	named  atomic.Bool // the token is not the anonymous one

	mu    sync.Mutex // held while asking, so that those who wait share the next answer
	asked time.Time  // when the last answered question was asked
	seen  bool
	off   bool // ACLs are off in Consul
}

// verified reports whether an answer received before the call can be believed not to lack what the
// token may not see, if its header does not say so.
func (r *rights) verified(ctx context.Context) (bool, error) {
	if r.named.Load() {
		return true, nil
	}
	since := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.Before(since) {
		return r.seen, nil
	}
	asked := time.Now()
	seen, off, err := r.ask(ctx)
	if err != nil {
		return false, err
	}
	r.asked, r.seen, r.off = asked, seen, off
	return seen, nil
}

// sameFor is for how long an answer about ACLs holds for those who begin a stream.
const sameFor = 10 * time.Second

// same reports whether events show what queries show. Without a token they may not: queries then use the
// agent's own, if it has one, which no stream can.
func (r *rights) same(ctx context.Context) (bool, error) {
	if r.named.Load() {
		return true, nil
	}
	r.mu.Lock()
	off, fresh := r.off, time.Since(r.asked) < sameFor
	r.mu.Unlock()
	if fresh {
		return off, nil
	}
	if _, err := r.verified(ctx); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.off, nil
}

// errNoToken is why there are no events without a token.
var errNoToken = &failure{text: "Consul has ACLs and there is no token, and events would show less than queries, which may use the agent's own: " +
	"set CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE to a token with " + neededRights}

// ask returns whether Consul would say that it hides something, and whether it has no ACLs at all.
func (r *rights) ask(ctx context.Context) (seen, off bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	q := query{path: "/v1/acl/token/self"}
	var self struct{ AccessorID string }
	_, err = r.source.client.Raw().Query(q.path, &self, r.source.options(ctx))
	var status api.StatusError
	switch {
	case err == nil:
		return self.AccessorID != "" && self.AccessorID != anonymousID, false, nil
	case errors.As(err, &status) && status.Code == http.StatusUnauthorized && strings.Contains(status.Body, "ACL support disabled"):
		return true, true, nil
	case errors.As(err, &status) && status.Code == http.StatusForbidden:
		return false, false, nil
	}
	return false, false, r.source.explain(q, err)
}

// hiddenReason says in words why a reading is not confirmed.
func hiddenReason(filtered bool) string {
	if filtered {
		return "Consul hides results from the token, so what is missing counts as unknown, not as gone: the token needs " + neededRights
	}
	return "Consul has ACLs and there is no token, so what is missing counts as unknown, not as gone: " +
		"set CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE to a token with " + neededRights
}
