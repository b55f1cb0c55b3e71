package consulwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Datacenter returns the datacenter whose services are followed: the configured one, else the
// agent's own. While Consul does not answer it tries again until ctx ends.
func (s *Source) Datacenter(ctx context.Context) (string, error) {
	s.mu.Lock()
	local := s.local
	s.mu.Unlock()
	if local != "" {
		return local, nil
	}
	err := s.insist(ctx, func() (err error) {
		local, err = s.askDatacenter(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the agent's datacenter is not known: %w", err)
	}
	s.mu.Lock()
	s.local = local
	s.mu.Unlock()
	return local, nil
}

// askDatacenter asks the agent, and if the token may not, the catalog.
func (s *Source) askDatacenter(ctx context.Context) (string, error) {
	var self struct{ Config struct{ Datacenter string } }
	err := s.once(ctx, "/v1/agent/self", &self)
	var status api.StatusError
	if err == nil || !errors.As(err, &status) || status.Code != http.StatusForbidden {
		return self.Config.Datacenter, err
	}
	var all []string
	if err := s.once(ctx, "/v1/catalog/datacenters", &all); err != nil {
		return "", err
	}
	if len(all) == 1 {
		return all[0], nil
	}
	var servers []struct{ Datacenter string }
	if err := s.once(ctx, "/v1/catalog/service/consul", &servers); err != nil {
		return "", err
	}
	if len(servers) == 0 {
		return "", &failure{again: true, text: fmt.Sprintf("the token may not read /v1/agent/self, and there are several datacenters (%s): "+
			"name the agent's with --datacenter, or give the token agent:read", strings.Join(all, ", "))}
	}
	return servers[0].Datacenter, nil
}

// ErrNoConnect means that Consul's service mesh is turned off, so that there is no certificate
// authority and no trust domain.
var ErrNoConnect = errors.New(noConnect + ", and so no trust domain")

const noConnect = "connect is not enabled in Consul (connect.enabled), so there is no certificate authority"

// TrustDomain returns the trust domain of Consul's certificate authority, in lower case. While Consul
// does not answer, or has not made the authority yet, it tries again until ctx ends. It returns
// [ErrNoConnect] when there will be none.
func (s *Source) TrustDomain(ctx context.Context) (string, error) {
	var roots struct{ TrustDomain string }
	err := s.insist(ctx, func() error {
		var f *failure
		err := s.once(ctx, "/v1/connect/ca/roots", &roots)
		switch {
		case errors.As(err, &f) && f.off:
			return ErrNoConnect
		case err == nil && roots.TrustDomain == "":
			return &failure{text: "Consul's certificate authority has no trust domain yet", again: true}
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the trust domain is not known: %w", err)
	}
	return strings.ToLower(roots.TrustDomain), nil
}

// once asks a question that is not followed.
func (s *Source) once(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if _, err := s.client.Raw().Query(path, out, s.options(ctx)); err != nil {
		return s.explain(query{path: path}, err)
	}
	s.reached(facts.Topic{})
	return nil
}

// attempts is how often Reach tries.
const attempts = 3

// Reach returns nil when something answers where Consul should be, and an error when after a few attempts
// nothing does: for those who have nothing to gain from waiting for a Consul that is not there.
func (s *Source) Reach(ctx context.Context) error {
	for i := 1; ; i++ {
		var leader string
		err := s.once(ctx, "/v1/status/leader", &leader)
		var f *failure
		switch {
		case ctx.Err() != nil:
			return err
		case !errors.As(err, &f) || !f.away:
			return nil // what it said is for the next question to find out
		case i == attempts:
			return err
		}
		pause(ctx, s.limits.RetryMin, nil)
	}
}

// insist repeats a question while another answer can be hoped for. When ctx ends the error is why
// Consul did not, if that was seen.
func (s *Source) insist(ctx context.Context, ask func() error) error {
	retry := exponential(s.limits.RetryMin, s.limits.RetryMax)
	var last error
	for {
		err := ask()
		var f *failure
		switch {
		case err == nil:
			s.wait("")
			return nil
		case ctx.Err() != nil:
			return cmp.Or(last, err)
		case !errors.As(err, &f) || !f.again:
			s.wait("")
			s.reached(facts.Topic{})
			return err
		}
		last = err
		s.wait(f.text)
		recovered := s.recovered.next()
		s.lost(facts.Topic{}, f.text)
		pause(ctx, retry.NextBackOff(), recovered)
	}
}

// wait records why a question about the wiring is not answered; empty when it is.
func (s *Source) wait(reason string) {
	s.mu.Lock()
	s.waiting = reason
	s.mu.Unlock()
}
