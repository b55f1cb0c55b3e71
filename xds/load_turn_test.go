package xds

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/xds/session"
)

// turner is a stream whose turns the test takes.
type turner struct {
	t     *testing.T
	store *facts.Store
	s     *Server
	st    *stream
}

// newTurner opens a stream that has taken the endpoints of api.
func newTurner(t *testing.T) *turner {
	store := facts.New()
	u := &turner{t: t, store: store, s: NewServer(Config{
		Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
		Datacenter: "dc1", TrustDomain: "catenary.local",
	})}
	t.Cleanup(u.s.sub.Close)
	store.Commit(func(tx *facts.Tx) {
		tx.Services("dc1", []string{"api"}, facts.Reading{Confirmed: true})
		tx.CloseWorld()
	})
	u.address("10.0.0.1")
	metadata, err := structpb.NewStruct(map[string]any{"catenary": map[string]any{
		"service": "web", "upstreams": []any{map[string]any{"service": "api", "bind_port": 9191}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name := "api.default.dc1.internal.catenary.local"
	u.st, err = u.s.open(call{ctx: t.Context(), form: session.Delta}, &session.Request{
		Node: &corev3.Node{Id: "web-1", Metadata: metadata}, TypeURL: session.EndpointURL, Subscribe: []string{name},
	})
	if err != nil {
		t.Fatal(err)
	}
	u.turn(u.s.pub.root.Load, "10.0.0.1")
	return u
}

// address gives api one instance.
func (u *turner) address(address string) {
	u.store.Commit(func(tx *facts.Tx) {
		tx.Instances(facts.Health("dc1", "api"), []*facts.Instance{{
			Node:    facts.Node{Node: "n1", Address: "127.0.0.1", Datacenter: "dc1"},
			Service: facts.Service{ID: "api-1", Service: "api", Address: address, Port: 8080},
		}}, facts.Reading{Confirmed: true})
	})
}

// turn takes a turn that reads a root, and accepts what it sends: one set with the address, or nothing.
func (u *turner) turn(load func() *root, want string) {
	u.t.Helper()
	out, _, _ := u.st.take(time.Now(), load)
	got := ""
	for i := range out {
		got += string(out[i].Resources[0].Body)
		ack := &session.Request{TypeURL: out[i].Type.URL, Nonce: out[i].Nonce}
		if _, err := u.s.request(u.st, ack); err != nil {
			u.t.Fatal(err)
		}
	}
	if len(out) > 1 || want == "" && got != "" || !strings.Contains(got, want) {
		u.t.Errorf("the turn sends %d responses %q, want %q", len(out), got, want)
	}
}

// TestAChangeInTheMiddleOfATurnIsSentByTheNext publishes it just after the turn has read what there is. Its
// mark must survive the turn.
func TestAChangeInTheMiddleOfATurnIsSentByTheNext(t *testing.T) {
	u := newTurner(t)
	u.turn(func() *root {
		before := u.s.pub.root.Load()
		u.address("10.0.0.2")
		u.s.pub.update(u.s.sub)
		return before
	}, "")
	u.turn(u.s.pub.root.Load, "10.0.0.2")
	u.turn(u.s.pub.root.Load, "")
}

// TestAChangeThatIsMarkedIsThere has a turn read what there is as soon as it was told that there is something.
func TestAChangeThatIsMarkedIsThere(t *testing.T) {
	u := newTurner(t)
	for len(u.st.bell) > 0 {
		<-u.st.bell
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-u.st.bell
		u.turn(u.s.pub.root.Load, "10.0.0.2")
	}()
	u.address("10.0.0.2")
	u.s.pub.update(u.s.sub)
	<-done
}
