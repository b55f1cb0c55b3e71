package consulwatch_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const sees = ` service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } `

func TestACertificateIsOfTheMesh(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, address func(*testenv.Consul) string) {
		consul := testenv.StartConsul(t, testenv.WithACL())
		i := certify(t, consul, consul.NewToken(sees+`service "Web" { policy = "write" }`), address(consul))
		i.need("Web")
		leaf := i.leaf("Web", facts.Leaf{})
		pair := i.pair(leaf)
		domain, list := roots(t, consul)
		uri := "spiffe://" + domain + "/ns/default/dc/dc1/svc/Web"
		if got := pair.Leaf.URIs[0].String(); got != uri || leaf.URI != uri || leaf.Root != list[0].ID {
			t.Errorf("the certificate is for %s, the fact is %+v; want %s under %s", got, leaf, uri, list[0].ID)
		}
		i.believed(pair, list[0])

		// As Consul gives it to its own sidecars, but for whom.
		theirs, _, err := consul.Client().Agent().ConnectCALeaf("Other", nil)
		if err != nil {
			t.Fatal(err)
		}
		block, err := tls.X509KeyPair([]byte(theirs.CertPEM), []byte(theirs.PrivateKeyPEM))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSuffix(theirs.ServiceURI, "Other") + "Web"; want != uri {
			t.Errorf("Consul writes %s, and we %s", want, uri)
		}
		ours, other := pair.Leaf, block.Leaf
		if ours.KeyUsage != other.KeyUsage || ours.PublicKeyAlgorithm != other.PublicKeyAlgorithm ||
			ours.NotAfter.Sub(ours.NotBefore) != other.NotAfter.Sub(other.NotBefore) || ours.Subject.String() != other.Subject.String() {
			t.Errorf("the certificate differs from Consul's: %v", ours)
		}
	})
}

// Another datacenter than the primary signs by an intermediate of its own.
func TestACertificateOfASecondaryDatacenter(t *testing.T) {
	t.Parallel()
	primary := testenv.StartConsul(t, testenv.WithHCL(`primary_datacenter = "dc1"`))
	consul := testenv.StartConsul(t, testenv.WithDatacenter("dc2"), testenv.WithWAN(primary), testenv.WithHCL(`primary_datacenter = "dc1"`))
	for name, address := range map[string]string{"signed": consul.GRPCAddr(), "by the agent": ""} {
		i := certify(t, consul, "", address)
		i.need("web")
		leaf := i.leaf("web", facts.Leaf{})
		domain, list := roots(t, primary)
		if want := "spiffe://" + domain + "/ns/default/dc/dc2/svc/web"; leaf.URI != want || leaf.Root != list[0].ID {
			t.Errorf("%s: the fact is %+v; want %s under %s", name, leaf, want, list[0].ID)
		}
		pair := i.pair(leaf)
		if len(pair.Certificate) < 2 {
			t.Errorf("%s: the intermediate lacks", name)
		}
		i.believed(pair, list[0])
	}
}

func TestAWrongTokenGetsNoCertificate(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, address func(*testenv.Consul) string) {
		consul := testenv.StartConsul(t, testenv.WithACL())
		token := consul.NewToken(sees + `service "api" { policy = "write" }`)
		i := certify(t, consul, token, address(consul))
		i.need("web", "api")
		i.leaf("api", facts.Leaf{})
		i.fails("web", "service:write", `on "web"`)
		consul.SetPolicy(token, sees+`service "web" { policy = "write" }`)
		i.leaf("web", facts.Leaf{})
		if got := i.failure("web"); got != "" {
			t.Errorf("the reason of web is %q", got)
		}
		consul.DeleteToken(token)
		i.need("web", "api", "db")
		i.fails("db", "token", "CONSUL_HTTP_TOKEN")
		i.leaf("web", facts.Leaf{}) // stays
		if got := i.failure("db") + i.failure("web"); strings.Contains(got, token) {
			t.Error("the token is printed")
		}
	})
}

func TestAfterARotationOfConsulsRootAllAreRenewed(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, address func(*testenv.Consul) string) {
		consul := testenv.StartConsul(t)
		i := certify(t, consul, "", address(consul))
		services := []string{"a", "b", "c", "d"}
		i.need(services...)
		before := map[string]facts.Leaf{}
		for _, s := range services {
			before[s] = i.leaf(s, facts.Leaf{})
		}
		sub := i.store.Subscribe()
		defer sub.Close()
		consul.RotateRoot()
		begin := time.Now()
		_, list := roots(t, consul)
		if len(list) != 2 {
			t.Fatalf("there are %d roots after the rotation", len(list))
		}
		testenv.Eventually(t, 10*time.Second, func() error {
			<-sub.Bell()
			view, _ := sub.Drain()
			known, _ := view.Roots()
			under := 0
			for _, s := range services {
				leaf, _ := view.Leaf(s)
				if leaf.Root != list[0].ID {
					continue
				}
				under++
				if len(known.List) != 2 {
					t.Errorf("%s has a certificate of the new root, and the facts have %d roots", s, len(known.List))
				}
			}
			if under < len(services) {
				return fmt.Errorf("%d of %d certificates are of the new root", under, len(services))
			}
			return nil
		})
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %s, and the renewals were to be spread over 2 s", took)
		}
		for _, s := range services {
			pair := i.pair(i.leaf(s, before[s]))
			i.believed(pair, list[0])
			i.believed(pair, list[1]) // by those who have not heard of the new root yet
			i.pair(before[s])
		}
	})
}

func TestWhileConsulIsAwayACertificateStaysAndThenIsRenewed(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, address func(*testenv.Consul) string) {
		consul := testenv.StartConsul(t, testenv.WithDataDir())
		i := certify(t, consul, "", address(consul))
		i.need("web")
		before := i.leaf("web", facts.Leaf{})
		consul.Stop()
		i.leafs.Renew()
		i.fails("web", "cannot be reached", "127.0.0.1")
		if leaf := i.leaf("web", facts.Leaf{}); leaf != before {
			t.Errorf("the certificate is another: %+v", leaf)
		}
		i.pair(before)
		consul.Restart() // and its agent, if that makes certificates, has forgotten the one it made
		i.leaf("web", before)
		testenv.Eventually(t, 20*time.Second, func() error {
			if got := i.failure("web"); got != "" {
				return errors.New(got)
			}
			return nil
		})
	})
}

func TestConsulsLimitOfSigningSlowsDownOnly(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, address func(*testenv.Consul) string) {
		consul := testenv.StartConsul(t, testenv.WithHCL(`connect { ca_config { csr_max_per_second = 3 } }`))
		i := certify(t, consul, "", address(consul))
		var services []string
		for n := range 20 {
			services = append(services, fmt.Sprintf("s%d", n))
		}
		i.need(services...)
		for _, s := range services {
			i.leaf(s, facts.Leaf{})
		}
		if problems := i.leafs.Problems(); len(problems) > 0 {
			t.Errorf("problems: %v", problems)
		}
	})
}

func TestTheGRPCPortIsReachedAsConsulsCommandsReachIt(t *testing.T) {
	ca, stranger := testenv.NewAuthority(t), testenv.NewAuthority(t)
	dir, err := os.MkdirTemp("", "grpc") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	consul := testenv.StartConsul(t, testenv.WithGRPCTLS(ca, true), testenv.WithHCL(fmt.Sprintf(`addresses { grpc = "unix://%s/s" }`, dir)))
	cert, key := ca.Issue("client")
	domain, _ := roots(t, consul)
	order := identity.Order{Service: "web", URI: "spiffe://" + domain + "/ns/default/dc/dc1/svc/web"}
	issue := func(address string, certificates api.TLSConfig) error {
		cfg := consul.Config()
		cfg.TLSConfig = certificates
		source, err := consulwatch.New(consulwatch.Config{API: cfg})
		if err != nil {
			t.Fatal(err)
		}
		issuer, err := source.Issuer(address)
		if err != nil {
			return err
		}
		defer issuer.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = issuer.Issue(ctx, order)
		return err
	}
	whole := api.TLSConfig{CAFile: ca.CAFile, CertFile: cert, KeyFile: key}
	for name, test := range map[string]struct {
		address string
		env     string // the value of CONSUL_GRPC_CACERT
		tls     api.TLSConfig
		fails   string
	}{
		"a socket":                      {address: "unix://" + dir + "/s"},
		"with TLS":                      {address: "https://" + consul.GRPCTLSAddr(), tls: whole},
		"with TLS by its own authority": {address: consul.GRPCTLSAddr(), env: ca.CAFile, tls: api.TLSConfig{CertFile: cert, KeyFile: key}},
		"without a certificate":         {address: "https://" + consul.GRPCTLSAddr(), tls: api.TLSConfig{CAFile: ca.CAFile}, fails: "certificate"},
		"of another authority":          {address: "https://" + consul.GRPCTLSAddr(), tls: api.TLSConfig{CAFile: stranger.CAFile, CertFile: cert, KeyFile: key}, fails: "unknown authority"},
		"without TLS":                   {address: consul.GRPCTLSAddr(), fails: "https://"},
		"another port":                  {address: consul.HTTPAddr(), fails: "gRPC port"},
		"a file that is not there":      {address: consul.GRPCTLSAddr(), env: dir + "/none", fails: "none"},
		"no address":                    {address: "somewhere", fails: "HOST:PORT"},
		"another scheme":                {address: "ftp://" + consul.GRPCTLSAddr(), fails: "https://HOST:PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CONSUL_GRPC_CACERT", test.env)
			err := issue(test.address, test.tls)
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("%v; want an error that contains %q", err, test.fails)
			}
		})
	}
	t.Setenv("CONSUL_GRPC_ADDR", "unix://"+dir+"/s")
	if err := issue("", api.TLSConfig{}); err != nil {
		t.Errorf("by CONSUL_GRPC_ADDR: %v", err)
	}
}
