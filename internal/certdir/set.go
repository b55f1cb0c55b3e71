package certdir

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Set is what a directory holds, as PEM. It prints as "[redacted]".
type Set struct {
	// Leaf is the certificate, with the intermediates behind it.
	Leaf []byte
	// Key is the key of Leaf, in any form that Go reads.
	Key []byte
	// Roots are all roots that are trusted.
	Roots []byte
}

// String keeps the key from logs.
func (Set) String() string { return "[redacted]" }

// GoString keeps the key from logs.
func (Set) GoString() string { return "[redacted]" }

// file is one of a directory.
type file struct {
	name    string
	content []byte
	mode    fs.FileMode
}

var (
	errPair  = errors.New("the certificate and the key do not belong together, and are not written")
	errRoots = errors.New("there is no certificate among the roots, so that nobody would be trusted: they are not written")
)

// files are those of a set. What is wrong with a key is not told: the words of decoders are not ours to vouch for.
func (s Set) files() ([]file, error) {
	pair, err := tls.X509KeyPair(s.Leaf, s.Key)
	if err != nil {
		return nil, errPair
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, errPair
	}
	if !x509.NewCertPool().AppendCertsFromPEM(s.Roots) {
		return nil, errRoots
	}
	return []file{
		{LeafFile, s.Leaf, 0o644},
		{KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600},
		{RootsFile, s.Roots, 0o644},
	}, nil
}

// write writes the file down to the disk. Its mode is that from the beginning.
func (f file) write(dir string) (err error) {
	out, err := os.OpenFile(filepath.Join(dir, f.name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.Write(f.content); err != nil {
		return err
	}
	return out.Sync()
}
