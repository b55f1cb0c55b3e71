package consulwatch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// writeFile replaces the content of a file.
func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A token file that has nothing in it is not a wish to have no token.
func TestATokenFileThatIsLostKeepsTheToken(t *testing.T) {
	t.Parallel()
	c, out := shop(t), &log{}
	file := filepath.Join(t.TempDir(), "token")
	first, second := c.NewToken(readAll), c.NewToken(readAll)
	writeFile(t, file, first)
	cfg := with(c, "")
	cfg.API.TokenFile, cfg.Logger = file, out.logger()
	cfg.Limits = impatient()
	cfg.Limits.Reload = 20 * time.Millisecond
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	r.ready("dc1")
	held := instances(apiHealth, facts.Present, "api:passing")
	r.eventually(held)
	told := func(text string) {
		t.Helper()
		testenv.Eventually(t, soon, func() error {
			if n := out.lines(text); n != 1 {
				return fmt.Errorf("%d lines say %q", n, text)
			}
			return nil
		})
		r.throughout(all(held, failing(apiHealth, false)))
		if n := out.lines(text); n != 1 {
			t.Errorf("%d lines say %q", n, text)
		}
		if r.source.access.secret() != first {
			t.Errorf("the token is another although %s", text)
		}
	}
	writeFile(t, file, "\n")
	told("is empty")
	writeFile(t, file, first+"\nand more\n")
	told("something else than one token")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	told("no such file")
	if err := r.source.Reload(); err == nil || !strings.Contains(err.Error(), "stays in use") || strings.Contains(err.Error(), first) {
		t.Errorf("a reload without a token file: %v", err)
	}
	writeFile(t, file, second)
	testenv.Eventually(t, soon, func() error {
		if r.source.access.secret() != second {
			return fmt.Errorf("the token is the old one")
		}
		return nil
	})
	c.DeleteToken(first)
	r.throughout(all(held, failing(apiHealth, false)))
	if n := out.lines(first) + out.lines(second); n > 0 {
		t.Errorf("%d lines hold a token", n)
	}
}

// Half of what is written to disk is no reason for a warning: a certificate comes before its key.
func TestAFaultThatPassesIsNotTold(t *testing.T) {
	t.Parallel()
	ca, out := testenv.NewAuthority(t), &log{}
	cert, key := ca.Issue("client")
	other, otherKey := ca.Issue("other")
	s, err := New(Config{API: &api.Config{Address: "127.0.0.1:1", TLSConfig: api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}}, Logger: out.logger()})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := s.look(""); wrong != "" {
		t.Fatal(wrong)
	}
	swap := func(from, to string) {
		t.Helper()
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, to, string(raw))
	}
	swap(other, cert)
	wrong := s.look("")
	if !strings.Contains(wrong, cert) || !strings.Contains(wrong, "stay in use") {
		t.Errorf("a certificate without its key: %q", wrong)
	}
	swap(otherKey, key)
	if wrong = s.look(wrong); wrong != "" || out.lines("WARN") > 0 {
		t.Errorf("both are there: %q, and %d warnings", wrong, out.lines("WARN"))
	}
	if n := out.lines("have changed"); n != 1 {
		t.Errorf("%d lines that the certificates are others", n)
	}
	writeFile(t, ca.CAFile, "") // which must not mean the authorities of the system, or no TLS
	for range 3 {
		wrong = s.look(wrong)
	}
	if n := out.lines("is empty"); n != 1 || !s.access.secured() {
		t.Errorf("%d warnings of one fault; secured: %t", n, s.access.secured())
	}
}

func TestAReloadWithoutAChangeDoesNothing(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	cert, key := ca.Issue("client")
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "a-token")
	s, err := New(Config{API: &api.Config{Address: "127.0.0.1:1", TokenFile: file, TLSConfig: api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}}})
	if err != nil {
		t.Fatal(err)
	}
	given := func(of <-chan struct{}) bool {
		select {
		case <-of:
			return true
		default:
			return false
		}
	}
	base, renew, renamed := s.transport.base.Load(), s.link.renew.next(), s.renamed.next()
	if err := s.Reload(); err != nil || s.transport.base.Load() != base || given(renew) || given(renamed) {
		t.Errorf("nothing has changed: %v, renewed %t, renamed %t", err, given(renew), given(renamed))
	}
	writeFile(t, file, "another-token")
	if err := s.Reload(); err != nil || s.transport.base.Load() != base || given(renew) || !given(renamed) {
		t.Errorf("the token is another: %v, renewed %t, renamed %t", err, given(renew), given(renamed))
	}
	renamed = s.renamed.next()
	ca.Issue("client")
	if err := s.Reload(); err != nil || s.transport.base.Load() == base || !given(renew) || given(renamed) {
		t.Errorf("the certificate is another: %v, renewed %t, renamed %t", err, given(renew), given(renamed))
	}
}

func TestADirectoryOfAuthorities(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.pem", "b.pem"} {
		ca := testenv.NewAuthority(t)
		raw, err := os.ReadFile(ca.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(raw))
	}
	files := filesOf(&api.Config{TLSConfig: api.TLSConfig{CAPath: dir}})
	contents, secure, err := files.readTLS()
	if err != nil || bytes.Count(contents.CAPem, []byte("BEGIN")) != 2 || secure.RootCAs == nil {
		t.Fatalf("%v, %s", err, contents.CAPem)
	}
	writeFile(t, filepath.Join(dir, "b.pem"), " ")
	if _, _, err := files.readTLS(); err == nil || !strings.Contains(err.Error(), "b.pem") {
		t.Errorf("one is empty: %v", err)
	}
}

func TestAnAnswerThatIsTooLargeIsNotRead(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.transport.closeIdle()
	body := rows(5, "a:passing:80")
	f.set(apiPath, body)
	q := queryFor(apiHealth, "")
	for name, c := range map[string]struct {
		most int64
		fits bool
	}{"just fits": {int64(len(body)), true}, "one byte too many": {int64(len(body)) - 1, false}} {
		s.transport.most = c.most
		a, err := s.ask(t.Context(), q, 0, 0)
		if c.fits && (err != nil || string(a.body) != body) || !c.fits && (err == nil || !strings.Contains(err.Error(), "larger than 256 MiB")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAnErrorSaysIsCut(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>\n"+strings.Repeat("nothing here\n", 1<<16))
		return true
	}
	s, err := New(f.config())
	if err != nil {
		t.Fatal(err)
	}
	defer s.transport.closeIdle()
	_, err = s.ask(t.Context(), queryFor(apiHealth, ""), 0, 0)
	if err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "502 (<html> nothing here") {
		t.Errorf("it says %v", err)
	}
}
