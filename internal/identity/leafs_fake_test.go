package identity_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

const (
	domain = "11111111-2222-3333-4444-555555555555.consul"
	life   = 72 * time.Hour // of Consul's certificates
)

// fakeRoot is a root with its key.
type fakeRoot struct {
	facts.Root
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newRoot(t testing.TB, id string) *fakeRoot {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: id}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now(), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeRoot{Root: facts.Root{ID: id, Cert: text("CERTIFICATE", der)}, cert: cert, key: key}
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// fakeCA signs, and counts what it is asked.
type fakeCA struct {
	t  testing.TB
	mu sync.Mutex

	root   *fakeRoot
	ttl    time.Duration
	delay  time.Duration
	err    func(service string) error
	spoil  func(*x509.Certificate)
	serial int64
	asked  []asked
	now    int // at once
	at     int // at once, at most
}

type asked struct {
	service string
	at      time.Time
}

// Sign implements identity.Signer.
func (ca *fakeCA) Sign(ctx context.Context, csr string) (string, error) {
	block, _ := pem.Decode([]byte(csr))
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", err
	}
	if err := request.CheckSignature(); err != nil {
		return "", err
	}
	service := request.URIs[0].Path[strings.LastIndex(request.URIs[0].Path, "/")+1:]
	ca.mu.Lock()
	ca.asked = append(ca.asked, asked{service, time.Now()})
	ca.now++
	ca.at = max(ca.at, ca.now)
	delay := ca.delay
	ca.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		err = &identity.Unreachable{Reason: "too late"}
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.now--
	if ca.err != nil {
		err = ca.err(service)
	}
	if err != nil {
		return "", err
	}
	ca.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(ca.serial), URIs: request.URIs, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(ca.ttl),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	if ca.spoil != nil {
		ca.spoil(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.root.cert, request.PublicKey, ca.root.key)
	if err != nil {
		return "", err
	}
	return text("CERTIFICATE", der), nil
}

func (ca *fakeCA) set(change func(*fakeCA)) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	change(ca)
}

// signs reports whether a root is the one that signs.
func (ca *fakeCA) signs(root *fakeRoot) bool {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	return ca.root == root
}

// orders returns what was asked since the last time.
func (ca *fakeCA) orders() []asked {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	list := ca.asked
	ca.asked = nil
	return list
}

// fails has the orders of these services fail, or of all when there are none.
func (ca *fakeCA) fails(err error, services ...string) {
	ca.set(func(ca *fakeCA) {
		ca.err = func(service string) error {
			for _, s := range services {
				if s == service {
					return err
				}
			}
			if len(services) == 0 {
				return err
			}
			return nil
		}
	})
}

// counted is what the metrics were told.
type counted struct {
	mu      sync.Mutex
	held    int
	first   time.Time
	results map[string]int
}

func (c *counted) LeafsHeld(n int, first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.first = n, first
}

func (c *counted) LeafOrder(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[result]++
}

func (c *counted) gauges() (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held, c.first
}

func (c *counted) of(result string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results[result]
}

// leafBench is leafs that run, over a fake authority, in a bubble of time.
type leafBench struct {
	*identity.Leafs
	t     *testing.T
	ca    *fakeCA
	store *facts.Store
	log   *bytes.Buffer
	count *counted
	end   func()
}

// withLeafs runs a test with running leafs, and the clock of a bubble.
func withLeafs(t *testing.T, f func(b *leafBench)) {
	t.Helper()
	withIssuer(t, func(ca *fakeCA) identity.Issuer { return identity.Signing(ca) }, f)
}

func withIssuer(t *testing.T, issuer func(*fakeCA) identity.Issuer, f func(b *leafBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &leafBench{
			t: t, store: facts.New(), log: &bytes.Buffer{}, count: &counted{results: map[string]int{}},
			ca: &fakeCA{t: t, root: newRoot(t, "one"), ttl: life, delay: 2 * time.Millisecond},
		}
		b.Leafs = identity.NewLeafs(identity.LeafsConfig{
			Issuer: issuer(b.ca), Metrics: b.count, Logger: hclog.New(&hclog.LoggerOptions{Output: b.log}),
			Datacenter: func(context.Context) (string, error) { return "dc1", nil },
		})
		b.roots(b.ca.root)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx, b.store) }()
		b.end = sync.OnceFunc(func() {
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		defer b.end()
		f(b)
	})
}

// roots commits roots, of which the last signs.
func (b *leafBench) roots(roots ...*fakeRoot) {
	r := facts.Roots{TrustDomain: domain}
	for i, root := range roots {
		one := root.Root
		one.Active = i == len(roots)-1
		r.List = append(r.List, one)
	}
	b.store.Commit(func(tx *facts.Tx) { tx.Roots(r) })
}

func (b *leafBench) need(services ...string) {
	var topics []facts.Topic
	for _, s := range services {
		topics = append(topics, facts.LeafOf(s))
	}
	b.store.Need("test", topics...)
}

// names returns so many services.
func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("s%d", i))
	}
	return list
}

// leaf returns the fact of a service, and fails the test unless there is one whose key can be had.
func (b *leafBench) leaf(service string) facts.Leaf {
	b.t.Helper()
	leaf, state := b.store.View().Leaf(service)
	if state != facts.Present {
		b.t.Fatalf("the certificate of %s is %v: %s", service, state, b.failure(service))
	}
	if _, _, ok := b.Pair(leaf); !ok {
		b.t.Fatalf("the certificate of %s has no key", service)
	}
	return leaf
}

func (b *leafBench) failure(service string) string {
	return b.store.View().Topic(facts.LeafOf(service)).Failure
}

// has fails the test unless so many of the services have a certificate.
func (b *leafBench) has(want int, services []string) {
	b.t.Helper()
	n := 0
	for _, s := range services {
		if _, state := b.store.View().Leaf(s); state == facts.Present {
			n++
		}
	}
	if n != want {
		b.t.Errorf("%d of %d services have a certificate, want %d", n, len(services), want)
	}
}

// logged counts the lines of the log that contain a text. Only when all is quiet.
func (b *leafBench) logged(text string) int {
	synctest.Wait()
	return strings.Count(b.log.String(), text)
}
