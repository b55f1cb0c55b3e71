package consulwatch

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/semaphore"
)

// anonymousID is the accessor of the token that stands for having none.
const anonymousID = "00000000-0000-0000-0000-000000000002"

// rights answers whether Consul would tell when it hides something. With a token it does, in a
// header; to the anonymous token it does not, so without a token only a Consul that has no ACLs, or
// an agent with a token of its own, can be believed to have hidden nothing.
type rights struct {
	source *Source
	turn   *semaphore.Weighted // of who asks, so that those who wait share the next answer

	mu   sync.Mutex
	last standing
}

// standing is what Consul said of a token.
type standing struct {
	token string
	asked time.Time // when the question was asked
	seen  bool      // it would say that it hides something
	off   bool      // ACLs are off in Consul
}

func newRights(s *Source) *rights { return &rights{source: s, turn: semaphore.NewWeighted(1)} }

// verified reports whether an answer received before the call, with this token, can be believed not to
// lack what the token may not see, if its header does not say so.
func (r *rights) verified(ctx context.Context, token string) (bool, error) {
	if isNamed(token) {
		return true, nil
	}
	s, err := r.since(ctx, token, time.Now())
	return s.seen, err
}

// since returns what Consul says of a token, asked no earlier than a moment.
func (r *rights) since(ctx context.Context, token string, moment time.Time) (standing, error) {
	if s := r.latest(); s.token == token && !s.asked.Before(moment) {
		return s, nil
	}
	if err := r.turn.Acquire(ctx, 1); err != nil {
		return standing{}, err
	}
	defer r.turn.Release(1)
	if s := r.latest(); s.token == token && !s.asked.Before(moment) {
		return s, nil // whoever had the turn before has asked
	}
	s := standing{token: token, asked: time.Now()}
	var err error
	if s.seen, s.off, err = r.ask(ctx, token); err != nil {
		return standing{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = s
	return s, nil
}

func (r *rights) latest() standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// sameFor is for how long an answer about ACLs holds for those who begin a stream.
const sameFor = 10 * time.Second

// same reports whether events show what queries show. Without a token they may not: queries then use the
// agent's own, if it has one, which no stream can.
func (r *rights) same(ctx context.Context) (bool, error) {
	token := r.source.access.secret()
	if isNamed(token) {
		return true, nil
	}
	last := r.latest()
	if last.token != token || !last.off {
		s, err := r.since(ctx, token, time.Now().Add(-sameFor))
		return s.off, err
	}
	asking, cancel := context.WithTimeout(ctx, rememberedTime)
	defer cancel()
	s, err := r.since(asking, token, time.Now().Add(-sameFor))
	if err != nil && ctx.Err() == nil {
		return true, nil // servers have to be started anew to have ACLs, and what is hidden then is not lost
	}
	return s.off, err
}

// errNoToken is why there are no events without a token.
var errNoToken = &failure{text: "Consul has ACLs and there is no token, and events would show less than queries, which may use the agent's own: " +
	"set CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE to a token with " + neededRights}

// ask returns whether Consul would say to a token that it hides something, and whether it has no ACLs at
// all.
func (r *rights) ask(ctx context.Context, token string) (seen, off bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	q := query{path: "/v1/acl/token/self"}
	var self struct{ AccessorID string }
	_, err = r.source.client.Raw().Query(q.path, &self, (&api.QueryOptions{Token: token}).WithContext(ctx))
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
