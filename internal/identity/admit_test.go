package identity_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

func TestWhoIsAdmitted(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		if g := b.admit("web", "web"); g.Reader() == "" {
			t.Error("a token with limited rights may read everything")
		}
		b.admit("web", "") // a client without a service needs only a token
		b.refused("web", "api", identity.Denied)
		b.refused("", "web", identity.Unauthenticated)
		b.refused("", "", identity.Unauthenticated)
		b.refused("unknown", "web", identity.Unauthenticated)
		b.refused("unknown", "", identity.Unauthenticated)
	})
}

func TestTheAnonymousTokenCountsWhereItHasRights(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("", write("web"))
		b.admit("", "web")
		b.refused("", "api", identity.Unauthenticated)
	})
}

func TestOneQuestionForHoweverManyStreams(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		b.consul.set(func(f *fakeConsul) { f.delay = 300 * time.Millisecond })
		for range 2 { // connected together, cut together, and back together
			var group sync.WaitGroup
			for range 300 {
				group.Go(func() {
					g := b.admit("web", "web")
					time.Sleep(time.Second)
					g.Release()
				})
			}
			group.Wait()
		}
		calls := b.consul.calls()
		if len(calls) != 1 || len(calls[0].questions) != 1 {
			t.Errorf("asked %v", calls)
		}
	})
}

func TestWhatWillBeReadIsAskedInTheSameCall(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"), read("api"))
		g := b.admit("web", "web", "API", "db")
		b.store.Need("plan", facts.Rights(g.Reader(), "api"), facts.Rights(g.Reader(), "db"))
		b.right(g, "api", facts.Present)
		if calls := b.consul.calls(); len(calls) != 1 || len(calls[0].questions) != 3 {
			t.Errorf("asked %v", calls)
		}
		b.right(g, "db", facts.Absent)
	})
}

func TestAPolicyThatWasMendedIsSeenSoon(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", read("api"))
		b.refused("web", "web", identity.Denied)
		b.consul.allow("web", write("web"))
		time.Sleep(6 * time.Second)
		b.admit("web", "web")
	})
}

func TestNamesAreAskedAsTheyAreRegistered(t *testing.T) {
	inTime(t, func(b *bench) {
		services := func(names ...string) {
			b.store.Commit(func(tx *facts.Tx) { tx.Services("dc1", names, facts.Reading{Confirmed: true}) })
		}
		services("Web", "Secret")
		// The rules of an ACL are about Secret; look-ups of secret find it too.
		b.consul.allow("web", write("Web"), read("secret"), read("late"))
		g := b.admit("web", "wEb")
		b.store.Need("plan", facts.Rights(g.Reader(), "secret"), facts.Rights(g.Reader(), "late"))
		b.right(g, "secret", facts.Absent)
		b.right(g, "late", facts.Present)
		services("Web", "Secret", "Late")
		b.right(g, "late", facts.Absent)
		services("Web", "secret")
		time.Sleep(21 * time.Second)
		b.right(g, "secret", facts.Present)
	})
}

func TestWithoutACLsEverybodyIsAdmittedUntilThereAreSome(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.set(func(f *fakeConsul) { f.off = true })
		b.consul.allow("web", write("web"))
		time.Sleep(time.Second)
		nobody := b.admit("", "web")
		somebody := b.admit("web", "web")
		if nobody.Reader() != "" || somebody.Reader() != "" {
			t.Errorf("readers %q and %q, and there are no rights", nobody.Reader(), somebody.Reader())
		}
		b.stays(nobody, time.Minute)
		b.consul.away("gone")
		b.stays(nobody, 2*time.Hour)
		b.admit("", "web") // nothing says that Consul has ACLs now
		b.consul.away("")
		b.consul.set(func(f *fakeConsul) { f.off = false })
		b.revoked(nobody, 30*time.Second, identity.Unavailable)
		b.revoked(somebody, time.Second, identity.Unavailable)
		b.refused("", "web", identity.Unauthenticated)
		g := b.admit("web", "web")
		b.store.Need("plan", facts.Rights(g.Reader(), "api"))
		b.right(g, "api", facts.Absent)
		b.consul.set(func(f *fakeConsul) { f.off = true })
		b.stays(g, time.Minute)
		b.right(g, "api", facts.Present)
	})
}

func TestAnAnswerThatMakesNoSenseConcernsNobodyElse(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		g := b.admit("web", "web")
		b.consul.set(func(f *fakeConsul) { f.err = errors.New("400 Bad Request") })
		b.refused("other", "other", identity.Unavailable)
		b.consul.set(func(f *fakeConsul) { f.err = nil })
		b.refused("other", "other", identity.Unauthenticated)
		b.stays(g, time.Minute)
	})
}
