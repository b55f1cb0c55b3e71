package xds_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// bubble is a control plane and one client without a connection, in the time of a test.
type bubble struct {
	*control
	form     session.Form
	requests chan []byte
	got      []session.Response
	ended    chan error
}

// inBubble runs a test with a client of the upstream api, which has asked for clusters.
func inBubble(t *testing.T, sotw bool, f func(*bubble)) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		server := xds.NewServer(xds.Config{
			Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
			Datacenter: "dc1", TrustDomain: "catenary.local",
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = server.Run(ctx) }()
		b := &bubble{
			control: &control{t: t, store: store, server: server}, form: session.Delta,
			requests: make(chan []byte, 10), ended: make(chan error, 1),
		}
		if sotw {
			b.form = session.SotW
		}
		b.load("api")
		b.closed()
		v := &visit{ctx: ctx, requests: b.requests, sent: func(r *session.Response) { b.got = append(b.got, *r) }}
		go func() { b.ended <- deskOf(server).open(b.form, v) }()
		b.say(message{node: declaring(t, "mute", "web", port("api", 9191)), url: session.ClusterURL})
		synctest.Wait()
		if len(b.got) != 1 || b.got[0].Type.URL != session.ClusterURL {
			t.Fatalf("sent were %v", b.got)
		}
		f(b)
		cancel()
		synctest.Wait()
	})
}

func (b *bubble) say(m message) { b.requests <- m.bytes(b.form) }

// answer accepts or refuses a response.
func (b *bubble) answer(r session.Response, refuse string) {
	b.say(message{url: r.Type.URL, nonce: r.Nonce, info: r.Version, refuse: refuse})
}

// TestAClientThatDoesNotAnswerIsStaleAndThenClosed has clients talk of all but what they were sent.
func TestAClientThatDoesNotAnswerIsStaleAndThenClosed(t *testing.T) {
	asked := []string{clusterOf("api")}
	for name, talk := range map[string]func(b *bubble, i int){
		"in silence":             func(*bubble, int) {},
		"asking for other types": func(b *bubble, _ int) { b.say(message{url: session.ListenerURL}) },
		"asking for more": func(b *bubble, i int) {
			name := fmt.Sprintf("other-%d", i)
			b.say(message{url: session.ClusterURL, names: []string{"*", name}, add: []string{name}})
		},
		"answering what was not sent": func(b *bubble, i int) {
			b.say(message{url: session.ClusterURL, nonce: fmt.Sprintf("made up %d", i), refuse: "no"})
		},
		"answering all but one": func(b *bubble, i int) {
			other := slices.Clone(b.got[1:])
			if i == 0 {
				b.say(message{url: session.EndpointURL, names: asked, add: asked})
			}
			for _, r := range other {
				b.answer(r, "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			forms(t, func(t *testing.T, sotw bool) {
				inBubble(t, sotw, func(b *bubble) {
					for i := range 10 {
						talk(b, i)
						synctest.Wait()
						time.Sleep(30 * time.Second)
						synctest.Wait()
						if p := b.of("mute"); i < 9 && (len(p) != 1 || p[0].State != xds.StateStale) {
							b.t.Fatalf("after %d times 30 s: %+v", i+1, p)
						}
					}
					if err := <-b.ended; status.Code(err) != codes.DeadlineExceeded {
						b.t.Errorf("the stream ends as %v", err)
					}
				})
			})
		})
	}
}

func TestAClientThatAnswersLateIsServedOn(t *testing.T) {
	for name, refuse := range map[string]string{"ACK": "", "NACK": "I do not like it"} {
		t.Run(name, func(t *testing.T) {
			forms(t, func(t *testing.T, sotw bool) {
				inBubble(t, sotw, func(b *bubble) {
					time.Sleep(4 * time.Minute)
					b.answer(b.got[0], refuse)
					synctest.Wait()
					time.Sleep(time.Hour)
					synctest.Wait()
					want := xds.StateSynced
					if refuse != "" {
						want = xds.StateNacked
					}
					if p := b.of("mute"); len(p) != 1 || p[0].State != want || len(b.got) != 1 {
						b.t.Errorf("after an hour: %+v, %d responses", p, len(b.got))
					}
				})
			})
		})
	}
}
