package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
)

// grpcDialFlags say how a client reaches the port that clients connect to.
type grpcDialFlags struct{ addr, ca, cert, key, name string }

func (f *grpcDialFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` of the server")
	flags.StringVar(&f.ca, "grpc-ca-file", "", "the `file` with the certificates to verify the server by; without it, and the flags below, the connection is not encrypted")
	flags.StringVar(&f.cert, "grpc-cert-file", "", "the `file` with the certificate to show to the server")
	flags.StringVar(&f.key, "grpc-key-file", "", "the `file` with the key of --grpc-cert-file")
	flags.StringVar(&f.name, "grpc-name", "", "the `name` in the certificate of the server (default the host of --grpc-addr)")
}

// encrypted reports whether the connection is to have TLS.
func (f *grpcDialFlags) encrypted() bool { return cmp.Or(f.ca, f.cert, f.key, f.name) != "" }

// private reports whether nobody else reads what is sent: it is encrypted, or stays on this machine.
func (f *grpcDialFlags) private() bool {
	if f.encrypted() || strings.HasPrefix(f.addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(f.addr)
	return err == nil && bootstrap.IsLoopback(host)
}

// silentLine is after how long a server that says nothing is asked whether it is there.
const silentLine = 30 * time.Second

// open returns the connection. It is made when it is used.
func (f *grpcDialFlags) open() (*grpc.ClientConn, error) {
	shake := insecure.NewCredentials()
	if f.encrypted() {
		config, err := f.config()
		if err != nil {
			return nil, err
		}
		shake = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(shake),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silentLine, Timeout: silentLine / 3}))
	if err != nil {
		return nil, fmt.Errorf("--grpc-addr %s: %w", f.addr, err)
	}
	return conn, nil
}

// config is what the files make of TLS. No error shows any of them.
func (f *grpcDialFlags) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.name}
	if f.ca != "" {
		raw, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--grpc-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--grpc-ca-file %s: no certificate in PEM is in it", f.ca)
		}
	}
	switch {
	case f.cert == "" && f.key == "":
		return config, nil
	case f.cert == "":
		return nil, errors.New("--grpc-key-file needs --grpc-cert-file: give both")
	case f.key == "":
		return nil, errors.New("--grpc-cert-file needs --grpc-key-file: give both")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--grpc-cert-file %s and --grpc-key-file %s: %w", f.cert, f.key, err)
	}
	// It is shown whatever authorities the server names, so that it is the server that says what is wrong with it.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config, nil
}

// advices say what to do about errors of connections, which tell what one side saw; the first that fits counts.
var advices = []struct {
	words  string
	advice string
}{
	{"first record does not look like a TLS handshake", "the server speaks no TLS: leave out --grpc-ca-file and the other flags for it"},
	{"tls: unknown certificate authority", "--grpc-cert-file must be of the authority in the server's --grpc-tls-ca"},
	{"tls: expired certificate", "--grpc-cert-file has expired"},
	{"certificate signed by unknown authority", "--grpc-ca-file is not of the authority of the server's certificate"},
	{"certificate is valid for", "give by --grpc-name one of the names that the certificate has"},
	{"doesn't contain any IP SANs", "give by --grpc-name one of the names that the certificate has"},
	{"looked like an HTTP/1.1 header", "what speaks there is no gRPC: --grpc-addr is that of the server's own --grpc-addr"},
	{"authentication handshake failed", "where the server speaks no TLS, leave out --grpc-ca-file and the other flags for it"},
	// A server that does not take a certificate may have cut the connection before its reason is read.
	{"broken pipe", cut},
	{"connection reset by peer", cut},
	{"error reading server preface", cut},
}

const cut = "where the server speaks TLS, give --grpc-ca-file; and --grpc-cert-file must be of the authority in the server's --grpc-tls-ca"

// advise is the text of an error, and what to do about it.
func advise(err error) string {
	if errors.Is(err, io.EOF) {
		return "the server ended it"
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if status.Code(err) == codes.Unauthenticated {
		return text + " (give --token-file, or --grpc-cert-file and --grpc-key-file)"
	}
	for _, a := range advices {
		if strings.Contains(text, a.words) {
			return text + " (" + a.advice + ")"
		}
	}
	return text
}
