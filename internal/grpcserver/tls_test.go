package grpcserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// patient is for conditions that hold soon, unless the machine is busy.
const patient = 20 * time.Second

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	good := filesOf(testenv.NewAuthority(t))
	other := filesOf(testenv.NewAuthority(t))
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	write(t, text, []byte("this is not PEM\n"))
	both := filepath.Join(dir, "both.pem")
	key := read(t, good.Key)
	write(t, both, append(read(t, good.CA), key...))
	missing := filepath.Join(dir, "missing")
	for name, tt := range map[string]struct {
		files Files
		want  []string
	}{
		"no key":              {Files{Cert: good.Cert}, []string{"--grpc-tls-cert needs --grpc-tls-key"}},
		"no certificate":      {Files{Key: good.Key}, []string{"--grpc-tls-key needs --grpc-tls-cert"}},
		"only an authority":   {Files{CA: good.CA}, []string{"--grpc-tls-ca needs --grpc-tls-cert and --grpc-tls-key"}},
		"missing certificate": {Files{missing, good.Key, ""}, []string{"--grpc-tls-cert", missing, "no such file"}},
		"missing key":         {Files{good.Cert, missing, ""}, []string{"--grpc-tls-key", missing, "no such file"}},
		"missing authority":   {Files{good.Cert, good.Key, missing}, []string{"--grpc-tls-ca", missing, "no such file"}},
		"certificate is text": {Files{text, good.Key, ""}, []string{"--grpc-tls-cert " + text, "certificate input"}},
		"key is text":         {Files{good.Cert, text, ""}, []string{"--grpc-tls-key " + text, "key input"}},
		"key of another":      {Files{good.Cert, other.Key, ""}, []string{"--grpc-tls-cert " + good.Cert, "--grpc-tls-key " + other.Key, "does not match"}},
		"authority is text":   {Files{good.Cert, good.Key, text}, []string{"--grpc-tls-ca " + text, "no certificate in PEM"}},
		"authority has a key": {Files{good.Cert, good.Key, both}, []string{"--grpc-tls-ca " + both, "block 2 is a PRIVATE KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Logger: (&lines{}).logger(), Metrics: &counts{}, TLS: tt.files})
			if err == nil {
				t.Fatal("the server accepts it")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), keyText(key)) {
				t.Error("the error shows the key")
			}
		})
	}
}

// keyText is a part of a key that would be recognised.
func keyText(key []byte) string { return strings.Split(string(key), "\n")[1] }

// nameServed returns whose certificate a new connection gets.
func nameServed(addr string) (string, error) {
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func serves(addr, name string) func() error {
	return func() error {
		if got, err := nameServed(addr); err != nil || got != name {
			return fmt.Errorf("the certificate is of %q (%w), want %q", got, err, name)
		}
		return nil
	}
}

func TestACertificateIsReplacedUnderALiveStream(t *testing.T) {
	ca, next := testenv.NewAuthority(t), testenv.NewAuthority(t)
	files, authority := filesOf(ca), read(t, ca.CAFile)
	s := start(t, Config{TLS: files})
	stream := open(t, s.dial(t, trusting(t, ca, ca)))
	alive := func() {
		t.Helper()
		if err := say(stream, 1); err != nil {
			t.Fatalf("the stream was cut: %v", err)
		}
	}
	alive()

	write(t, files.CA, read(t, next.CAFile)) // first: what is read with the certificate is as new as that
	renew(t, next, files, "second")
	testenv.Eventually(t, patient, serves(s.addr, "second"))
	alive()
	if err := say(open(t, s.dial(t, trusting(t, next, next))), 1); err != nil {
		t.Errorf("a client of the new authority is refused: %v", err)
	}
	if err := refusedBy(t, s, trusting(t, next, ca)); err != nil {
		t.Error(err)
	}

	key := read(t, files.Key)
	write(t, files.Cert, []byte("broken"))
	testenv.Eventually(t, patient, func() error { return logged(s, "the last good one stays in force", files.Cert) })
	write(t, files.CA, []byte("broken too"))
	if err := serves(s.addr, "second")(); err != nil {
		t.Error(err)
	}
	write(t, files.CA, authority)
	renew(t, ca, files, "third")
	testenv.Eventually(t, patient, serves(s.addr, "third"))
	alive()
	testenv.Eventually(t, patient, func() error { return logged(s, "is good again") })
	if strings.Contains(s.log.String(), keyText(key)) {
		t.Error("the log shows a key")
	}
}

func logged(s *running, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(s.log.String(), text) {
			return fmt.Errorf("the log lacks %q", text)
		}
	}
	return nil
}

// refusedBy returns an error unless the server refuses a client with such credentials.
func refusedBy(t *testing.T, s *running, creds credentials.TransportCredentials) error {
	t.Helper()
	conn := s.dial(t, creds)
	stream, err := conn.NewStream(t.Context(), &echo().Streams[0], echoStream)
	if err == nil {
		err = say(stream, 1)
	}
	if status.Code(err) != codes.Unavailable {
		return fmt.Errorf("got %w, want Unavailable", err)
	}
	return nil
}

func TestABrokenFileIsLoggedOnce(t *testing.T) {
	files := filesOf(testenv.NewAuthority(t))
	log, counts := &lines{}, &counts{}
	c, err := openCertificates(Config{TLS: files, Logger: log.logger(), Metrics: counts})
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.Key, []byte("broken"))
	for range 3 {
		c.reload()
	}
	if n := strings.Count(log.String(), "cannot be read again"); n != 1 {
		t.Errorf("it is logged %d times, want once: %s", n, log)
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	c.reload()
	if n := strings.Count(log.String(), "cannot be read again"); n != 2 {
		t.Errorf("another trouble is not logged: %s", log)
	}
	if counts.certificates != 1 || counts.broken != 2 {
		t.Errorf("counted %d good and %d broken, want 1 and 2", counts.certificates, counts.broken)
	}
}

func TestClientsAreVerifiedIfTheyHaveACertificate(t *testing.T) {
	ca, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	verified := make(chan int, 1)
	look := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		p, _ := peer.FromContext(stream.Context())
		verified <- len(p.AuthInfo.(credentials.TLSInfo).State.VerifiedChains)
		return next(srv, stream)
	}
	s := start(t, Config{TLS: filesOf(ca), Options: []grpc.ServerOption{grpc.ChainStreamInterceptor(look)}})
	for name, tt := range map[string]struct {
		creds    credentials.TransportCredentials
		verified int
	}{"none": {trusting(t, ca), 0}, "of the authority": {trusting(t, ca, ca), 1}} {
		if err := say(open(t, s.dial(t, tt.creds)), 1); err != nil {
			t.Errorf("certificate %s: %v", name, err)
		}
		if n := <-verified; n != tt.verified {
			t.Errorf("certificate %s: the service sees %d verified chains, want %d", name, n, tt.verified)
		}
	}
	if err := refusedBy(t, s, trusting(t, ca, other)); err != nil {
		t.Errorf("certificate of another authority: %v", err)
	}
	testenv.Eventually(t, patient, func() error { return logged(s, "do not agree on TLS", "unknown authority") })
	if err := refusedBy(t, s, trusting(t, other, ca)); err != nil {
		t.Errorf("a client that trusts another authority: %v", err)
	}
	old := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11})
	if err := refusedBy(t, s, old); err != nil {
		t.Errorf("TLS 1.1: %v", err)
	}
}

func TestTLSAndPlaintextDoNotMeetWithoutAWord(t *testing.T) {
	ca := testenv.NewAuthority(t)
	for name, tt := range map[string]struct {
		files      Files
		creds      credentials.TransportCredentials
		heard, log string
	}{
		"plaintext to TLS": {filesOf(ca), nil, "this port serves TLS", "a client speaks plaintext, and this port serves TLS"},
		"TLS to plaintext": {Files{}, trusting(t, ca), "first record does not look like a TLS handshake", "a client speaks TLS, and this port serves plaintext"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{TLS: tt.files})
			// A connection that fails is tried again: what matters is that the reason is among what is said.
			testenv.Eventually(t, patient, func() error {
				stream, err := s.dial(t, tt.creds).NewStream(t.Context(), &echo().Streams[0], echoStream)
				if err == nil {
					err = say(stream, 1)
				}
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), tt.heard) {
					return fmt.Errorf("the client hears %w, want %q", err, tt.heard)
				}
				return nil
			})
			testenv.Eventually(t, patient, func() error { return logged(s, tt.log) })
			if n := strings.Count(s.log.String(), tt.log); n != 1 {
				t.Errorf("it is logged %d times", n)
			}
			if s.counts.refusals()[ReasonTLS] == 0 {
				t.Errorf("refused %v", s.counts.refusals())
			}
		})
	}
}

// Envoy says in one breath what gRPC says in several.
func TestAClientInPlaintextIsToldHoweverMuchItSays(t *testing.T) {
	s := start(t, Config{TLS: filesOf(testenv.NewAuthority(t))})
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(calls(1, func(*http2.Framer, uint32) {})); err != nil {
		t.Fatal(err)
	}
	if said, _ := hear(conn); !strings.Contains(said.String(), "this port serves TLS") {
		t.Errorf("the client hears %q", said)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnHTTPClientIsTold(t *testing.T) {
	s := start(t, Config{TLS: filesOf(testenv.NewAuthority(t))})
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patient, func() error { return logged(s, "does not speak gRPC") })
}

// Linkerd's proxies name no protocol in TLS, where gRPC's libraries insist on it.
func TestAClientNeedNotNameHTTP2(t *testing.T) {
	ca := testenv.NewAuthority(t)
	s := start(t, Config{TLS: filesOf(ca)})
	pair, err := tls.LoadX509KeyPair(ca.Issue("proxy"))
	if err != nil {
		t.Fatal(err)
	}
	for name, protocols := range map[string][]string{"nothing": nil, "h2": {"h2"}, "h2 and another": {"x", "h2"}} {
		config := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, NextProtos: protocols}
		conn := s.dial(t, nil, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
		}))
		if err := say(open(t, conn), 1); err != nil {
			t.Errorf("%s is named: %v", name, err)
		}
	}
	// Whoever names only others is refused, and whoever speaks as HTTP/2 forbids.
	for name, config := range map[string]*tls.Config{
		"another protocol": {InsecureSkipVerify: true, NextProtos: []string{"x"}},
		"an old cipher": {
			InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA},
		},
	} {
		if conn, err := tls.Dial("tcp", s.addr, config); err == nil {
			_ = conn.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}
