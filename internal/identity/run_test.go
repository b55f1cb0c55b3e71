package identity_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

func TestReadingRightsAreFactsThatFollowConsul(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"), read("api"))
		g := b.admit("web", "web")
		b.right(g, "api", facts.Unknown)
		b.store.Need("plan", facts.Rights(g.Reader(), "api"), facts.Rights(g.Reader(), "db"))
		b.right(g, "api", facts.Present)
		b.right(g, "db", facts.Absent)
		b.consul.allow("web", read("db"))
		b.consul.set(func(f *fakeConsul) { delete(f.rules["web"], read("api")) })
		time.Sleep(21 * time.Second)
		b.right(g, "api", facts.Absent)
		b.right(g, "db", facts.Present)
		b.stays(g, time.Minute)
		b.store.Need("plan", facts.Rights(g.Reader(), "db"))
		b.right(g, "api", facts.Unknown)
		b.store.Need("plan", facts.Rights("nobody", "db"))
		b.right(g, "db", facts.Unknown)
	})
}

func TestARevocationEndsTheStreamsItConcerns(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"), write("shop"))
		b.consul.allow("api", write("api"))
		web, shop, api := b.admit("web", "web"), b.admit("web", "shop"), b.admit("api", "api")
		b.store.Need("plan", facts.Rights(web.Reader(), "api"))
		b.stays(web, 5*time.Minute)

		b.consul.set(func(f *fakeConsul) { delete(f.rules["web"], write("web")) })
		b.revoked(web, 25*time.Second, identity.Denied)
		b.stays(shop, time.Minute)

		b.consul.set(func(f *fakeConsul) { delete(f.rules, "web") })
		b.revoked(shop, 25*time.Second, identity.Unauthenticated)
		b.right(shop, "api", facts.Unknown)
		b.stays(api, time.Minute)
		b.refused("web", "web", identity.Unauthenticated)
		web.Release()
		shop.Release()
	})
}

func TestWhileConsulIsAwaySeenTokensAreBelievedForAnHour(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"), read("api"))
		b.consul.allow("new", write("new"))
		g := b.admit("web", "web")
		needs := facts.Rights(g.Reader(), "api")
		b.store.Need("plan", needs)
		b.right(g, "api", facts.Present)
		b.consul.away("connection refused")
		b.refused("new", "new", identity.Unavailable)
		b.stays(g, 50*time.Minute)
		b.right(g, "api", facts.Present)
		b.refused("web", "api", identity.Unavailable) // a right that was never asked for
		b.store.Need("plan")
		b.right(g, "api", facts.Unknown)
		b.store.Need("plan", needs) // as a stream that connects again
		b.right(g, "api", facts.Present)
		b.admit("web", "web").Release()

		b.revoked(g, 11*time.Minute, identity.Unavailable)
		b.refused("web", "web", identity.Unavailable)

		b.consul.away("")
		time.Sleep(6 * time.Second)
		b.admit("web", "web")
		b.admit("new", "new")
	})
}

func TestARevocationWhileConsulWasAwayCountsSoonAfter(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		g := b.admit("web", "web")
		b.consul.away("connection refused")
		time.Sleep(10 * time.Minute)
		b.consul.set(func(f *fakeConsul) { delete(f.rules, "web"); f.err = nil })
		b.revoked(g, 30*time.Second, identity.Unauthenticated)
	})
}

func TestAConsulThatHangsIsNotWaitedForByEachStream(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		b.admit("web", "web")
		b.consul.set(func(f *fakeConsul) { f.delay = time.Hour })
		start := time.Now()
		b.refused("new", "web", identity.Unavailable)
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("the first stream waited %s", d)
		}
		time.Sleep(time.Millisecond)
		start = time.Now()
		for i := range 100 {
			b.refused(fmt.Sprint("new", i), "web", identity.Unavailable)
		}
		b.admit("web", "web")
		if d := time.Since(start); d > 0 {
			t.Errorf("the others waited %s", d)
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		if _, err := b.Admit(ctx, identity.Request{Token: identity.NewToken("new")}); err == nil {
			t.Error("admitted")
		}
	})
}

func TestQuestionsGoInBatches(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		g := b.admit("web", "web")
		b.consul.calls()
		var needs []facts.Topic
		for i := range 200 {
			needs = append(needs, facts.Rights(g.Reader(), fmt.Sprint("s", i)))
		}
		b.store.Need("plan", needs...)
		b.right(g, "s199", facts.Absent)
		total := 0
		calls := b.consul.calls()
		for _, c := range calls {
			total += len(c.questions)
		}
		if len(calls) > 5 || total != 200 {
			t.Errorf("%d questions in %d calls, want 200 in few", total, len(calls))
		}
		// As many a refresh, and no more for a stream that joins.
		b.store.Need("another", needs...)
		b.admit("web", "web")
		time.Sleep(21 * time.Second)
		if calls := b.consul.calls(); len(calls) > 5 {
			t.Errorf("%d calls to refresh", len(calls))
		}
	})
}

func TestTokensAreForgotten(t *testing.T) {
	inTime(t, func(b *bench) {
		for i := range 100 {
			b.refused(fmt.Sprint("wrong", i), "web", identity.Unauthenticated)
		}
		if n := b.Known(); n != 0 {
			t.Errorf("%d tokens are remembered that never were good", n)
		}
		for i := range 20 {
			secret := fmt.Sprint("good", i)
			b.consul.allow(secret, write("web"))
			b.admit(secret, "web").Release()
		}
		b.consul.calls()
		time.Sleep(30 * time.Minute)
		if n := b.Known(); n != 20 {
			t.Errorf("%d tokens are remembered, want 20 in case Consul goes away", n)
		}
		if calls := b.consul.calls(); len(calls) != 0 {
			t.Errorf("%d calls for tokens that nobody uses", len(calls))
		}
		time.Sleep(31 * time.Minute)
		if n := b.Known(); n != 0 {
			t.Errorf("%d tokens are remembered for ever", n)
		}
	})
}

func TestTheNamesThatATokenAskedForAreForgotten(t *testing.T) {
	inTime(t, func(b *bench) {
		b.consul.allow("web", write("web"))
		g := b.admit("web", "web")
		for i := range 3000 {
			b.store.Need("plan", facts.Rights(g.Reader(), fmt.Sprint("random", i)))
			time.Sleep(10 * time.Millisecond)
		}
		b.store.Need("plan", facts.Rights(g.Reader(), "api"))
		b.right(g, "api", facts.Absent)
		time.Sleep(2 * time.Second)
		if n := identity.VerdictsOf(b.Verdicts, "web"); n > 1030 {
			t.Errorf("%d verdicts are remembered", n)
		}
		if topics := b.store.RightsNeeds(); len(topics) != 1 {
			t.Errorf("%v", topics)
		}
	})
}
