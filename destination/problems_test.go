package destination

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
)

// A chain that does not compile is told once, whoever many ask about it, and until none does or it compiles again.
func TestAChainThatDoesNotCompileIsTold(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, func(cfg *Config) { cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) }, func(q *quiet) {
		q.services("api", "web")
		q.service("api", list(instance("api", 1)), nil)
		q.service("web", list(instance("web", 3)), nil)
		q.updates("api.service.consul:1", "")
		q.profiles("api.service.consul:2")
		q.profiles("api.service.consul:3")
		q.settle()
		loop := &chain.ServiceResolver{Header: head("api"), Redirect: &chain.Redirect{Service: "web"}}
		q.entries(loop, &chain.ServiceResolver{Header: head("web"), Redirect: &chain.Redirect{Service: "api"}})
		q.settle()
		got := q.Problems()
		if len(got) != 1 || got[0].Service != "api" || !got[0].LastGood || len(got[0].Problems) == 0 || q.counts.problems != 1 {
			t.Errorf("of a chain that does not compile: %+v, and counted %d", got, q.counts.problems)
		}
		q.entries(loop)
		q.settle()
		if got := q.Problems(); len(got) != 0 || q.counts.problems != 0 {
			t.Errorf("when it compiles: %+v, and counted %d", got, q.counts.problems)
		}
	})
	for _, words := range []string{"a discovery chain does not compile", "a discovery chain compiles again"} {
		if n := strings.Count(log.String(), words); n != 1 {
			t.Errorf("%d times %q in the log:\n%s", n, words, &log)
		}
	}
}
