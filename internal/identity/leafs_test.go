package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

func TestAServiceHasACertificateWhileItIsNeeded(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		time.Sleep(time.Minute)
		if n := len(b.ca.orders()); n > 0 {
			t.Fatalf("%d certificates were ordered for nobody", n)
		}
		b.need("Web")
		time.Sleep(100 * time.Millisecond)
		leaf := b.leaf("Web")
		chain, key, _ := b.Pair(leaf)
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			t.Fatal(err)
		}
		const uri = "spiffe://" + domain + "/ns/default/dc/dc1/svc/Web"
		if got := pair.Leaf.URIs[0].String(); got != uri || leaf.URI != uri || leaf.Service != "Web" || leaf.Root != "one" || leaf.Serial != "01" {
			t.Errorf("the certificate is for %s, the fact is %+v", got, leaf)
		}
		if n, first := b.count.gauges(); !pair.Leaf.NotAfter.Equal(leaf.NotAfter) || n != 1 || !first.Equal(leaf.NotAfter) {
			t.Errorf("it ends %s, the fact says %s, the metrics %d, %s", pair.Leaf.NotAfter, leaf.NotAfter, n, first)
		}
		if len(pair.Leaf.Subject.Names) > 0 || pair.Leaf.PublicKeyAlgorithm != x509.ECDSA {
			t.Errorf("the certificate is not like Consul's: subject %s, key %s", pair.Leaf.Subject, pair.Leaf.PublicKeyAlgorithm)
		}

		b.need()
		time.Sleep(55 * time.Second)
		b.need("Web") // it is needed again before it is forgotten
		time.Sleep(5 * time.Minute)
		if b.leaf("Web") != leaf {
			t.Error("there is another certificate, and nothing was wrong with the first")
		}
		b.need()
		time.Sleep(59 * time.Second)
		b.leaf("Web")
		time.Sleep(2 * time.Second)
		if _, state := b.store.View().Leaf("Web"); state != facts.Unknown {
			t.Errorf("a minute after the last need the certificate is %v", state)
		}
		if _, _, ok := b.Pair(leaf); ok {
			t.Error("a minute after the last need the key is still there")
		}
	})
}

func TestNothingIsOrderedBeforeTheRootsAreKnown(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.store.Commit(func(tx *facts.Tx) { tx.Forget(facts.CARoots()) })
		b.end()
		leafs := identity.NewLeafs(identity.LeafsConfig{
			Issuer:     identity.Signing(b.ca),
			Datacenter: func(context.Context) (string, error) { return "dc1", nil },
		})
		ctx, end := context.WithCancel(b.t.Context())
		ended := make(chan error)
		go func() { ended <- leafs.Run(ctx, b.store) }()
		b.need("web")
		time.Sleep(time.Minute)
		if n := len(b.ca.orders()); n > 0 {
			t.Errorf("%d certificates were ordered in no trust domain", n)
		}
		b.roots(b.ca.root)
		time.Sleep(100 * time.Millisecond)
		b.has(1, []string{"web"})
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestCertificatesAreRenewedBetween60And90PercentOfTheirLife(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		services := names(40)
		b.need(services...)
		time.Sleep(10 * time.Second)
		b.has(40, services)
		b.ca.orders()
		begin := time.Now()
		old := b.leaf("s0")
		oldChain, _, _ := b.Pair(old)
		for b.leaf("s0") == old {
			time.Sleep(10 * time.Second)
		}
		if chain, _, ok := b.Pair(old); !ok || string(chain) != string(oldChain) {
			t.Error("just after the renewal a view from before finds no key")
		}
		time.Sleep(2 * time.Minute)
		if _, _, ok := b.Pair(old); ok {
			t.Error("minutes after the renewal the old key is still there")
		}
		time.Sleep(life*9/10 - time.Since(begin))
		orders := b.ca.orders()
		if len(orders) != 40 {
			t.Errorf("%d renewals in 90 %% of a life, want 40", len(orders))
		}
		first, last := orders[0].at.Sub(begin), orders[len(orders)-1].at.Sub(begin)
		if first < life*59/100 || last > life*9/10 || last-first < life/10 {
			t.Errorf("renewed from %s to %s after they were issued, for %s", first, last, life)
		}
		b.leaf("s1")
	})
}

func TestOrdersArePaced(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.ca.set(func(ca *fakeCA) { ca.delay = 300 * time.Millisecond })
		services := names(100)
		b.need(services...)
		time.Sleep(10 * time.Second)
		b.has(100, services)
		if b.ca.at != 4 {
			t.Errorf("%d orders at once, want 4", b.ca.at)
		}
		b.ca.set(func(ca *fakeCA) { ca.delay = time.Millisecond })
		b.ca.orders()
		more := append(services, "a", "b", "c", "d", "e", "f", "g", "h")
		for i := range 100 {
			more = append(more, names(300)[200+i])
		}
		b.need(more...)
		time.Sleep(20 * time.Second)
		b.has(len(more), more)
		orders := b.ca.orders()
		for i := range orders {
			if i+30 < len(orders) && orders[i+30].at.Sub(orders[i].at) < time.Second {
				t.Fatalf("more than 30 orders within a second, the last the %dth", i+30)
			}
		}
		if took := orders[len(orders)-1].at.Sub(orders[0].at); took > 6*time.Second {
			t.Errorf("%d orders took %s", len(orders), took)
		}
	})
}

func TestALimitOfConsulOnlySlowsDown(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		var last time.Time
		b.ca.set(func(ca *fakeCA) {
			ca.err = func(string) error { // 2 per second
				if time.Since(last) < 500*time.Millisecond {
					return &identity.Limited{Reason: "too many"}
				}
				last = time.Now()
				return nil
			}
		})
		services := names(20)
		b.need(services...)
		time.Sleep(100 * time.Millisecond)
		b.has(1, services)
		reasons := map[string]int{} // the order of services is by chance
		for _, service := range services {
			reasons[b.failure(service)]++
		}
		if reasons[""] != 1 || reasons["too many"] != len(services)-1 {
			t.Errorf("one has a certificate, and the others wait for the reasons %v", reasons)
		}
		time.Sleep(2 * time.Minute)
		b.has(20, services)
		if n := b.count.of(identity.OrderLimited); n > 100 {
			t.Errorf("%d orders were too many", n)
		}
		if problems := b.Problems(); len(problems) > 0 {
			t.Errorf("problems: %v", problems)
		}
	})
}

func TestWhileConsulIsAwayCertificatesStay(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		services := names(50)
		b.need(services...)
		time.Sleep(10 * time.Second)
		before := b.leaf("s3")
		b.ca.fails(&identity.Unreachable{Reason: "nobody answers"})
		b.need(append(services, "new")...)
		b.Renew()
		b.ca.orders()
		time.Sleep(time.Minute)
		b.has(50, append(services, "new"))
		if b.leaf("s3") != before {
			t.Error("the certificate is another")
		}
		if n := len(b.ca.orders()); n > 60 {
			t.Errorf("%d orders in a minute in which nobody answers", n)
		}
		if got := b.failure("new"); got != "nobody answers" {
			t.Errorf("the reason is %q", got)
		}
		if n := b.logged("nobody answers"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, b.log)
		}
		b.ca.fails(nil)
		time.Sleep(20 * time.Second)
		b.has(51, append(services, "new"))
		if b.leaf("s3") == before || b.failure("s3") != "" {
			t.Errorf("after Consul is back: %+v, failure %q", b.leaf("s3"), b.failure("s3"))
		}
	})
}

func TestACertificateThatIsNotRenewedInTimeRaisesAnAlarm(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		const life = time.Hour
		b.ca.set(func(ca *fakeCA) { ca.ttl = life })
		b.need("web")
		time.Sleep(time.Second)
		before := b.leaf("web")
		b.ca.fails(&identity.Unreachable{Reason: "nobody answers"})
		time.Sleep(life * 89 / 100)
		if list := b.Problems(); len(list) > 0 {
			t.Errorf("before 90 %% of its life: %v", list)
		}
		time.Sleep(life / 50)
		list := b.Problems()
		if len(list) != 1 || !strings.Contains(list[0], `"web" was not renewed in time`) || !strings.Contains(list[0], "nobody answers") {
			t.Errorf("problems: %q", list)
		}
		time.Sleep(life)
		if b.leaf("web") != before {
			t.Error("a certificate that has expired does not stay")
		}
		if n := b.logged("not renewed in time"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
		b.ca.fails(nil)
		time.Sleep(20 * time.Second)
		if b.leaf("web") == before || len(b.Problems()) > 0 {
			t.Errorf("after Consul is back: %v", b.Problems())
		}
	})
}

func TestARightThatLacksConcernsOneService(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.ca.fails(&identity.Forbidden{Reason: "no service:write"}, "web")
		b.need("web", "api")
		time.Sleep(10 * time.Minute)
		b.leaf("api")
		b.has(0, []string{"web"})
		if got := b.failure("web"); got != "no service:write" {
			t.Errorf("the reason is %q", got)
		}
		if n := len(b.ca.orders()); n < 15 || n > 40 {
			t.Errorf("%d orders in 10 minutes", n)
		}
		if n := b.logged("no service:write"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, b.log)
		}
		b.ca.fails(nil)
		time.Sleep(30 * time.Second)
		b.leaf("web")
		if got := b.failure("web"); got != "" {
			t.Errorf("after the right is given: %q", got)
		}
	})
}

func TestWhatWasNotOrderedIsNotTaken(t *testing.T) {
	for name, wrong := range map[string]struct {
		spoil func(*x509.Certificate)
		want  string
	}{
		"another identity": {func(c *x509.Certificate) { u := *c.URIs[0]; u.Path += "x"; c.URIs[0] = &u }, "was ordered"},
		"two identities":   {func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }, "was ordered"},
		"no identity":      {func(c *x509.Certificate) { c.URIs = nil }, "was ordered"},
		"an authority":     {func(c *x509.Certificate) { c.IsCA = true }, "authority"},
		"never valid":      {func(c *x509.Certificate) { c.NotAfter = c.NotBefore }, "never valid"},
	} {
		t.Run(name, func(t *testing.T) {
			withLeafs(t, func(b *leafBench) {
				b.ca.set(func(ca *fakeCA) { ca.spoil = wrong.spoil })
				b.need("web")
				time.Sleep(time.Minute)
				b.has(0, []string{"web"})
				if got := b.failure("web"); !strings.Contains(got, wrong.want) {
					t.Errorf("the reason is %q", got)
				}
			})
		})
	}
}

func TestAKeyThatIsNotThatOfTheCertificateIsNotTaken(t *testing.T) {
	other := func(ca *fakeCA) identity.Issuer {
		return issuerFunc(func(ctx context.Context, o identity.Order) (identity.Issued, error) {
			one, err := identity.Signing(ca).Issue(ctx, o)
			two, err2 := identity.Signing(ca).Issue(ctx, o)
			return identity.Issued{Chain: one.Chain, Key: two.Key}, errors.Join(err, err2)
		})
	}
	withIssuer(t, other, func(b *leafBench) {
		b.need("web")
		time.Sleep(time.Minute)
		b.has(0, []string{"web"})
		if got := b.failure("web"); !strings.Contains(got, "key") {
			t.Errorf("the reason is %q", got)
		}
	})
}

type issuerFunc func(context.Context, identity.Order) (identity.Issued, error)

func (f issuerFunc) Issue(ctx context.Context, o identity.Order) (identity.Issued, error) {
	return f(ctx, o)
}

func TestAnIssuerThatRenewsWhenItSeesFitIsAskedNowAndThen(t *testing.T) {
	var held identity.Issued
	until := time.Duration(0)
	agent := func(ca *fakeCA) identity.Issuer {
		begin := time.Now()
		return issuerFunc(func(ctx context.Context, o identity.Order) (identity.Issued, error) {
			if held.Chain == "" || time.Since(begin) > until {
				var err error
				held, err = identity.Signing(ca).Issue(ctx, o)
				return held, err
			}
			return held, nil
		})
	}
	until = life * 85 / 100
	withIssuer(t, agent, func(b *leafBench) {
		b.need("web")
		time.Sleep(time.Second)
		before := b.leaf("web")
		time.Sleep(life * 84 / 100)
		if b.leaf("web") != before {
			t.Error("the certificate is another")
		}
		time.Sleep(life * 7 / 100) // it may be first asked at 90 %
		if b.leaf("web") == before {
			t.Error("the certificate is not renewed")
		}
		if n := b.count.of(identity.OrderUnchanged); n > 30 {
			t.Errorf("%d orders for nothing", n)
		}
	})
}

func TestAnAuthorityThatCountsAnewIsToldApart(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.need("web")
		time.Sleep(time.Second)
		old := b.leaf("web")
		oldChain, _, _ := b.Pair(old)
		b.ca.set(func(ca *fakeCA) { ca.serial, ca.root = 0, newRoot(t, "two") })
		b.roots(b.ca.root) // it was made anew: nobody knows the old one any more
		time.Sleep(time.Second)
		leaf := b.leaf("web")
		chain, _, _ := b.Pair(leaf)
		if leaf.Serial != old.Serial || leaf.Root != "two" || string(chain) == string(oldChain) {
			t.Errorf("%+v after %+v", leaf, old)
		}
		if again, _, ok := b.Pair(old); !ok || string(again) != string(oldChain) {
			t.Error("the certificate from before is mistaken for the one in use")
		}
	})
}

func TestRunEndsWithAnOrderUnderWay(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.ca.set(func(ca *fakeCA) { ca.delay = time.Hour })
		b.need(names(10)...)
		time.Sleep(time.Second)
		begin := time.Now()
		b.end()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestASerialNumberIsWrittenAsConsulDoes(t *testing.T) {
	for n, want := range map[int64]string{1: "01", 15: "0f", 256: "01:00", 65536 + 2: "01:00:02"} {
		if got := identity.Serial(&x509.Certificate{SerialNumber: big.NewInt(n)}); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
