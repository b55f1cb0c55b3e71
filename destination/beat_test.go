package destination

import (
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	conduitpb "github.com/catenary-mesh/catenary/internal/proto/conduit"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// TestSilenceIsBroken has streams of both services that nothing happens to: each hears after the longest silence that
// the server is well, whatever it was told before, and none of which nothing is known.
func TestSilenceIsBroken(t *testing.T) {
	const silence = 30 * time.Second
	inBubble(t, func(cfg *Config) { cfg.Keepalive = silence }, func(q *quiet) {
		q.services("api", "dark")
		q.service("api", list(instance("api", 1)), nil)
		old := follow(q, func() *pb.Update { return &pb.Update{} }, func(t *tape[*pb.Update]) error {
			return conduit{Server: q.Server}.Get(&conduitpb.Destination{Path: api}, conduitTape{t})
		})
		some, nobody, dark := q.updates(api, ""), q.updates("nobody.service.consul", ""), q.updates("dark.service.consul", "")
		profile := q.profiles(api)
		q.wantTold(some, "add 10.0.0.1:8080")
		q.wantTold(old, "add 10.0.0.1:8080")
		q.wantTold(nobody, "none exists=false")
		q.wantSpoken(profile, "api.service.dc1.consul")
		for range 3 {
			time.Sleep(silence)
			for _, s := range []*tape[*pb.Update]{some, old, nobody} {
				q.wantTold(s, "add")
			}
			q.wantTold(dark)
			q.wantSpoken(profile, "")
		}
		// A message begins the silence anew.
		time.Sleep(silence / 2)
		q.service("api", list(instance("api", 1), instance("api", 2)), nil)
		q.wantTold(some, "add 10.0.0.2:8080")
		time.Sleep(silence * 2 / 3)
		q.wantTold(some)
		time.Sleep(silence / 3)
		q.wantTold(some, "add")
		q.store.Commit(func(tx *facts.Tx) {
			tx.Instances(facts.Health("dc1", "dark"), list(instance("dark", 3)), sure)
			tx.Instances(facts.Connect("dc1", "dark"), nil, sure)
		})
		q.wantTold(dark, "add 10.0.0.3:8080")
	})
}

// conduitTape is a tape for a stream of Conduit's, whose messages are read as those of today.
type conduitTape struct{ *tape[*pb.Update] }

func (t conduitTape) Send(u *conduitpb.Update) error { return t.SendMsg(u) }
