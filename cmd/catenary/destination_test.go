package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/destination"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// linkerdServer says what each stream is to hear, one after the other, and then holds the stream, or ends it with
// an error. It notes the tokens that are shown to it.
type linkerdServer struct {
	pb.UnimplementedDestinationServer
	streams  [][]*pb.Update
	profiles []*pb.DestinationProfile // one for each stream
	ends     error

	mu     sync.Mutex // guards all below
	opened int
	tokens []string
}

// Get implements [pb.DestinationServer].
func (s *linkerdServer) Get(q *pb.GetDestination, st grpc.ServerStreamingServer[pb.Update]) error {
	s.mu.Lock()
	n := s.opened
	s.opened++
	md, _ := metadata.FromIncomingContext(st.Context())
	s.tokens = append(s.tokens, strings.Join(md.Get("x-consul-token"), ","), q.GetContextToken())
	s.mu.Unlock()
	if n < len(s.streams) {
		for _, u := range s.streams[n] {
			if err := st.Send(u); err != nil {
				return err
			}
		}
	}
	if n+1 < len(s.streams) || s.ends != nil {
		return s.ends
	}
	<-st.Context().Done()
	return nil
}

// GetProfile implements [pb.DestinationServer].
func (s *linkerdServer) GetProfile(_ *pb.GetDestination, st grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	s.mu.Lock()
	n := s.opened
	s.opened++
	s.mu.Unlock()
	if n == len(s.profiles) {
		return s.ends
	}
	return st.Send(s.profiles[n])
}

// listen serves on a free port, and returns its address.
func (s *linkerdServer) listen(t *testing.T, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(opts...)
	pb.RegisterDestinationServer(g, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return l.Addr().String()
}

// lines is what a verb writes, while it runs.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// asks runs the verb to its end.
func asks(ctx context.Context, out, talk *lines, args ...string) error {
	cmd := newRoot()
	cmd.SetArgs(append([]string{"destination"}, args...))
	cmd.SetOut(out)
	cmd.SetErr(talk)
	return cmd.ExecuteContext(ctx)
}

func adds(last ...byte) *pb.Update {
	set := &pb.WeightedAddrSet{}
	for _, b := range last {
		set.Addrs = append(set.Addrs, &pb.WeightedAddr{Addr: address(b), Weight: 10_000})
	}
	return &pb.Update{Update: &pb.Update_Add{Add: set}}
}

func removes(last byte) *pb.Update {
	return &pb.Update{Update: &pb.Update_Remove{Remove: &pb.AddrSet{Addrs: []*pb.TcpAddress{address(last)}}}}
}

func address(last byte) *pb.TcpAddress {
	return &pb.TcpAddress{Ip: &pb.IPAddress{Ip: &pb.IPAddress_Ipv4{Ipv4: 10<<24 | uint32(last)}}, Port: 80}
}

func none(exists bool) *pb.Update {
	return &pb.Update{Update: &pb.Update_NoEndpoints{NoEndpoints: &pb.NoEndpoints{Exists: exists}}}
}

// TestDestinationGetKeepsTheRulesOfClients has a server say things in an odd order and twice, go away and come back.
func TestDestinationGetKeepsTheRulesOfClients(t *testing.T) {
	t.Parallel()
	s := &linkerdServer{streams: [][]*pb.Update{
		{removes(9), adds(1, 2), adds(2, 1), adds(), {}, removes(9), adds(3), none(true), none(true), adds(1, 2)},
		{}, // ends without a word: what is known stays
		{adds(2)},
		{adds(2), none(false)},
	}}
	addr := s.listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out, talk lines
	ended := make(chan error)
	go func() { ended <- asks(ctx, &out, &talk, "get", "api.service.consul", "--grpc-addr", addr) }()
	want := strings.Join([]string{
		"no endpoints: the service exists and has none",
		"+ 10.0.0.1:80 weight=10000", "+ 10.0.0.2:80 weight=10000",
		"+ 10.0.0.3:80 weight=10000",
		"- 10.0.0.1:80", "- 10.0.0.2:80", "- 10.0.0.3:80", "no endpoints: the service exists and has none",
		"+ 10.0.0.1:80 weight=10000", "+ 10.0.0.2:80 weight=10000",
		"- 10.0.0.1:80",
		"- 10.0.0.2:80", "no endpoints: there is no such service", "",
	}, "\n")
	testenv.Eventually(t, 20*time.Second, func() error {
		if got := out.text(); got != want {
			return fmt.Errorf("it printed\n%s\nwant\n%s", got, want)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended by its user: %v", err)
	}
	if got := talk.text(); strings.Count(got, "the server ended it; asking again") != 3 {
		t.Errorf("it said %s", got)
	}
}

func TestDestinationGetAsJSONIsALineForEachMessage(t *testing.T) {
	t.Parallel()
	s := &linkerdServer{streams: [][]*pb.Update{{adds(1), adds(), removes(1)}}, ends: status.Error(codes.FailedPrecondition, "of two minds")}
	var out, talk lines
	err := asks(t.Context(), &out, &talk, "get", "api.service.consul", "-o", "json", "--grpc-addr", s.listen(t))
	if got := strings.Split(strings.TrimSpace(out.text()), "\n"); len(got) != 3 || got[1] != `{"add":{}}` || !strings.HasPrefix(got[2], `{"remove":{`) {
		t.Errorf("got %q", got)
	}
	if exitCode(err) != exitFindings || !strings.Contains(err.Error(), "of two minds") {
		t.Errorf("it ends with %d: %v", exitCode(err), err)
	}
}

// TestDestinationEndsByWhatIsWrong has the server end every stream.
func TestDestinationEndsByWhatIsWrong(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]int{
		codes.InvalidArgument: exitUsage, codes.FailedPrecondition: exitFindings,
		codes.PermissionDenied: exitSource, codes.Unauthenticated: exitSource, codes.Unimplemented: exitSource,
	} {
		s := &linkerdServer{ends: status.Error(code, "the reason")}
		var out, talk lines
		err := asks(t.Context(), &out, &talk, "get", "api.service.consul", "--grpc-addr", s.listen(t))
		if exitCode(err) != want || !strings.Contains(err.Error(), "the reason") || s.opened != 1 {
			t.Errorf("%s: after %d streams it exits with %d: %v", code, s.opened, exitCode(err), err)
		}
	}
}

func TestDestinationWaitsForASlowServer(t *testing.T) {
	t.Parallel()
	s := &linkerdServer{}
	a := newAsking()
	a.dial.addr, a.once, a.patience = s.listen(t), true, 50*time.Millisecond
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(&lines{})
	err := a.follow(cmd, func(ctx context.Context, client pb.DestinationClient) (receive, error) {
		st, err := client.Get(ctx, a.question("api.service.consul"))
		return func() (bool, error) { _, err := st.Recv(); return true, err }, err
	})
	if exitCode(err) != exitSource || !strings.Contains(err.Error(), "nothing was said in time") {
		t.Errorf("of a server that says nothing: %v", err)
	}
	s = &linkerdServer{ends: status.Error(codes.DeadlineExceeded, "context deadline exceeded")}
	err = asks(t.Context(), &lines{}, &lines{}, "get", "api.service.consul", "--once", "--grpc-addr", s.listen(t))
	if exitCode(err) != exitSource || !strings.Contains(err.Error(), "nothing was said in time") {
		t.Errorf("of a server whose clock is ahead: %v", err)
	}
}

// TestDestinationProfilePrintsChanges has a server say a profile again on another stream, and then another one.
func TestDestinationProfilePrintsChanges(t *testing.T) {
	t.Parallel()
	one, other := &pb.DestinationProfile{FullyQualifiedName: "one"}, &pb.DestinationProfile{FullyQualifiedName: "other"}
	s := &linkerdServer{profiles: []*pb.DestinationProfile{one, one, other}, ends: status.Error(codes.FailedPrecondition, "of two minds")}
	var out, talk lines
	err := asks(t.Context(), &out, &talk, "profile", "api.service.consul", "--grpc-addr", s.listen(t))
	if got := out.text(); exitCode(err) != exitFindings || got != "profile one\nprofile other\n" {
		t.Errorf("it printed %q, and ends with %v", got, err)
	}
}

func TestDestinationShowsItsToken(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", "")
	t.Setenv("CONSUL_HTTP_TOKEN", "secret-of-a-client")
	s := &linkerdServer{streams: [][]*pb.Update{{adds(1)}}}
	var out, talk lines
	err := asks(t.Context(), &out, &talk, "get", "api.service.consul", "--once", "--grpc-addr", s.listen(t), "--context", "ns:default")
	if err != nil || strings.Join(s.tokens, " ") != "secret-of-a-client ns:default" {
		t.Errorf("the server was shown %q: %v", s.tokens, err)
	}
	if said := out.text() + talk.text(); strings.Contains(said, "secret") {
		t.Errorf("it printed %s", said)
	}
}

func TestDestinationShowsItsTokenToNobodyOnTheWay(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", "")
	t.Setenv("CONSUL_HTTP_TOKEN", "secret-of-a-client")
	var out, talk lines
	err := asks(t.Context(), &out, &talk, "get", "api.service.consul", "--once", "--grpc-addr", "192.0.2.1:18000")
	if err == nil || !strings.Contains(err.Error(), "not sent unencrypted to 192.0.2.1:18000: give --grpc-ca-file") {
		t.Errorf("a token for another machine, without TLS: %v", err)
	}
	for addr, want := range map[string]bool{
		"127.0.0.1:18000": true, "[::1]:18000": true, "localhost:18000": true, "unix:/run/catenary": true,
		"192.0.2.1:18000": false, "catenary:18000": false, "dns:///localhost:18000": false, "": false,
	} {
		if got := (&grpcDialFlags{addr: addr}).private(); got != want {
			t.Errorf("%q is private: %t", addr, got)
		}
	}
	if !(&grpcDialFlags{addr: "catenary:18000", ca: "ca.pem"}).private() {
		t.Error("TLS is not taken for private")
	}
}

func TestDestinationSpeaksTLS(t *testing.T) {
	t.Parallel()
	ours, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	cert, key := ours.Issue("server", "catenary.example")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := (&grpcDialFlags{ca: ours.CAFile})
	config, err := roots.config()
	if err != nil {
		t.Fatal(err)
	}
	secure := (&linkerdServer{streams: [][]*pb.Update{{adds(1)}, {adds(1)}}}).listen(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: config.RootCAs, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12,
	})))
	plain := (&linkerdServer{}).listen(t)
	mine, myKey := ours.Issue("client")
	theirs, theirKey := other.Issue("client")
	for _, c := range []struct {
		name, addr string
		args       []string
		code       int
		says       string
	}{
		{"by address", secure, []string{"--grpc-ca-file", ours.CAFile}, 0, ""},
		{"with a certificate, by name", secure, []string{
			"--grpc-ca-file", ours.CAFile, "--grpc-cert-file", mine, "--grpc-key-file", myKey, "--grpc-name", "catenary.example",
		}, 0, ""},
		{"of another authority", secure, []string{"--grpc-ca-file", other.CAFile}, 3, "--grpc-ca-file is not of the authority"},
		{"another name", secure, []string{"--grpc-ca-file", ours.CAFile, "--grpc-name", "other.example"}, 3, "give by --grpc-name"},
		{"a certificate of another authority", secure, []string{
			"--grpc-ca-file", ours.CAFile, "--grpc-cert-file", theirs, "--grpc-key-file", theirKey,
		}, 3, "of the authority in the server's --grpc-tls-ca"},
		{"in plaintext", secure, nil, 3, "give --grpc-ca-file"},
		{"to a server in plaintext", plain, []string{"--grpc-ca-file", ours.CAFile}, 3, "the server speaks no TLS"},
		{"a certificate without its key", secure, []string{"--grpc-cert-file", mine}, 2, "give both"},
		{"a key without its certificate", secure, []string{"--grpc-key-file", myKey}, 2, "give both"},
		{"another key", secure, []string{"--grpc-cert-file", mine, "--grpc-key-file", theirKey}, 2, "does not match"},
		{"a file that is not there", secure, []string{"--grpc-ca-file", "/nonexistent"}, 2, "--grpc-ca-file"},
		{"a file without a certificate", secure, []string{"--grpc-ca-file", myKey}, 2, "no certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, talk lines
			err := asks(t.Context(), &out, &talk, append([]string{"get", "api.service.consul", "--once", "--grpc-addr", c.addr}, c.args...)...)
			if exitCode(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it exits with %d: %v", exitCode(err), err)
			}
			if c.code == 0 && !strings.Contains(out.text(), "+ 10.0.0.1:80") {
				t.Errorf("it printed %s", out.text())
			}
		})
	}
}

func TestProxiesOfLinkerdShowWhatTheyHave(t *testing.T) {
	for form, want := range map[string]string{"linkerd": "2", "conduit": "2", "linkerd-profile": "-"} {
		p := linkerdProxy(destination.StreamStatus{ID: form + ":api#1", Form: form, Endpoints: 2, Messages: 3})
		if got := versions(p, "endpoint"); got != want || p.State != xds.StateSynced || len(p.Types) != 1 {
			t.Errorf("of a stream of %s it shows %q of %+v", form, got, p)
		}
	}
}
