package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/catenary-mesh/catenary/hds/server"
)

// Health discovery, as the HTTP side prints it.
type (
	// ServiceHealth is what health discovery knows of a service, as /api/v1/health prints it.
	ServiceHealth = server.ServiceHealth
	// Checker is a connected checker, as /api/v1/checkers prints it.
	Checker = server.CheckerStatus
	// EndpointHealth is what is known of an endpoint, and Vote what one checker says of it.
	EndpointHealth = server.EndpointHealth
	// Vote is that of one checker.
	Vote = server.Vote
)

// Health is where answers about health discovery come from.
type Health struct {
	// Services lists what is known of one service, or of all with no name.
	Services func(name string) []ServiceHealth
	Checkers func() []Checker
	// Release ends the freeze of a service for somebody, and reports whether there was one.
	Release func(name, who string) bool
	// Operator reports whether a secret is the operator's token; nil where there is no such token.
	Operator func(secret string) (bool, error)
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	list := []ServiceHealth{}
	if s.config.Health != nil {
		list = append(list, s.config.Health.Services(r.PathValue("service"))...)
	}
	answer(w, list)
}

func (s *Server) checkers(w http.ResponseWriter, _ *http.Request) {
	list := []Checker{}
	if s.config.Health != nil {
		list = append(list, s.config.Health.Checkers()...)
	}
	answer(w, list)
}

// release is the one request that changes anything.
func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, "a release is a POST, not a "+r.Method)
		return
	}
	if s.config.Health == nil {
		fail(w, http.StatusNotFound, "there is no health discovery yet")
		return
	}
	if status, reason := s.mayRelease(r); reason != "" {
		fail(w, status, reason)
		return
	}
	name := r.PathValue("service")
	if !s.config.Health.Release(name, r.RemoteAddr) {
		fail(w, http.StatusNotFound, fmt.Sprintf("the verdicts of %q are not frozen", name))
		return
	}
	answer(w, map[string]string{"released": name})
}

// mayRelease says why a request may not: it comes from another machine without the operator's token, or from
// the page of a browser, which anybody can have written.
func (s *Server) mayRelease(r *http.Request) (status int, reason string) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "bearer") && s.config.Health.Operator != nil {
		is, err := s.config.Health.Operator(strings.TrimSpace(secret))
		switch {
		case err != nil:
			return http.StatusServiceUnavailable, err.Error()
		case is:
			return 0, ""
		}
		return http.StatusForbidden, "that is not the operator's token"
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	switch {
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
		return http.StatusForbidden, "a release from a browser needs the operator's token (--admin-token-file)"
	case err != nil || ip == nil || !ip.IsLoopback():
		return http.StatusForbidden, "a release needs the operator's token (--admin-token-file), or to come from this machine"
	}
	return 0, ""
}

// Health lists what health discovery knows of a service, or of all with no name.
func (c *Client) Health(ctx context.Context, name string) ([]ServiceHealth, error) {
	path := "/api/v1/health"
	if name != "" {
		path += "/" + segment(name)
	}
	var list []ServiceHealth
	return list, c.get(ctx, path, &list)
}

// Checkers lists the connected checkers.
func (c *Client) Checkers(ctx context.Context) ([]Checker, error) {
	var list []Checker
	return list, c.get(ctx, "/api/v1/checkers", &list)
}

// Release ends the freeze of a service. The token is the operator's; empty sends none.
func (c *Client) Release(ctx context.Context, service, token string) error {
	at := c.base + "/api/v1/health/" + segment(service) + "/release"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, http.NoBody)
	if err != nil {
		return fmt.Errorf("the admin address is no address: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	status, body, err := c.do(req)
	if err == nil && status != http.StatusOK {
		err = refused(at, status, body)
	}
	return err
}
