package consulwatch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// An agent lends its own token to queries without one, but not to streams: these would see nothing, and
// say so to nobody.
func TestWithoutATokenEventsAreNotTakenForWhatQueriesShow(t *testing.T) {
	t.Parallel()
	const lent = "22222222-2222-3333-4444-555555555555"
	c := testenv.StartConsul(t, testenv.WithACL(), testenv.WithHCL(fmt.Sprintf(`acl { tokens { default = %q } }`, lent)))
	policy, _, err := c.Client().ACL().PolicyCreate(&api.ACLPolicy{Name: "lent", Rules: readAll}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Client().ACL().TokenCreate(&api.ACLToken{SecretID: lent, Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil); err != nil {
		t.Fatal(err)
	}
	c.RegisterService(testenv.Service{Name: "api", Port: 8080})
	r := run(t, with(c, ""))
	r.store.Need("test", apiHealth)
	r.ready("dc1")
	r.eventually(instances(apiHealth, facts.Present, "api:passing"))
	if reason := r.polledFor(apiHealth); !strings.Contains(reason, "CONSUL_HTTP_TOKEN") {
		t.Errorf("reason %q", reason)
	}
	c.SetCheck("api", api.HealthCritical)
	r.eventually(instances(apiHealth, facts.Present, "api:critical"))
}

// A stream that does not show what a query shows, for whatever reason, would not tell of changes either.
func TestABlindStreamIsNotFollowed(t *testing.T) {
	t.Parallel()
	f, streams := startFake(t), startStreams(t)
	streams.say = func(r *subscribe.SubscribeRequest, to grpc.ServerStreamingServer[subscribe.Event]) error {
		return quiet(r, to)
	}
	f.set("/v1/health/service/api", rows(5, "a:passing:80"))
	cfg := f.config()
	cfg.Follow, cfg.Servers = FollowAuto, []string{streams.addr}
	r := run(t, cfg)
	r.store.Need("test", apiHealth)
	if reason := r.polledFor(apiHealth); !strings.Contains(reason, "do not show") {
		t.Errorf("reason %q", reason)
	}
	r.eventually(instances(apiHealth, facts.Present, "a:passing"))
	f.set("/v1/health/service/api", rows(6, "a:critical:80"))
	r.eventually(instances(apiHealth, facts.Present, "a:critical"))
}
