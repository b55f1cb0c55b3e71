package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/xds/session"
)

// world is an offer as a server has it: nothing is allocated to read it.
type world struct {
	resources map[*session.Type]map[string]*session.Resource
	names     map[*session.Type][]string
}

func (w *world) Lookup(t *session.Type, name string) (*session.Resource, session.State) {
	if r := w.resources[t][name]; r != nil {
		return r, session.Present
	}
	return nil, session.Absent
}

func (w *world) Names(t *session.Type) []string { return w.names[t] }
func (w *world) Complete() bool                 { return true }

// newWorld has n clusters, each with endpoints, a listener and a route.
func newWorld(n int) *world {
	w := &world{resources: map[*session.Type]map[string]*session.Resource{}, names: map[*session.Type][]string{}}
	for _, t := range session.Types() {
		w.resources[t] = map[string]*session.Resource{}
		for i := range n {
			w.put(t, i, "1")
			w.names[t] = append(w.names[t], nameOf(i))
		}
	}
	return w
}

func (w *world) put(t *session.Type, i int, body string) {
	w.resources[t][nameOf(i)] = session.NewResource(t, nameOf(i), []byte(body), nil)
}

var serviceNames = func() (names [200]string) {
	for i := range names {
		names[i] = fmt.Sprintf("service-%03d.default.dc1.internal.catenary.consul", i)
	}
	return names
}()

func nameOf(i int) string { return serviceNames[i] }

// follower is a client that accepts everything.
type follower struct {
	s     *session.Session
	form  session.Form
	names map[string][]string
	// requests are reused, as a server's decoder may.
	ack session.Request
}

var start = time.Unix(1e9, 0)

// follow opens a stream and brings it to rest.
func follow(tb testing.TB, form session.Form, w *world, named ...*session.Type) *follower {
	tb.Helper()
	f := &follower{s: session.New(session.Config{Form: form, ControlPlane: "catenary"}), form: form, names: map[string][]string{}}
	for _, t := range []*session.Type{typeOf("cluster"), typeOf("listener")} {
		f.must(tb, f.s.Request(start, &session.Request{TypeURL: t.URL}))
		f.drain(tb, w)
	}
	for _, t := range named {
		for _, name := range w.names[t] {
			f.names[t.URL] = append(f.names[t.URL], string([]byte(name))) // its own memory, as a request's
		}
		f.must(tb, f.s.Request(start, &session.Request{TypeURL: t.URL, Names: f.names[t.URL], Subscribe: f.names[t.URL]}))
		f.drain(tb, w)
	}
	return f
}

func (f *follower) must(tb testing.TB, err error) {
	if err != nil {
		tb.Fatal(err)
	}
}

// drain takes turns and answers until nothing comes, and returns how many responses came.
func (f *follower) drain(tb testing.TB, w *world) (count, bytes int) {
	for f.s.Due() {
		out, _ := f.s.Turn(start, w)
		for i := range out {
			count++
			for _, chunk := range out[i].Chunks() {
				bytes += len(chunk)
			}
			f.ack = session.Request{TypeURL: out[i].Type.URL, Nonce: out[i].Nonce}
			if f.form == session.SotW {
				f.ack.Names, f.ack.Version = f.names[f.ack.TypeURL], out[i].Version
			}
			f.must(tb, f.s.Request(start, &f.ack))
		}
	}
	return count, bytes
}

var forms = map[string]session.Form{"sotw": session.SotW, "delta": session.Delta}

// BenchmarkFlip is one health flip on a stream: a note, the turn that sends the endpoints, the answer.
func BenchmarkFlip(b *testing.B) {
	endpoints := typeOf("endpoint")
	for _, n := range []int{10, 200} {
		w := newWorld(n)
		states := []*session.Resource{w.resources[endpoints][nameOf(3)], session.NewResource(endpoints, nameOf(3), []byte("2"), nil)}
		for name, form := range forms {
			f := follow(b, form, w, endpoints, typeOf("route"))
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					w.resources[endpoints][nameOf(3)] = states[(i+1)%2]
					f.s.Dirty(endpoints, nameOf(3))
					if count, _ := f.drain(b, w); count != 1 {
						b.Fatalf("%d responses, want 1", count)
					}
				}
			})
			w.resources[endpoints][nameOf(3)] = states[0]
		}
	}
}

// BenchmarkTurnOfNothing is a turn that finds nothing noted.
func BenchmarkTurnOfNothing(b *testing.B) {
	w := newWorld(200)
	f := follow(b, session.Delta, w, typeOf("endpoint"))
	b.ReportAllocs()
	for b.Loop() {
		f.s.Turn(start, w)
	}
}

// BenchmarkJoin is a stream from its first request to rest.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{10, 200} {
		w := newWorld(n)
		for name, form := range forms {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					follow(b, form, w, typeOf("endpoint"), typeOf("route"))
				}
			})
		}
	}
}

// BenchmarkDirtyAll is a stream that compares everything and finds nothing changed.
func BenchmarkDirtyAll(b *testing.B) {
	w := newWorld(200)
	f := follow(b, session.Delta, w, typeOf("endpoint"), typeOf("route"))
	b.ReportAllocs()
	for b.Loop() {
		f.s.DirtyAll()
		f.s.Turn(start, w)
	}
}
