package consulwatch

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// access is with what Consul is reached: the token and the certificates, which may be replaced while the
// source runs.
type access struct {
	given       *api.Config // as configured; what is in files is read again
	connections int

	mu     sync.Mutex
	token  string
	tls    api.TLSConfig
	files  []string
	digest [sha256.Size]byte // of the files' contents
}

// newAccess remembers how a client was made; own is its completed configuration.
func newAccess(given, own *api.Config, connections int) *access {
	a := &access{given: given, connections: connections}
	a.set(own)
	return a
}

func (a *access) set(own *api.Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.tls, a.files = own.Token, own.TLSConfig, nil
	for _, file := range []string{own.TokenFile, own.TLSConfig.CAFile, own.TLSConfig.CertFile, own.TLSConfig.KeyFile} {
		if file != "" {
			a.files = append(a.files, file)
		}
	}
	a.digest = digest(a.files)
}

// digest identifies the contents of files. One that cannot be read is as good as another.
func digest(files []string) [sha256.Size]byte {
	h := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		part := sha256.Sum256(content)
		h.Write(part[:])
		if err != nil {
			h.Write([]byte{0})
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// secret returns the token.
func (a *access) secret() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

// secured reports whether there is anything to speak TLS with.
func (a *access) secured() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := &a.tls
	return t.CAFile != "" || t.CAPath != "" || len(t.CAPem) > 0 || t.CertFile != "" || len(t.CertPEM) > 0
}

// rpc returns the TLS of a connection to a server's RPC port in a datacenter.
func (a *access) rpc(datacenter string) (*tls.Config, error) {
	a.mu.Lock()
	cfg := a.tls
	a.mu.Unlock()
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

// stale reports whether a file has changed since it was read.
func (a *access) stale() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return digest(a.files) != a.digest
}

// Reload reads the token and the certificates again. What cannot be read leaves all as it is. Nothing
// that is served is lost by it: queries that wait end as they began, and events go on from where they
// were, or as another reading when the token is another.
func (s *Source) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	_, fresh, own, err := connect(s.access.given, s.access.connections)
	if err != nil {
		return err
	}
	token := s.access.secret()
	s.access.set(own)
	s.transport.replace(fresh)
	s.rights.named.Store(isNamed(own.Token))
	s.log.Info("the token and the certificates for Consul were read again", "new_token", own.Token != token)
	s.link.renew.give()
	if own.Token != token {
		s.renamed.give()
		s.suspectRights()
	}
	return nil
}

// isNamed reports whether a token is not the anonymous one.
func isNamed(token string) bool { return token != "" && token != anonymous }

// watchFiles reloads when a file of the access changes, until ctx ends. Files are compared by content,
// because secrets are often replaced by links.
func (s *Source) watchFiles(ctx context.Context) {
	tick := time.NewTicker(s.limits.Reload)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !s.access.stale() {
			failed = ""
			continue
		}
		err := s.Reload()
		if err != nil && err.Error() != failed {
			s.log.Warn("the token or the certificates for Consul cannot be read: those from before stay in use", "reason", err)
		}
		failed = errorText(err)
	}
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
