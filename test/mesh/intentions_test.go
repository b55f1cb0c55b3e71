package mesh_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// ending is how soon what an intention comes to forbid must have ended.
const ending = 5 * time.Second

// line is an open connection to a TCP service.
type line struct {
	conn   net.Conn
	answer *bufio.Reader
}

// open opens a connection that has carried something.
func open(t *testing.T, from, to *member) *line {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", from.ports[to.name]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l := &line{conn, bufio.NewReader(conn)}
	if _, err := fmt.Fprintln(conn, "first"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{to.name, "first"} {
		if err := l.hears(want, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *line) hears(want string, within time.Duration) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	text, err := l.answer.ReadString('\n')
	if err == nil && strings.TrimSpace(text) != want {
		err = fmt.Errorf("%q, want %q", text, want)
	}
	return err
}

// echoes checks that the connection still carries.
func (l *line) echoes() error {
	if _, err := fmt.Fprintln(l.conn, "still"); err != nil {
		return err
	}
	return l.hears("still", 5*time.Second)
}

// watch opens a stream that stays open until the server or a proxy ends it.
func watch(t *testing.T, from, to *member) (ended <-chan struct{}) {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///127.0.0.1:%d", from.ports[to.name]), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: to.name})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = stream.Recv() // it ends with an error
	}()
	t.Cleanup(func() {
		cancel()
		conn.Close()
	})
	return done
}

func TestATighterIntentionEndsWhatItForbidsAndNothingElse(t *testing.T) {
	t.Parallel()
	m := startMesh(t, nil, four("tcp", "grpc", "http", "http")...)
	m.directions(m.flows)
	tcp, rpc, c, d := m.members[0], m.members[1], m.members[2], m.members[3]
	idle, forbidden, allowed := open(t, c, tcp), open(t, c, tcp), open(t, d, tcp)
	forbiddenStream, allowedStream := watch(t, c, rpc), watch(t, d, rpc)

	begin := time.Now()
	m.deny(c, tcp, rpc)
	if err := idle.hears("", ending); err == nil || isTimeout(err) {
		t.Errorf("an idle connection of the forbidden source goes on: %v", err)
	}
	testenv.Eventually(t, ending, func() error {
		if err := forbidden.echoes(); err == nil {
			return fmt.Errorf("a connection of the forbidden source goes on")
		}
		return nil
	})
	select {
	case err := <-forbiddenStream:
		t.Logf("the stream of the forbidden source ended: %v", err)
	case <-time.After(ending):
		t.Error("a stream of the forbidden source goes on")
	}
	t.Logf("ended within %v of the first write", time.Since(begin).Round(time.Millisecond))
	m.denied(c, tcp)
	m.denied(c, rpc)

	m.permit(tcp, rpc)
	m.flows(c, tcp)
	m.flows(c, rpc)
	// Rules that return to what they were hold again for who came in between.
	again, againStream := open(t, c, tcp), watch(t, c, rpc)
	m.deny(c, tcp, rpc)
	if err := again.hears("", ending); err == nil || isTimeout(err) {
		t.Errorf("a connection that was forbidden a second time goes on: %v", err)
	}
	select {
	case err := <-againStream:
		t.Logf("the stream that was forbidden a second time ended: %v", err)
	case <-time.After(ending):
		t.Error("a stream that was forbidden a second time goes on")
	}
	m.permit(tcp, rpc)
	if err := allowed.echoes(); err != nil {
		t.Errorf("a connection of a source that was allowed all the time: %v", err)
	}
	select {
	case <-allowedStream:
		t.Error("a stream of a source that was allowed all the time ended")
	default:
	}
	for _, of := range []*member{tcp, rpc} {
		stats := of.envoy.Stats()
		if n := stats["listener_manager.listener_modified"] + stats["listener_manager.listener_in_place_updated"]; n != 0 {
			t.Errorf("the sidecar of %s had %d listeners changed", of.name, n)
		}
	}
}

// deny forbids a source to talk to destinations, permit takes that back.
func (m *mesh) deny(source *member, destinations ...*member) {
	m.t.Helper()
	for _, to := range destinations {
		m.consul.WriteEntry(fmt.Sprintf("Kind = \"service-intentions\"\nName = %q\nSources { Name = %q Action = \"deny\" }", to.name, source.name))
	}
}

func (m *mesh) permit(destinations ...*member) {
	m.t.Helper()
	for _, to := range destinations {
		m.consul.DeleteEntry("service-intentions", to.name)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as it comes from the connection
	return ok && timeout.Timeout()
}
