package certdir_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/certdir"
)

// newSet makes a certificate that is its own root, with its key as Consul writes it.
func newSet(t *testing.T, serial int64) certdir.Set {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	return certdir.Set{Leaf: text, Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), Roots: text}
}

func open(t *testing.T, path string) *certdir.Dir {
	t.Helper()
	d, err := certdir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// pairIn is the certificate and key of a directory.
func pairIn(dir string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(filepath.Join(dir, certdir.LeafFile), filepath.Join(dir, certdir.KeyFile))
}

func TestASetIsThereWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "for", "it")
	d := open(t, path)
	for serial := range int64(5) {
		if err := d.Write(newSet(t, serial+1)); err != nil {
			t.Fatal(err)
		}
		pair, err := pairIn(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.SerialNumber.Int64(); got != serial+1 {
			t.Errorf("the certificate is number %d, want %d", got, serial+1)
		}
	}
	for name, mode := range map[string]fs.FileMode{certdir.LeafFile: 0o644, certdir.KeyFile: 0o600, certdir.RootsFile: 0o644} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v: %v", name, info.Mode(), mode, err)
		}
	}
	key, err := os.ReadFile(filepath.Join(path, certdir.KeyFile))
	if err != nil || !strings.HasPrefix(string(key), "-----BEGIN PRIVATE KEY-----") {
		t.Errorf("the key is not in the form that all of gRPC reads: %v", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 7 { // three files, the link, the lock, the set and the one before it
		t.Errorf("%d entries, want 7: %v %v", len(entries), entries, err)
	}
}

// TestAReaderFindsPairs reads as the watchers do: what does not fit was read in between, and does when it is read
// again.
func TestAReaderFindsPairs(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	sets := []certdir.Set{newSet(t, 1), newSet(t, 2)}
	if err := d.Write(sets[0]); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				for range 20 {
					if _, err = pairIn(path); err == nil {
						break
					}
				}
				if err != nil {
					t.Errorf("read 20 times: %v", err)
					return
				}
			}
		})
	}
	for i := range 50 {
		if err := d.Write(sets[i%2]); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

func TestWhatDoesNotFitIsNotWritten(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	good, other := newSet(t, 1), newSet(t, 2)
	if err := d.Write(good); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]certdir.Set{
		"another's key": {Leaf: good.Leaf, Key: other.Key, Roots: good.Roots},
		"no roots":      {Leaf: good.Leaf, Key: good.Key},
		"nothing":       {},
	} {
		err := d.Write(set)
		if err == nil {
			t.Errorf("%s: written", name)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %v", set, set, set, err), "PRIVATE KEY") {
			t.Errorf("%s: the key is printed", name)
		}
		if _, err := pairIn(path); err != nil {
			t.Errorf("%s: what was there is gone: %v", name, err)
		}
	}
}

func TestOnlyOneKeepsADirectory(t *testing.T) {
	path := t.TempDir()
	d, err := certdir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certdir.Open(path); err == nil || !strings.Contains(err.Error(), "kept by another process") {
		t.Errorf("a second one: %v", err)
	}
	if err := d.Write(newSet(t, 1)); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Write(newSet(t, 2)); err != nil { // the next one goes on
		t.Fatal(err)
	}
	if pair, err := pairIn(path); err != nil || pair.Leaf.SerialNumber.Int64() != 2 {
		t.Errorf("the certificate of the next one is not there: %v", err)
	}
}

func TestFilesOfOthersAreNotReplaced(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, certdir.KeyFile)
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := certdir.Open(path); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("opened over a file of others: %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAFileThatIsPutInTheWayIsTold: who reads it would never see another certificate.
func TestAFileThatIsPutInTheWayIsTold(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	if err := d.Write(newSet(t, 1)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, certdir.LeafFile)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(newSet(t, 2)); err != nil { // what is missing comes back
		t.Fatal(err)
	}
	if _, err := pairIn(path); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(newSet(t, 3)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("written behind a file of others: %v", err)
	}
}

func TestTheDirectoryMustBeOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := certdir.Open(file); err == nil {
		t.Error("a file was opened as a directory")
	}
}
