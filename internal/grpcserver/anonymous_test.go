package grpcserver

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// certified refuses the streams of clients that have shown no certificate, but for those that only wait.
func certified(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if info.FullMethod != echoWait && !hasCertificate(stream.Context()) {
		return status.Error(codes.Unauthenticated, "no certificate")
	}
	return next(srv, stream)
}

// late is how a client connects that comes by its certificate later.
func late(t *testing.T, a *testenv.Authority, has *atomic.Bool) credentials.TransportCredentials {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.Issue("late"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if has.Load() {
			return &pair, nil
		}
		return &tls.Certificate{}, nil
	}}
	config.RootCAs.AppendCertsFromPEM(read(t, a.CAFile))
	return credentials.NewTLS(config)
}

func TestAClientThatHasACertificateByNowGetsAConnectionForIt(t *testing.T) {
	ca := testenv.NewAuthority(t)
	s := start(t, Config{TLS: filesOf(ca), Options: []grpc.ServerOption{grpc.ChainStreamInterceptor(certified)}})
	var has atomic.Bool
	conn := s.dial(t, late(t, ca, &has))
	if err := say(open(t, conn), 1); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("without a certificate: %v", err)
	}
	has.Store(true)
	testenv.Eventually(t, patient, func() error {
		stream, err := conn.NewStream(t.Context(), &echo().Streams[0], echoStream)
		if err != nil {
			return err
		}
		return say(stream, 1)
	})
}

func TestARefusalLeavesOtherStreamsOfTheConnectionAlone(t *testing.T) {
	ca := testenv.NewAuthority(t)
	s := start(t, Config{TLS: filesOf(ca), Options: []grpc.ServerOption{grpc.ChainStreamInterceptor(certified)}})
	var has atomic.Bool
	conn := s.dial(t, late(t, ca, &has))
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, echoWait); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patient, func() error { return s.counts.stands(1, 1) })
	if err := say(open(t, conn), 1); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("without a certificate: %v", err)
	}
	// Another client has nothing beside its refusal. When its connection is gone, that of the first would be too.
	other := s.dial(t, late(t, ca, &has))
	if err := say(open(t, other), 1); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("without a certificate: %v", err)
	}
	testenv.Eventually(t, patient, func() error {
		if err := s.counts.stands(1, 1); err != nil {
			return fmt.Errorf("the connection of the other: %w", err)
		}
		return nil
	})
}
