package destination

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// ear is a client that applies what it hears, over many connections.
type ear struct {
	path string

	mu   sync.Mutex
	seen Seen
	odd  string // what it should never have heard
}

func (e *ear) hear(m *pb.Update) {
	raw, _ := proto.Marshal(m)
	u := &pb.Update{}
	_ = proto.Unmarshal(raw, u)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.seen.heard && u.GetRemove() != nil {
		e.odd = "a remove at first"
	}
	e.seen.Apply(u)
}

// is is what the client has.
func (e *ear) is() (bool, []netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.Known && e.seen.Exists, slices.SortedFunc(maps.Keys(e.seen.Endpoints), netip.AddrPort.Compare)
}

// TestEveryoneEndsUpWithWhatThereIs has instances and redirects change at random, many at once, while streams of many
// names come and go: at last all have what their names come to.
func TestEveryoneEndsUpWithWhatThereIs(t *testing.T) {
	const services, changes = 6, 150
	w := newWorld(t)
	names := []string{"api", "web", "other", "spare", "s4", "s5"}
	w.services(names...)
	for i, name := range names {
		w.service(name, list(instance(name, i+1)), nil)
	}
	s := serve(t, w, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var group, changing sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var ears []*ear
	for i := range 4 * services {
		e := &ear{path: names[i%services] + ".service.consul"}
		ears = append(ears, e)
		group.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				stream, end := context.WithTimeout(ctx, time.Duration(1+rand.N(20))*time.Millisecond)
				if round > 20 {
					end()
					stream, end = context.WithCancel(ctx)
				}
				e.mu.Lock()
				e.seen.Subscribed()
				e.mu.Unlock()
				ask := &pb.GetDestination{Path: e.path, ContextToken: fmt.Sprintf(`{"nodeName":"n%d"}`, i)}
				_ = modern{Server: s.Server}.Get(ask, &wire{ctx: stream, sent: e.hear})
				end()
			}
		})
	}
	for worker := range 3 {
		changing.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(worker)))
			for range changes {
				name := names[random.IntN(services)]
				switch random.IntN(4) {
				case 0:
					w.entries(&chain.ServiceResolver{Header: head(name), Redirect: &chain.Redirect{Service: names[random.IntN(services)]}})
				case 1:
					w.entries(&chain.ServiceResolver{Header: head(name), Failover: map[string]chain.Failover{"*": {Service: names[random.IntN(services)]}}})
				case 2:
					w.service(name, nil, nil)
				default:
					w.service(name, list(instance(name, 1+random.IntN(9)), instance(name, 10+random.IntN(9))), nil)
				}
			}
		})
	}
	changing.Wait()
	for _, e := range ears {
		testenv.Eventually(t, 20*time.Second, func() error {
			_, r := w.resolved(e.path, nil)
			var want []netip.AddrPort
			for _, ep := range r.Set.endpoints() {
				want = append(want, ep.Addr)
			}
			if exists, got := e.is(); !slices.Equal(got, want) || !exists {
				return fmt.Errorf("%s: a client has %v (exists: %v), want %v", e.path, got, exists, want)
			}
			return nil
		})
		if e.odd != "" {
			t.Errorf("%s: %s", e.path, e.odd)
		}
	}
}
