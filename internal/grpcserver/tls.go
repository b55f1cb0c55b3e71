package grpcserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc/credentials"
)

// Files are where a certificate is, in PEM: the chain, its key, and if clients' certificates are to be
// verified the CAs they are from. That a client has one at all is not asked for here.
type Files struct{ Cert, Key, CA string }

// check says which flag is missing.
func (f Files) check() error {
	switch {
	case f.Cert == "" && f.Key == "":
		return errors.New("--grpc-tls-ca needs --grpc-tls-cert and --grpc-tls-key: clients' certificates are verified over TLS only")
	case f.Cert == "":
		return errors.New("--grpc-tls-key needs --grpc-tls-cert: give both")
	case f.Key == "":
		return errors.New("--grpc-tls-cert needs --grpc-tls-key: give both")
	}
	return nil
}

// contents is what the files hold.
type contents struct{ cert, key, ca []byte }

func (f Files) read() (c contents, err error) {
	for _, file := range []struct {
		flag, path string
		into       *[]byte
	}{
		{"--grpc-tls-cert", f.Cert, &c.cert}, {"--grpc-tls-key", f.Key, &c.key}, {"--grpc-tls-ca", f.CA, &c.ca},
	} {
		if file.path == "" {
			continue
		}
		if *file.into, err = os.ReadFile(file.path); err != nil {
			return contents{}, fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	return c, nil
}

func (c contents) equal(d contents) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key) && bytes.Equal(c.ca, d.ca)
}

// config returns what the contents make of TLS. No error shows any of them.
func (f Files) config(c contents) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("--grpc-tls-cert %s and --grpc-tls-key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		CipherSuites: suites(),
		NextProtos:   []string{"h2"},
		// A session that is taken up again brings a client's certificate that nobody verifies again.
		SessionTicketsDisabled: true,
	}
	if f.CA != "" {
		if config.ClientCAs, err = parseCAs(c.ca); err != nil {
			return nil, fmt.Errorf("--grpc-tls-ca %s: %w", f.CA, err)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}

// parseCAs is strict where [x509.CertPool.AppendCertsFromPEM] passes over what it cannot read.
func parseCAs(raw []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for n := 1; ; n++ {
		block, rest := pem.Decode(raw)
		switch {
		case block == nil && n == 1:
			return nil, errors.New("no certificate in PEM is in it")
		case block == nil:
			return pool, nil
		case block.Type != "CERTIFICATE":
			return nil, fmt.Errorf("block %d is a %s, not a CERTIFICATE", n, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n, err)
		}
		pool.AddCert(cert)
		raw = rest
	}
}

// expires is when a certificate ends to be valid.
func expires(config *tls.Config) time.Time { return config.Certificates[0].Leaf.NotAfter }

// credentials returns the server's side of TLS, by the certificate that is good at each handshake.
func (c *certificates) credentials() credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
	return shaker{credentials.NewTLS(config), config}
}

// shaker keeps of a connection why TLS failed on it, and asks no client to name HTTP/2 in TLS, as gRPC would:
// Linkerd's proxies name nothing to a control plane.
type shaker struct {
	credentials.TransportCredentials
	config *tls.Config
}

// ServerHandshake implements [credentials.TransportCredentials].
func (s shaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := raw.(*conn)
	if !ok {
		return s.TransportCredentials.ServerHandshake(raw)
	}
	secure := tls.Server(c, s.config)
	c.shaking.Store(true)
	err := secure.Handshake()
	c.shaking.Store(false)
	if err != nil {
		c.mu.Lock()
		c.failure = err
		c.mu.Unlock()
		return nil, nil, err
	}
	return secure, credentials.TLSInfo{
		State:          secure.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// suites are those of TLS 1.2 that HTTP/2 allows (RFC 9113, appendix A).
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
