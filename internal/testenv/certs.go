package testenv

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Certs is a running `catenary certs`.
type Certs struct {
	// Dir is where it keeps its files.
	Dir string

	t       testing.TB
	log     string
	process *process
}

// StartCerts starts `catenary certs` for a directory that is gone after the test, and returns when the files are
// there.
func StartCerts(t testing.TB, env []string, args ...string) *Certs {
	t.Helper()
	c := &Certs{t: t, Dir: filepath.Join(t.TempDir(), "certs"), log: filepath.Join(t.TempDir(), "certs.log")}
	cmd := exec.Command(Program(t), append([]string{"certs", "--dir", c.Dir}, args...)...)
	cmd.Env = append(cleanEnv(), env...)
	var err error
	if c.process, err = start("catenary certs", c.log, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		showLog(t, "catenary certs", c.log)
	})
	err = c.process.await(func() error {
		_, err := c.Pair()
		return err
	})
	if err == nil {
		err = c.process.alive()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Pair returns the certificate and the key as they are on disk now, if the roots beside them vouch for them.
func (c *Certs) Pair() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.file("leaf.pem"), c.file("key.pem"))
	if err != nil {
		return tls.Certificate{}, err
	}
	roots, err := c.Roots()
	if err != nil {
		return tls.Certificate{}, err
	}
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return tls.Certificate{}, err
		}
		between.AddCert(cert)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return pair, err
}

// Roots returns the roots as they are on disk now.
func (c *Certs) Roots() (*x509.CertPool, error) {
	text, err := os.ReadFile(c.file("roots.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("there are no roots")
	}
	return pool, nil
}

func (c *Certs) file(name string) string { return filepath.Join(c.Dir, name) }

// Hangup sends the signal to read the token again and renew the certificate.
func (c *Certs) Hangup() {
	c.t.Helper()
	if err := c.process.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		c.t.Fatal(err)
	}
}

// Stop asks it to end, and returns its exit code when it has.
func (c *Certs) Stop() int {
	c.process.stop(false)
	return c.process.cmd.ProcessState.ExitCode()
}

// Log returns what it has logged so far.
func (c *Certs) Log() string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

// Replaced returns an error until the certificate on disk is another than that with the serial number.
func (c *Certs) Replaced(serial string) error {
	pair, err := c.Pair()
	if err == nil && pair.Leaf.SerialNumber.String() == serial {
		err = fmt.Errorf("the certificate in %s is still number %s", c.Dir, serial)
	}
	return err
}
