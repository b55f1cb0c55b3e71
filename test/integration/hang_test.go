package integration_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// hanging stands before a Consul and never answers what is asked of one datacenter: what a partition
// looks like, which a single Consul cannot be made to show.
func hanging(t *testing.T, consul *testenv.Consul, datacenter string) string {
	to := &url.URL{Scheme: "http", Host: consul.HTTPAddr()}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // queries end with the test
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dc") == datacenter {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestADatacenterThatHangsDelaysOnlyItsOwnUpstream(t *testing.T) {
	t.Parallel()
	bothForms(t, func(t *testing.T, sotw bool) {
		consul := testenv.StartConsul(t)
		c := testenv.StartCatenary(t, nil, "--consul-addr", hanging(t, consul, "dc2"))
		f := &fleet{t: t, consul: consul, catenary: c, sotw: sotw}
		testenv.Eventually(t, patience, c.Ready)
		f.register("api", testenv.StartBackend(t, "v1"))
		f.http("api", "stock")
		api, up := port(t, "api")
		_, stock := port(t, "stock@dc2")
		begin := time.Now()
		f.envoy("web", up, stock).WaitReady()
		answers(t, api, "v1")
		if d := time.Since(begin); d > patience {
			t.Errorf("the other upstream answered after %s", d)
		}
		p := proxy(t, c, "web-1", xds.StatePending)
		if len(p.Pending) != 1 || p.Pending[0].Upstream != "stock?dc=dc2" {
			t.Errorf("pending %+v", p.Pending)
		}
		// What is known goes on changing meanwhile.
		f.consul.SetCheck("api-v1", "critical")
		answers(t, api, "503")
	})
}
