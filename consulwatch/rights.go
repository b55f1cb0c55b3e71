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
	seen, err := r.ask(ctx)
	if err != nil {
		return false, err
	}
	r.asked, r.seen = asked, seen
	return seen, nil
}

func (r *rights) ask(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	q := query{path: "/v1/acl/token/self"}
	var self struct{ AccessorID string }
	_, err := r.source.client.Raw().Query(q.path, &self, r.source.options(ctx))
	var status api.StatusError
	switch {
	case err == nil:
		return self.AccessorID != "" && self.AccessorID != anonymousID, nil
	case errors.As(err, &status) && status.Code == http.StatusUnauthorized && strings.Contains(status.Body, "ACL support disabled"):
		return true, nil
	case errors.As(err, &status) && status.Code == http.StatusForbidden:
		return false, nil
	}
	return false, r.source.explain(q, err)
}

// hiddenReason says in words why a reading is not confirmed.
func hiddenReason(filtered bool) string {
	if filtered {
		return "Consul hides results from the token, so what is missing counts as unknown, not as gone: the token needs " + neededRights
	}
	return "Consul has ACLs and there is no token, so what is missing counts as unknown, not as gone: " +
		"set CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE to a token with " + neededRights
}
