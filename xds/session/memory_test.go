package session_test

import (
	"runtime"
	"testing"

	"github.com/catenary-mesh/catenary/xds/session"
)

// TestMemoryOfAStream holds what a session costs to its bound, resources and offer apart: they are
// shared by all streams.
func TestMemoryOfAStream(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			const streams, bound = 100, 35_000
			w := newWorld(200)
			sessions := make([]*session.Session, 0, streams)
			before := heap()
			for range streams {
				f := follow(t, form, w, typeOf("endpoint"))
				flip(t, f, w)
				sessions = append(sessions, f.s)
			}
			each := (heap() - before) / streams
			t.Logf("%d bytes a stream", each)
			if each > bound {
				t.Errorf("a stream of 600 resources costs %d bytes, want %d at most", each, bound)
			}
			runtime.KeepAlive(sessions)
			runtime.KeepAlive(w)
		})
	}
}

// flip leaves behind what a change on a running stream does.
func flip(tb testing.TB, f *follower, w *world) {
	tb.Helper()
	endpoints := typeOf("endpoint")
	w.put(endpoints, 3, "2")
	f.s.Dirty(endpoints, nameOf(3))
	if count, _ := f.drain(tb, w); count != 1 {
		tb.Fatalf("%d responses, want 1", count)
	}
	w.put(endpoints, 3, "1")
	f.s.Dirty(endpoints, nameOf(3))
	f.drain(tb, w)
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestNothingDueAllocatesNothing: most wake-ups of most streams find nothing to do.
func TestNothingDueAllocatesNothing(t *testing.T) {
	w, endpoints := newWorld(200), typeOf("endpoint")
	f := follow(t, session.Delta, w, endpoints)
	if f.s.Due() {
		t.Error("a turn is due although all is answered")
	}
	if n := testing.AllocsPerRun(100, func() { f.s.Turn(start, w) }); n > 0 {
		t.Errorf("a turn with nothing to do allocates %v times", n)
	}
	// An unchanged name is looked at and left.
	if n := testing.AllocsPerRun(100, func() { f.s.Dirty(endpoints, nameOf(7)); f.s.Turn(start, w) }); n > 0 {
		t.Errorf("a turn that finds nothing changed allocates %v times", n)
	}
}
