package consulwatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// access is with what Consul is reached now: the token and the certificates, which may be replaced while
// the source runs.
type access struct {
	given       *api.Config // as configured
	files       credentialFiles
	connections int

	complaint string // the failure to read files that was told last; Source.reloading guards it

	mu    sync.Mutex
	token string
	tls   api.TLSConfig // contents, without names of files
}

// newAccess remembers how a client was made; own is its completed configuration.
func newAccess(given, own *api.Config, connections int) *access {
	return &access{given: given, files: filesOf(given), connections: connections, token: own.Token, tls: own.TLSConfig}
}

// reloadTime is how often it is looked whether files have changed.
const reloadTime = 5 * time.Second

// secret returns the token.
func (a *access) secret() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

// certificates returns what there is to speak TLS with.
func (a *access) certificates() api.TLSConfig {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tls
}

// secured reports whether there is anything to speak TLS with.
func (a *access) secured() bool {
	t := a.certificates()
	return len(t.CAPem) > 0 || len(t.CertPEM) > 0
}

// rpc returns the TLS of a connection to a server's RPC port in a datacenter.
func (a *access) rpc(datacenter string) (*tls.Config, error) {
	cfg := a.certificates()
	secure, err := api.SetupTLSConfig(&cfg)
	if err != nil {
		return nil, err
	}
	secure.MinVersion = tls.VersionTLS12
	if secure.ServerName == "" {
		secure.ServerName = "server." + datacenter + ".consul" // the name that Consul's own clients look for
	}
	return secure, nil
}

// Reload reads the token and the certificates again. What cannot be read, as a token file that is empty,
// stays as it is, and the error says so. Nothing that is served is lost by it: queries that wait end as
// they began, and events go on from where they were, or as another reading when the token is another. What
// has not changed is left alone.
func (s *Source) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	token, certificates, err := s.reload()
	s.access.complaint = errorText(err)
	s.log.Info("the token and the certificates for Consul were read again", "new_token", token, "new_certificates", certificates)
	return err
}

// reload takes over what is new in the files. s.reloading is held.
func (s *Source) reload() (token, certificates bool, err error) {
	certificates, first := s.reloadCertificates()
	token, err = s.reloadToken()
	if first != nil && err != nil {
		err = fmt.Errorf("%w; %w", first, err)
	} else if first != nil {
		err = first
	}
	return token, certificates, err
}

// reloadToken takes over a new token.
func (s *Source) reloadToken() (changed bool, err error) {
	files := &s.access.files
	token, err := files.readToken()
	old := s.access.secret()
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: the token from before stays in use", err)
	case token == "" && files.token != "" && old != "":
		return false, fmt.Errorf("the token file %s is empty: the token from before stays in use", files.token)
	case token == "" || token == old:
		return false, nil
	}
	s.access.mu.Lock()
	s.access.token = token
	s.access.mu.Unlock()
	s.renamed.give()
	s.suspectRights()
	return true, nil
}

// reloadCertificates takes over new certificates: what is asked from now on is asked over new connections,
// and there is another for events before the one there is ends.
func (s *Source) reloadCertificates() (changed bool, err error) {
	fresh, err := s.access.renew()
	if err != nil || fresh == nil {
		return false, err
	}
	s.transport.replace(fresh)
	s.link.renew.give()
	return true, nil
}

// renew reads the certificates again, and returns a transport with them when they are others.
func (a *access) renew() (*transport, error) {
	contents, secure, err := a.files.readTLS()
	if err != nil {
		return nil, fmt.Errorf("%w: those from before stay in use", err)
	}
	if old := a.certificates(); sameTLS(&contents, &old) {
		return nil, nil
	}
	_, fresh, _, err := connectBy(a.given, credentials{token: a.secret(), tls: contents, secure: secure}, a.connections)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.tls = contents
	a.mu.Unlock()
	return fresh, nil
}

// isNamed reports whether a token is not the anonymous one.
func isNamed(token string) bool { return token != "" && token != anonymous }

// watchFiles reloads when a file of the access changes, until ctx ends. Files are compared by content,
// because secrets are often replaced by links. A fault counts when it is there twice: the first time may
// be in the middle of writing, or between the certificate and its key.
func (s *Source) watchFiles(ctx context.Context) {
	if !s.access.files.any() {
		return
	}
	tick := time.NewTicker(s.limits.Reload)
	defer tick.Stop()
	before := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		before = s.look(before)
	}
}

// look reloads once and returns what is wrong with the files; before is what was the last time.
func (s *Source) look(before string) (wrong string) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	token, certificates, err := s.reload()
	if token || certificates {
		s.log.Info("the token or the certificates for Consul have changed", "new_token", token, "new_certificates", certificates)
	}
	wrong = errorText(err)
	if wrong == "" {
		s.access.complaint = ""
	}
	if wrong == before && wrong != s.access.complaint {
		s.access.complaint = wrong
		s.log.Warn("the token or the certificates for Consul cannot be read: those from before stay in use", "reason", err)
	}
	return wrong
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// options returns the options of a query: each takes the token that is in use.
func (s *Source) options(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{Token: s.access.secret()}).WithContext(ctx)
}

// errRenewed means that a stream is to be opened again: with another token, or on another connection.
var (
	errRenamed = errors.New("the token is another")
	errMoved   = errors.New("there is another connection")
)
