//go:build e2e

package figures_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// tallied is Consul's HTTP API behind a count of the requests by the first parts of their paths.
type tallied struct {
	addr string

	mu    sync.Mutex
	count map[string]int
}

func tally(t *testing.T, c *testenv.Consul) *tallied {
	ta := &tallied{count: map[string]int{}}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.HTTPAddr()})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ta.mu.Lock()
		part := strings.SplitN(r.URL.Path, "/", 4) // "", "v1", "health", the rest
		ta.count[strings.Join(part[:min(3, len(part))], "/")]++
		ta.mu.Unlock()
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	ta.addr = s.Listener.Addr().String()
	return ta
}

func (ta *tallied) of(path string) int {
	ta.mu.Lock()
	defer ta.mu.Unlock()
	return ta.count[path]
}

// TestAnIdleMinuteTakesNoQueries has ten and then three hundred proxies need the same fifty services: as
// many streams follow them, and Consul is asked nothing about health for a minute without a change.
func TestAnIdleMinuteTakesNoQueries(t *testing.T) {
	const services = 50
	consul := testenv.StartConsul(t)
	api := tally(t, consul)
	var names []string
	for i := range services {
		names = append(names, fmt.Sprintf("s%02d", i))
		consul.RegisterService(testenv.Service{Name: names[i], Port: 8000 + i})
	}
	c := testenv.StartCatenary(t, consul.Env(), "--consul-addr", api.addr, "--consul-servers", consul.RPCAddr(), "--trust-domain", trustDomain)
	testenv.Eventually(t, time.Minute, c.Ready)
	conn := connect(t, c.GRPCAddr)
	streams, asked := map[int]int{}, map[int]int{}
	have := 0
	for _, want := range []int{10, 300} {
		for ; have < want; have++ {
			client(t, conn, fmt.Sprintf("web-%d", have), names)
		}
		for _, w := range settled(t, c, services, want) {
			if w.Server != "" {
				streams[want]++
			}
		}
		asked[want] = api.of("/v1/health")
	}
	t.Logf("streams by proxies: %v; queries about health by proxies: %v", streams, asked)
	if streams[10] != streams[300] || asked[10] != asked[300] {
		t.Error("what is asked of Consul depends on how many proxies there are")
	}
	before := asked[300]
	testenv.Throughout(t, time.Minute, func() error {
		if n := api.of("/v1/health") - before; n != 0 {
			return fmt.Errorf("%d queries about health while nothing changed", n)
		}
		return nil
	})
	api.mu.Lock()
	defer api.mu.Unlock()
	t.Logf("requests since the start: %v", api.count)
}
