package consulwatch

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/consul/api"
)

// credentials is with what Consul is reached: contents, never names of files, so that what is in use is
// what was looked at, whatever is written to the files meanwhile.
type credentials struct {
	token  string
	tls    api.TLSConfig
	secure *tls.Config // made of tls, for the HTTP API
}

// credentialFiles are where credentials are read from; what has no file is as configured.
type credentialFiles struct {
	token, ca, caPath, cert, key string

	config   *api.Config
	standard *api.Config // by the environment
}

// filesOf returns the files that Consul's client reads for a configuration, by its rules of precedence.
func filesOf(cfg *api.Config) credentialFiles {
	def, own := api.DefaultConfig(), &cfg.TLSConfig
	f := credentialFiles{
		config: cfg, standard: def, token: def.TokenFile,
		ca: cmp.Or(own.CAFile, def.TLSConfig.CAFile), caPath: cmp.Or(own.CAPath, def.TLSConfig.CAPath),
		cert: cmp.Or(own.CertFile, def.TLSConfig.CertFile), key: cmp.Or(own.KeyFile, def.TLSConfig.KeyFile),
	}
	switch {
	case cfg.TokenFile != "" && cfg.TokenFile != def.TokenFile:
		f.token = cfg.TokenFile
	case cfg.Token != "" && cfg.Token != def.Token:
		f.token = ""
	}
	return f
}

// any reports whether there is a file at all.
func (f *credentialFiles) any() bool {
	return f.token != "" || f.ca != "" || f.caPath != "" || f.cert != "" || f.key != ""
}

// read reads everything, as for a start.
func (f *credentialFiles) read() (credentials, error) {
	token, err := f.readToken()
	if err != nil {
		return credentials{}, err
	}
	contents, secure, err := f.readTLS()
	if err != nil {
		return credentials{}, err
	}
	token = cmp.Or(token, f.config.Token, f.standard.Token)
	return credentials{token: token, tls: contents, secure: secure}, nil
}

// readToken returns the token in its file; none when there is no file, or nothing in it.
func (f *credentialFiles) readToken() (string, error) {
	if f.token == "" {
		return "", nil
	}
	raw, err := os.ReadFile(f.token)
	if err != nil {
		return "", fmt.Errorf("the token file cannot be read: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("the token file %s holds something else than one token", f.token)
	}
	return token, nil
}

// readTLS returns what the files of certificates hold, and what is made of it.
func (f *credentialFiles) readTLS() (api.TLSConfig, *tls.Config, error) {
	def, own := &f.standard.TLSConfig, f.config.TLSConfig
	own.CAFile, own.CAPath, own.CertFile, own.KeyFile = "", "", "", ""
	own.Address = cmp.Or(own.Address, def.Address)
	own.InsecureSkipVerify = own.InsecureSkipVerify || def.InsecureSkipVerify
	var err error
	ca := readFile
	file := f.ca
	if file == "" && len(own.CAPem) == 0 {
		ca, file = readDirectory, f.caPath
	}
	for _, part := range []struct {
		to   *[]byte
		read func(string) ([]byte, error)
		file string
	}{{&own.CAPem, ca, file}, {&own.CertPEM, readFile, f.cert}, {&own.KeyPEM, readFile, f.key}} {
		if part.file == "" {
			continue
		}
		if *part.to, err = part.read(part.file); err != nil {
			return own, nil, fmt.Errorf("the certificates for Consul cannot be read: %w", err)
		}
	}
	secure, err := api.SetupTLSConfig(&own)
	if err != nil {
		var names []string
		for _, name := range []string{file, f.cert, f.key} {
			if name != "" {
				names = append(names, name)
			}
		}
		return own, nil, fmt.Errorf("the certificates for Consul cannot be used (%s): %w", strings.Join(names, ", "), err)
	}
	return own, secure, nil
}

var errEmptyFile = errors.New("it is empty")

// readFile reads a file that must not be empty: no certificate is not what an empty file asks for.
func readFile(name string) ([]byte, error) {
	raw, err := os.ReadFile(name)
	if err == nil && len(bytes.TrimSpace(raw)) == 0 {
		err = &fs.PathError{Op: "read", Path: name, Err: errEmptyFile}
	}
	return raw, err
}

// readDirectory reads all files of a directory, and passes over the directories in it.
func readDirectory(name string) ([]byte, error) {
	var all []byte
	err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if at, err := os.Stat(path); err != nil || at.IsDir() {
			return err // a link to a directory, as in the volumes of Kubernetes
		}
		raw, err := readFile(path)
		all = append(append(all, raw...), '\n')
		return err
	})
	return all, err
}

// sameTLS reports whether two have the same contents.
func sameTLS(a, b *api.TLSConfig) bool {
	return bytes.Equal(a.CAPem, b.CAPem) && bytes.Equal(a.CertPEM, b.CertPEM) && bytes.Equal(a.KeyPEM, b.KeyPEM)
}
