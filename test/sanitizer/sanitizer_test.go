// Package sanitizer offers catalogs with all that has been seen to harm an Envoy to a real one.
package sanitizer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

const patience = 20 * time.Second

// interval is that of the reports: short, because each catalog waits for one.
const interval = 5 * time.Millisecond

func TestNoCatalogEndsAnEnvoyOrIsRefusedByIt(t *testing.T) {
	t.Parallel()
	for _, version := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			offer(t, startChecker(t, version))
		})
	}
}

func offer(t *testing.T, c *checker) {
	t.Helper()
	hello := c.greet(t)
	if want := (hds.Capability{HTTP: true, TCP: true, GRPC: c.version == testenv.NewestEnvoy, Redis: true, TLS: true}); hello.Can != want {
		t.Fatalf("of Envoy %s it is known that it can %+v", hello.Version, hello.Can)
	}
	r := rand.New(rand.NewPCG(1, 9))
	reports := hds.NewReports(time.Now(), interval)
	offered, refused := 0, 0
	for i := range catalogs {
		duties := catalog(r)
		spec, refusals := hds.Compose(hello.Can, interval, duties)
		offered += spec.Len()
		refused += len(refusals)
		if spec.Len()+len(refusals) != len(duties) {
			t.Fatalf("catalog %d: of %d duties, %d go out and %d are refused", i, len(duties), spec.Len(), len(refusals))
		}
		c.tell(t, spec)
		reports.Told(time.Now(), spec)
		c.awaitMatch(t, reports, func() string { return fmt.Sprintf("catalog %d: %+v", i, spec) })
	}
	if offered == 0 || refused == 0 {
		t.Errorf("%d endpoints were offered and %d refused: the catalogs say nothing", offered, refused)
	}
	stats := c.envoy.Stats()
	if stats["hds_delegate.errors"] != 0 {
		t.Errorf("Envoy refused %d specifiers", stats["hds_delegate.errors"])
	}
	t.Logf("%d catalogs: %d endpoints offered, %d refused", catalogs, offered, refused)
}

// greet waits for Envoy's first message.
func (c *checker) greet(t *testing.T) hds.Hello {
	t.Helper()
	hello, ok, err := hds.DecodeHello(c.hear(t, func() string { return "at the start" }))
	if err != nil || !ok {
		t.Fatalf("the first message is none: %v", err)
	}
	if hello.NodeID != "checker" || hello.Zone != "z" || hello.Region != "r" {
		t.Fatalf("the first message says %+v", hello)
	}
	return hello
}

func (c *checker) hear(t *testing.T, when func() string) []byte {
	t.Helper()
	select {
	case m := <-c.heard:
		return m
	case <-time.After(patience):
		_, err := c.envoy.Admin("/server_info")
		t.Fatalf("Envoy is silent (its admin API says %v), %s", err, when())
	}
	return nil
}

func (c *checker) tell(t *testing.T, s hds.Specifier) {
	t.Helper()
	encoded, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := proto.Marshal(encoded)
	if err != nil {
		t.Fatal(err)
	}
	m := raw(bytes)
	for {
		select {
		case c.to <- m:
			return
		case <-c.heard: // about what it was told before
		case <-time.After(patience):
			t.Fatal("Envoy takes nothing more")
		}
	}
}

// awaitMatch reads reports until one is about the whole of what Envoy was told.
func (c *checker) awaitMatch(t *testing.T, reports *hds.Reports, when func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reports.Matched(); {
		if _, err := reports.Receive(time.Now(), c.hear(t, when)); err != nil {
			t.Fatalf("a report of a real Envoy: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("Envoy does not do what it is told: %s\n%s", reports.Problem(time.Now()), when())
		}
	}
}
