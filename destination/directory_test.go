package destination

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// virtually is a sidecar whose service has a virtual IP, or an instance.
func virtually(in *facts.Instance, ip string) *facts.Instance {
	in.Service.TaggedAddresses = map[string]facts.Address{"consul-virtual": {Address: ip, Port: 80}}
	return in
}

// spoken is what a stream of profiles was told since the last time, in words.
func spoken(t *tape[*pb.DestinationProfile]) string {
	list, end := t.take()
	var words []string
	for _, p := range list {
		switch {
		case p.GetEndpoint() != nil:
			words = append(words, "at "+addrOf(p.GetEndpoint().GetAddr()).String()+" "+p.GetEndpoint().GetMetricLabels()["zone_locality"])
		case p.GetFullyQualifiedName() != "":
			words = append(words, p.GetFullyQualifiedName())
		default:
			words = append(words, "nobody")
		}
	}
	if end != codes.OK {
		words = append(words, end.String())
	}
	return strings.Join(words, ", ")
}

func (q *quiet) wantSpoken(t *tape[*pb.DestinationProfile], want string) {
	q.t.Helper()
	q.settle()
	if got := spoken(t); got != want {
		q.t.Errorf("told %q, want %q", got, want)
	}
}

// pending is why the only stream waits.
func (q *quiet) pending() string {
	var list []string
	for _, st := range q.Streams() {
		list = append(list, st.Pending)
	}
	return strings.Join(list, "; ")
}

func (w *world) told(all facts.Virtual) {
	w.store.Commit(func(tx *facts.Tx) { tx.VirtualIPs("dc1", all) })
}

func ips(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// TestAddressesByHandAndByEntries has IPs that no instance tells: set by hand, and of a service without instances.
func TestAddressesByHandAndByEntries(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api", "api-sidecar-proxy")
		q.service("api", list(instance("api", 1)), nil)
		q.service("api-sidecar-proxy", list(virtually(sidecar("API", 1), "240.0.0.1")), nil)
		q.entries(&chain.ServiceResolver{Header: head("virt"), Redirect: &chain.Redirect{Service: "api"}})
		q.told(facts.Virtual{Services: map[string]facts.ServiceIPs{}})
		hand, entry, unknown, v6 := q.profiles("10.1.2.3:80"), q.profiles("240.0.0.4"), q.profiles("10.9.9.9:80"), q.profiles("[fd00::1]:80")
		live := q.profiles("240.0.0.1:80")
		q.wantSpoken(live, "API.service.dc1.consul") // instances tell it
		for _, s := range []*tape[*pb.DestinationProfile]{hand, entry, unknown, v6} {
			q.wantSpoken(s, "") // what of api and virt may be theirs is not known yet
		}
		virtual := map[string]facts.ServiceIPs{
			"api": {Automatic: ips("240.0.0.1"), Manual: ips("10.1.2.3", "fd00::1")}, "virt": {Automatic: ips("240.0.0.4")},
		}
		q.told(facts.Virtual{Services: virtual})
		q.wantSpoken(hand, "api.service.dc1.consul")
		q.wantSpoken(v6, "api.service.dc1.consul")
		q.wantSpoken(live, "")
		q.wantSpoken(entry, "virt.service.dc1.consul")
		q.wantSpoken(unknown, "nobody")
		virtual["api"], virtual["virt"] = facts.ServiceIPs{Automatic: ips("240.0.0.1")}, facts.ServiceIPs{Automatic: ips("240.0.0.4"), Manual: ips("10.1.2.3")}
		q.told(facts.Virtual{Services: virtual})
		q.wantSpoken(hand, "virt.service.dc1.consul")
		q.wantSpoken(v6, "nobody")
		q.wantSpoken(entry, "")
		q.services("api", "api-sidecar-proxy", "web", "web-sidecar-proxy")
		q.service("web", nil, nil)
		q.service("web-sidecar-proxy", list(virtually(sidecar("web", 2), "240.0.0.2")), nil)
		q.settle()
		late := q.profiles("10.8.8.8:80")
		q.wantSpoken(late, "") // it may be web's
		q.wantSpoken(hand, "")
		virtual["web"] = facts.ServiceIPs{Manual: ips("10.8.8.8")}
		q.told(facts.Virtual{Services: virtual})
		q.wantSpoken(late, "web.service.dc1.consul")
	})
}

// TestAnIPOfTwo is refused, but not while one of the two may be about to go.
func TestAnIPOfTwo(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api", "api-sidecar-proxy", "web", "web-sidecar-proxy")
		q.service("api", nil, nil)
		q.service("web", nil, nil)
		mine := list(virtually(sidecar("api", 1), "240.0.0.1"))
		q.service("api-sidecar-proxy", mine, nil)
		q.service("web-sidecar-proxy", nil, nil)
		s := q.profiles("240.0.0.1:80")
		q.wantSpoken(s, "api.service.dc1.consul")
		both := func() { q.service("web-sidecar-proxy", list(virtually(sidecar("web", 2), "240.0.0.1")), nil) }
		both()
		time.Sleep(conflictTime / 2)
		q.wantSpoken(s, "")
		q.service("api-sidecar-proxy", nil, nil)
		q.wantSpoken(s, "web.service.dc1.consul")
		time.Sleep(2 * conflictTime)
		q.wantSpoken(s, "")
		q.service("api-sidecar-proxy", mine, nil)
		time.Sleep(conflictTime)
		q.wantSpoken(s, codes.FailedPrecondition.String())
		late := q.profiles("240.0.0.1:80")
		time.Sleep(conflictTime)
		q.wantSpoken(late, codes.FailedPrecondition.String())
		// One by hand is as good as an automatic one, and what was asked for before goes after what instances tell.
		q.service("web-sidecar-proxy", nil, nil)
		q.virtual(map[string]string{"other": "240.0.0.1"})
		q.settle()
		late = q.profiles("240.0.0.1:80")
		time.Sleep(conflictTime)
		q.wantSpoken(late, codes.FailedPrecondition.String())
		q.told(facts.Virtual{Services: map[string]facts.ServiceIPs{"api": {}, "other": {Automatic: ips("240.0.0.1")}}})
		q.settle()
		q.wantSpoken(q.profiles("240.0.0.1:80"), "api.service.dc1.consul")
	})
}

// TestAnAddressThatMayBeSomebodysWaits has the ways in which more is to be known, whatever was found so far.
func TestAnAddressThatMayBeSomebodysWaits(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(q *quiet)
		reason        string
	}{
		"instances that cannot be read": {
			func(q *quiet) {
				q.services("api", "b")
				q.store.Commit(func(tx *facts.Tx) { tx.Fail(facts.Health("dc1", "b"), "too large") })
			},
			func(q *quiet) { q.service("b", list(instance("b", 5)), nil) },
			"too large",
		},
		"virtual IPs that cannot be read": {
			func(q *quiet) {
				q.services("api")
				q.entries(&chain.ServiceDefaults{Header: head("dark"), Protocol: "http"})
				q.told(facts.Virtual{Services: map[string]facts.ServiceIPs{}, Unread: map[string]string{"dark": "no"}})
			},
			func(q *quiet) { q.told(facts.Virtual{Services: map[string]facts.ServiceIPs{"dark": {}}}) },
			"dark",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(q *quiet) {
				q.service("api", list(instance("api", 1)), nil)
				c.before(q)
				unknown := q.profiles("10.9.9.9:80")
				q.wantSpoken(unknown, "")
				if got := q.pending(); !strings.Contains(got, c.reason) {
					t.Errorf("it waits because of %q", got)
				}
				q.wantSpoken(q.profiles("10.0.0.1:8080"), "at 10.0.0.1:8080 unknown")
				c.after(q)
				q.wantSpoken(unknown, "nobody")
			})
		})
	}
}

// TestWhatWillNotBeKnownKeepsNobodyWaiting has what the token may not see, and more services than are searched: an
// application that waited for these would wait for ever.
func TestWhatWillNotBeKnownKeepsNobodyWaiting(t *testing.T) {
	hidden := func(q *quiet, services ...string) {
		q.store.Commit(func(tx *facts.Tx) {
			tx.Forget(facts.Services("dc1"))
			tx.Services("dc1", services, facts.Reading{})
		})
	}
	for name, before := range map[string]func(q *quiet){
		"too many services": func(q *quiet) { q.services("api", "b", "c"); q.service("b", nil, nil) },
		"services":          func(q *quiet) { hidden(q, "api") },
		"some instances": func(q *quiet) {
			q.services("api", "b")
			q.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Health("dc1", "b"), list(instance("b", 5)), facts.Reading{}) })
		},
		"all instances": func(q *quiet) {
			q.services("api", "b")
			q.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Health("dc1", "b"), nil, facts.Reading{}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(cfg *Config) { cfg.MaxServices = 2 }, func(q *quiet) {
				q.service("api", list(instance("api", 1)), nil)
				before(q)
				unknown := q.profiles("10.0.9.1:8080")
				if name != "too many services" {
					time.Sleep(hiddenTime / 2)
					q.wantSpoken(unknown, "") // it may be that it is only not confirmed yet
					time.Sleep(hiddenTime / 2)
				}
				q.wantSpoken(unknown, "nobody")
				q.wantSpoken(q.profiles("10.0.0.1:8080"), "at 10.0.0.1:8080 unknown")
				if want := map[bool]int{true: 1}[name == "too many services"]; q.counts.notSearched != want {
					t.Errorf("%d services are said not to be searched, want %d", q.counts.notSearched, want)
				}
				q.services("api", "d")
				q.service("d", list(instance("d", 9)), nil)
				q.settle()
				known := q.profiles("10.0.0.9:8080")
				q.wantSpoken(known, "at 10.0.0.9:8080 unknown")
			})
		})
	}
	inBubble(t, nil, func(q *quiet) {
		hidden(q)
		unknown := q.profiles("10.9.9.9:80")
		time.Sleep(2 * hiddenTime)
		q.wantSpoken(unknown, "") // of a token that sees nothing it is not known that there is nothing
		q.services("api")
		q.service("api", nil, nil)
		q.wantSpoken(unknown, "nobody")
	})
}

// TestWhatIsKnownIsReadBeforeItIsTold has a view that is ahead of the changes that were told: when all is known by it,
// what it knows is in the book.
func TestWhatIsKnownIsReadBeforeItIsTold(t *testing.T) {
	w := &world{t: t, store: facts.New()}
	w.entries()
	d := newDirectory(Config{Store: w.store, Logger: hclog.NewNullLogger(), Metrics: &counts{}, Place: place1(), MaxServices: 9}, nil)
	s := &subject{question: question{addr: netip.MustParseAddrPort("240.0.0.1:80")}}
	d.follow(s)
	turn := func(why string) {
		t.Helper()
		d.update(w.store.View(), nil)
		if f := d.lookup(s); f.pending == "" && len(f.owners) == 0 {
			t.Errorf("nobody's, when %s", why)
		}
	}
	w.services("api", "web")
	d.open(w.store.View())
	turn("nothing is known")
	mine := virtually(sidecar("api", 1), "240.0.0.1")
	w.store.Commit(func(tx *facts.Tx) {
		tx.Instances(facts.Health("dc1", "api"), list(instance("api", 2)), facts.Reading{})
		tx.Instances(facts.Health("dc1", "web"), nil, sure)
	})
	turn("not all is confirmed")
	w.virtual(nil)
	turn("not all is confirmed")
	w.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Health("dc1", "api"), list(instance("api", 2), mine), sure) })
	turn("all is confirmed")
	if f := d.lookup(s); f.pending != "" || len(f.owners) != 1 {
		t.Errorf("at last: %+v", f)
	}
}

// TestAnAddressIsLookedUpOnceForAll counts: a thousand proxies that ask for one IP are one question.
func TestAnAddressIsLookedUpOnceForAll(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api-sidecar-proxy")
		q.service("api-sidecar-proxy", list(virtually(sidecar("api", 1), "240.0.0.1")), nil)
		for i := range 20 {
			ask := &pb.GetDestination{Path: "240.0.0.1:80", ContextToken: fmt.Sprintf(`{"nodeName":"n%d"}`, i)}
			t := &tape[*pb.DestinationProfile]{ctx: q.ctx, new: func() *pb.DestinationProfile { return &pb.DestinationProfile{} }}
			q.group.Go(func() { _ = modern{Server: q.Server}.GetProfile(ask, t) })
		}
		q.settle()
		q.hub.mu.Lock()
		defer q.hub.mu.Unlock()
		if n := len(q.hub.subjects); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}
