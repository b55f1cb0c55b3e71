package identity_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

// under counts the certificates by their root.
func (b *leafBench) under(services []string) map[string]int {
	b.t.Helper()
	n := map[string]int{}
	for _, s := range services {
		n[b.leaf(s).Root]++
	}
	return n
}

func TestAfterARotationRenewalsAreSpread(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		services := names(200)
		b.need(services...)
		time.Sleep(30 * time.Second)
		b.has(200, services)
		old, next := b.ca.root, newRoot(t, "two")
		b.ca.set(func(ca *fakeCA) { ca.root = next })
		b.roots(old, next)
		b.ca.orders()
		time.Sleep(15 * time.Second)
		b.roots(old, next) // which changes nothing
		if n := b.under(services); n["two"] < 60 || n["one"] < 60 {
			t.Errorf("after half of the time: %v", n)
		}
		time.Sleep(16 * time.Second)
		if n := b.under(services); n["two"] != 200 {
			t.Errorf("after all of the time: %v", n)
		}
		if n := len(b.ca.orders()); n != 200 {
			t.Errorf("%d orders for 200 services", n)
		}
		b.roots(next) // and when the old one is over, nothing happens
		time.Sleep(time.Minute)
		if n := len(b.ca.orders()); n > 0 {
			t.Errorf("%d orders after the rotation", n)
		}
	})
}

func TestWhoIssuesMayLearnOfARotationLate(t *testing.T) {
	for name, same := range map[string]bool{"and gives the same certificate": true, "and gives others of the old root": false} {
		t.Run(name, func(t *testing.T) {
			held := map[string]identity.Issued{}
			var root *fakeRoot
			issuer := func(ca *fakeCA) identity.Issuer {
				root = ca.root
				return issuerFunc(func(ctx context.Context, o identity.Order) (identity.Issued, error) {
					if got, ok := held[o.Service]; ok && same && ca.signs(root) {
						return got, nil
					}
					issued, err := identity.Signing(ca).Issue(ctx, o)
					held[o.Service] = issued
					return issued, err
				})
			}
			withIssuer(t, issuer, func(b *leafBench) {
				b.need("web")
				time.Sleep(time.Second)
				next := newRoot(t, "two")
				b.roots(b.ca.root, next)
				time.Sleep(5 * time.Minute)
				most := 10
				if same { // which costs nobody a signature
					most = 25
				}
				if n := len(b.ca.orders()) + b.count.of(identity.OrderUnchanged); n < 3 || n > most {
					t.Errorf("%d orders in 5 minutes", n)
				}
				b.ca.set(func(ca *fakeCA) { ca.root = next })
				time.Sleep(2 * time.Minute)
				if leaf := b.leaf("web"); leaf.Root != "two" {
					t.Errorf("the certificate is still under %s", leaf.Root)
				}
			})
		})
	}
}

func TestAnAgentThatRenewsLaterIsAskedAgainSoon(t *testing.T) {
	var mu sync.Mutex
	held := map[string]identity.Issued{}
	at := map[string]time.Time{} // when the agent renews
	issuer := func(ca *fakeCA) identity.Issuer {
		return issuerFunc(func(ctx context.Context, o identity.Order) (identity.Issued, error) {
			mu.Lock()
			got, ok := held[o.Service]
			ok = ok && time.Now().Before(at[o.Service])
			mu.Unlock()
			if ok {
				return got, nil
			}
			issued, err := identity.Signing(ca).Issue(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			held[o.Service], at[o.Service] = issued, time.Now().Add(time.Hour)
			return issued, err
		})
	}
	withIssuer(t, issuer, func(b *leafBench) {
		services := names(4)
		b.need(services...)
		time.Sleep(time.Second)
		old := b.ca.root
		for _, next := range []*fakeRoot{newRoot(t, "two"), newRoot(t, "three")} {
			b.ca.set(func(ca *fakeCA) { ca.root = next })
			mu.Lock()
			for _, s := range services { // as late as Consul's agents
				at[s] = time.Now().Add(30 * time.Second)
			}
			mu.Unlock()
			b.roots(old, next)
			time.Sleep(30*time.Second + 7*time.Second)
			if n := b.under(services); n[next.ID] != 4 {
				t.Errorf("7 s after the agent renewed: %v", n)
			}
			old = next
		}
	})
}

func TestACertificateWaitsForItsRoot(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.need("web")
		time.Sleep(time.Second)
		before := b.leaf("web")
		old, next := b.ca.root, newRoot(t, "two")
		b.ca.set(func(ca *fakeCA) { ca.root = next }) // and the facts do not have it yet
		b.need("web", "api")
		b.Renew()
		time.Sleep(31 * time.Second)
		if b.leaf("web") != before {
			t.Error("a certificate is served that nobody can believe")
		}
		b.has(0, []string{"api"})
		if b.failure("api") == "" {
			t.Error("there is no reason why it waits")
		}
		b.roots(old, next)
		time.Sleep(10 * time.Millisecond)
		for _, service := range []string{"web", "api"} {
			if leaf := b.leaf(service); leaf.Root != "two" || b.failure(service) != "" {
				t.Errorf("after the root is known: %+v, failure %q", leaf, b.failure(service))
			}
		}
	})
}

func TestACertificateThatNobodyBelievesIsRenewedAtOnce(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		services := names(4)
		b.need(services...)
		time.Sleep(time.Second)
		next := newRoot(t, "two")
		b.ca.set(func(ca *fakeCA) { ca.root = next })
		b.roots(next)
		time.Sleep(time.Second)
		if n := b.under(services); n["two"] != 4 {
			t.Errorf("a second after the root was replaced: %v", n)
		}
	})
}

func TestRootsThatCannotBeReadCountForNothing(t *testing.T) {
	withLeafs(t, func(b *leafBench) {
		b.need("web")
		time.Sleep(time.Second)
		before := b.leaf("web")
		bad := *b.ca.root
		bad.Cert = "nonsense"
		b.roots(&bad)
		time.Sleep(time.Hour)
		if b.leaf("web") != before {
			t.Error("the certificate is another")
		}
		if b.logged("roots of the mesh cannot be read") != 1 {
			t.Errorf("the log:\n%s", b.log)
		}
	})
}

func TestTheRootThatSignsIsPreferredToOneThatVouchesForIt(t *testing.T) {
	old, next := newRoot(t, "one"), newRoot(t, "two")
	// As Consul does: the old root signs the new one's key, for those who know only the old one.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: next.cert.Subject, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), SubjectKeyId: next.cert.SubjectKeyId,
	}
	cross, err := x509.CreateCertificate(rand.Reader, template, old.cert, next.key.Public(), old.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(8), Subject: pkix.Name{}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, next.cert, next.key.Public(), next.key)
	if err != nil {
		t.Fatal(err)
	}
	chain := text("CERTIFICATE", leaf) + text("CERTIFICATE", cross)
	oldOnly, nextRoot := old.Root, next.Root
	oldOnly.Active = true
	nextRoot.Active = true
	for _, c := range []struct {
		name  string
		roots []facts.Root
		want  string
	}{
		{"only the old one is known", []facts.Root{oldOnly}, "one"},
		{"both are", []facts.Root{old.Root, nextRoot}, "two"},
		{"only the new one", []facts.Root{nextRoot}, "two"},
		{"another", []facts.Root{newRoot(t, "three").Root}, ""},
	} {
		if got := identity.RootOf(t, facts.Roots{List: c.roots}, chain); got != c.want {
			t.Errorf("%s: it is under %q, want %q", c.name, got, c.want)
		}
	}
}
