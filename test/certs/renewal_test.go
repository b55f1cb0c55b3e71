//go:build e2e

package certs_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// serial is that of the certificate on disk.
func serial(t *testing.T, c *testenv.Certs) string {
	t.Helper()
	pair, err := c.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.String()
}

// TestARenewalFailsNoCall: certificates are replaced by force, and because another root signs, while applications
// call each other; those that begin then get through as well.
func TestARenewalFailsNoCall(t *testing.T) {
	t.Parallel()
	v := startVillage(t)
	certs := map[string]*testenv.Certs{"api": v.certs("api"), "web": v.certs("web")}
	v.server("api", certs["api"].Dir)
	web := v.client("web", certs["web"].Dir, "api")
	ends(t, web, codes.OK)
	stop := make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if _, err := web.Call(t.Context(), "/shop.Shop/Get"); err != nil {
				t.Errorf("a call failed: %v", err)
				return
			}
		}
	})
	for name, renew := range map[string]func(){
		"a hangup": func() {
			for _, c := range certs {
				c.Hangup()
			}
		},
		"another root": v.consul.RotateRoot,
	} {
		before := map[string]string{}
		for service, c := range certs {
			before[service] = serial(t, c)
		}
		renew()
		for service, c := range certs {
			testenv.Eventually(t, time.Minute, func() error {
				if err := c.Replaced(before[service]); err != nil {
					return fmt.Errorf("after %s, %s: %w", name, service, err)
				}
				return nil
			})
		}
		ends(t, v.client("web", certs["web"].Dir, "api"), codes.OK)
	}
	close(stop)
	calls.Wait()
	v.nothingRefused()
}
