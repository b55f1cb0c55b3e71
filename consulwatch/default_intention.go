package consulwatch

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// What holds between services that no intention is about.
const (
	policyAllow = "allow"
	policyDeny  = "deny"
)

// followTopic follows a topic in the way of its kind.
func (s *Source) followTopic(ctx context.Context, to *sink) {
	switch to.topic.Kind {
	case facts.TopicDefaultIntention:
		s.followDefaultIntention(ctx, to)
	case facts.TopicGateways:
		s.followGateways(ctx, to)
	case facts.TopicVirtualIPs:
		s.followVirtualIPs(ctx, to)
	default:
		s.follow(ctx, to)
	}
}

// followDefaultIntention is the [follower] of what holds without intentions. It is part of the agent's
// configuration: nothing tells of a change, and only another agent, or one that was started again, has
// another.
func (s *Source) followDefaultIntention(ctx context.Context, to *sink) {
	if s.intentions != "" {
		to.mode(ModeFixed)
		to.decided(s.intentions, 0)
		<-ctx.Done()
		return
	}
	retry := exponential(s.limits.RetryMin, s.limits.RetryMax)
	told := false // the agent itself has said it
	for ctx.Err() == nil {
		recovered, renamed := s.recovered.next(), s.renamed.next()
		to.mode(ModeAsking)
		start := time.Now()
		policy, guessed, err := s.askDefaultIntention(ctx)
		if err == nil && guessed && told {
			err = errPolicyHidden
		}
		if err == nil {
			told = told || !guessed
			to.decided(policy, time.Since(start))
			retry.Reset()
			awaitEither(ctx, s.limits.Wait, recovered, renamed)
			continue
		}
		if ctx.Err() == nil {
			to.fail(err)
			to.mode(ModeRetrying)
			awaitEither(ctx, retry.NextBackOff(), recovered, renamed)
		}
	}
}

// awaitEither waits for a while, or until one of two things has happened.
func awaitEither(ctx context.Context, d time.Duration, one, other <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-one:
	case <-other:
	case <-ctx.Done():
	}
}

// askDefaultIntention returns the policy of the agent: its own for intentions, else that of its ACLs, which
// every answer carries. It is guessed when the token may not read whether the agent has one of its own.
func (s *Source) askDefaultIntention(ctx context.Context) (policy string, guessed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	q := query{path: "/v1/agent/self"}
	var header http.Header
	var self struct {
		DebugConfig struct{ DefaultIntentionPolicy string }
	}
	_, err = s.client.Raw().Query(q.path, &self, s.options(context.WithValue(ctx, headerKey{}, &header)))
	ofACLs := header.Get("X-Consul-Default-ACL-Policy")
	var status api.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusForbidden && !strings.Contains(status.Body, "ACL not found"):
		if ofACLs != policyDeny {
			return "", false, errNoPolicy // it might be deny all the same
		}
		return policyDeny, true, nil
	case err != nil:
		return "", false, s.explain(q, err)
	}
	switch policy = strings.ToLower(cmp.Or(self.DebugConfig.DefaultIntentionPolicy, ofACLs)); policy {
	case policyAllow, policyDeny:
		return policy, false, nil
	}
	return "", false, errNoPolicy
}

// errNoPolicy is why it is not known what holds without intentions.
var errNoPolicy = &failure{text: "Consul does not say what holds between services that no intention is about: " +
	`give the token agent:read on the agent, or set --default-intention-policy`}

// errPolicyHidden is why what is known of it stays.
var errPolicyHidden = &failure{text: "the token may not read any more what holds between services that no intention is about, so what was known stays: " +
	`give it agent:read on the agent again, or set --default-intention-policy`}

// decided commits what holds without intentions.
func (k *sink) decided(policy string, took time.Duration) {
	var out facts.Outcome
	k.store.Commit(func(tx *facts.Tx) { out = tx.DefaultIntention(policy == policyAllow) })
	result := ResultUnchanged
	if out.Changed {
		result = ResultChanged
	}
	k.source.metrics.Query(k.topic.Kind, result, took)
	k.answered(answer{})
	k.mu.Lock()
	k.status.Failure = ""
	k.mu.Unlock()
	k.say("")
}
