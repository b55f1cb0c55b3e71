package consulwatch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// issuance is the certificates of a mesh: a source and leafs that run over one store.
type issuance struct {
	*testing.T
	consul *testenv.Consul
	source *consulwatch.Source
	store  *facts.Store
	leafs  *identity.Leafs
}

// certify runs a source with a token, and leafs that are issued at a gRPC address, or by the agent when it
// is empty.
func certify(t *testing.T, consul *testenv.Consul, token, address string) *issuance {
	t.Helper()
	cfg := consul.Config()
	cfg.Token = token
	source, err := consulwatch.New(consulwatch.Config{API: cfg})
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := source.Issuer(address)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuance{T: t, consul: consul, source: source, store: facts.New(), leafs: identity.NewLeafs(identity.LeafsConfig{
		Issuer: issuer, Datacenter: source.Datacenter, Spread: 2 * time.Second,
	})}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	for _, run := range []func(context.Context, *facts.Store) error{source.Run, i.leafs.Run} {
		go func() { ended <- run(ctx, i.store) }()
	}
	t.Cleanup(func() {
		end()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		issuer.Close()
	})
	return i
}

// need has certificates kept up for services.
func (i *issuance) need(services ...string) {
	topics := []facts.Topic{facts.CARoots()}
	for _, s := range services {
		topics = append(topics, facts.LeafOf(s))
	}
	i.store.Need("test", topics...)
}

// leaf waits until a service has a certificate other than an earlier one.
func (i *issuance) leaf(service string, before facts.Leaf) facts.Leaf {
	i.Helper()
	var leaf facts.Leaf
	testenv.Eventually(i.T, 20*time.Second, func() error {
		var state facts.State
		if leaf, state = i.store.View().Leaf(service); state != facts.Present || leaf == before {
			return fmt.Errorf("the certificate of %s is %v: %+v (%s)", service, state, leaf, i.failure(service))
		}
		return nil
	})
	return leaf
}

func (i *issuance) failure(service string) string {
	return i.store.View().Topic(facts.LeafOf(service)).Failure
}

// fails waits until there is a reason why a service has no newer certificate.
func (i *issuance) fails(service string, want ...string) {
	i.Helper()
	testenv.Eventually(i.T, 20*time.Second, func() error {
		for _, part := range want {
			if got := i.failure(service); !strings.Contains(got, part) {
				return fmt.Errorf("the reason of %s is %q, which lacks %q", service, got, part)
			}
		}
		return nil
	})
}

// pair returns the certificates and the key of a fact.
func (i *issuance) pair(leaf facts.Leaf) tls.Certificate {
	i.Helper()
	chain, key, ok := i.leafs.Pair(leaf)
	if !ok {
		i.Fatalf("no key for %+v", leaf)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		i.Fatal(err)
	}
	return pair
}

// believed fails the test unless whoever trusts a root of Consul's believes a certificate.
func (i *issuance) believed(pair tls.Certificate, root *api.CARoot) {
	i.Helper()
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(root.RootCertPEM)) {
		i.Fatal("Consul's root is no certificate")
	}
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			i.Fatal(err)
		}
		between.AddCert(c)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: time.Now().Add(time.Minute),
		})
		if err != nil {
			i.Errorf("who trusts %s does not believe the certificate: %v", root.ID, err)
		}
	}
}

// roots returns Consul's roots, the one that signs first.
func roots(t *testing.T, consul *testenv.Consul) (domain string, list []*api.CARoot) {
	t.Helper()
	got, _, err := consul.Client().Connect().CARoots(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Roots {
		if r.Active {
			list = append([]*api.CARoot{r}, list...)
		} else {
			list = append(list, r)
		}
	}
	return got.TrustDomain, list
}

// ways are the ways in which certificates are had.
func ways(t *testing.T, test func(t *testing.T, address func(*testenv.Consul) string)) {
	t.Helper()
	for name, address := range map[string]func(*testenv.Consul) string{
		"signed at the gRPC port": (*testenv.Consul).GRPCAddr,
		"made by the agent":       func(*testenv.Consul) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, address)
		})
	}
}
