package xds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// churnServices is how many services there are at most, and churnClients how many clients.
const (
	churnServices = 8
	churnClients  = 12
)

// fleet is a source whose truth changes all the time. Like a real one it reads the instances of what
// is needed, some time after that became needed, and forgets what is not any more.
type fleet struct {
	store *facts.Store

	mu        sync.Mutex // guards all below and orders commits
	rand      *rand.Rand
	exists    [churnServices]bool
	instances [churnServices][]*facts.Instance
	entries   map[chain.Kind]map[string]chain.Entry
}

// layer7 reports whether a service speaks HTTP. Every chain compiles at any time: one that does not
// would leave each client its own last good.
func layer7(i int) bool { return i%2 == 0 }

func service(i int) string { return fmt.Sprintf("s%d", i) }

func newFleet(store *facts.Store, seed uint64) *fleet {
	f := &fleet{store: store, rand: rand.New(rand.NewPCG(seed, 1)), entries: map[chain.Kind]map[string]chain.Entry{}}
	for _, k := range chain.Kinds() {
		f.entries[k] = map[string]chain.Entry{}
		f.commitEntries(k)
	}
	for i := range churnServices {
		f.exists[i] = i%2 == 0
		f.flip(i)
		f.set(chain.KindServiceResolver, i, f.resolver(i))
		if layer7(i) {
			f.set(chain.KindServiceDefaults, i, httpDefaults(service(i)))
		}
	}
	f.commitServices()
	return f
}

func (f *fleet) commitEntries(k chain.Kind) {
	var list []chain.Entry
	for _, e := range f.entries[k] {
		list = append(list, e)
	}
	f.store.Commit(func(tx *facts.Tx) { tx.Entries(k, list, confirmed) })
}

func (f *fleet) commitServices() {
	var names []string
	for i, ok := range f.exists {
		if ok {
			names = append(names, service(i))
		}
	}
	f.store.Commit(func(tx *facts.Tx) { tx.Services("dc1", names, confirmed) })
}

// flip gives a service other instances.
func (f *fleet) flip(i int) {
	f.instances[i] = nil
	for n := range f.rand.IntN(4) {
		status := facts.StatusPassing
		if f.rand.IntN(3) == 0 {
			status = facts.StatusCritical
		}
		version := fmt.Sprintf("v%d", 1+n%2)
		in := at(service(i), &testenv.Backend{Port: 1024 + f.rand.IntN(60000)}, version, status)
		in.Service.ID += strconv.Itoa(n)
		f.instances[i] = append(f.instances[i], in)
	}
}

// read commits the instances of a service, if they are needed or known.
func (f *fleet) read(i int) {
	topic := facts.Health("dc1", service(i))
	_, needed := f.store.Needs()
	if needed[topic] == 0 && !f.store.View().Topic(topic).Known {
		return
	}
	list := f.instances[i]
	if !f.exists[i] {
		list = nil
	}
	f.store.Commit(func(tx *facts.Tx) { tx.Instances(topic, list, confirmed) })
}

// draw returns a number below n.
func (f *fleet) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(n)
}

// forget drops the instances of what nobody needs.
func (f *fleet) forget() {
	_, needed := f.store.Needs()
	for i := range churnServices {
		if topic := facts.Health("dc1", service(i)); needed[topic] == 0 {
			f.store.Commit(func(tx *facts.Tx) { tx.Forget(topic) })
		}
	}
}

// set replaces or, without an entry, deletes the config entry of a service.
func (f *fleet) set(k chain.Kind, i int, e chain.Entry) {
	if e == nil {
		delete(f.entries[k], service(i))
	} else {
		f.entries[k][service(i)] = e
	}
	f.commitEntries(k)
}

// step changes something.
func (f *fleet) step() {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.rand.IntN(churnServices)
	head := chain.Header{Name: service(i)}
	switch f.rand.IntN(12) {
	case 0:
		f.exists[i] = !f.exists[i]
		f.commitServices()
		f.read(i)
	case 1:
		f.entries[chain.KindServiceDefaults]["web"] = f.limit(i)
		f.commitEntries(chain.KindServiceDefaults)
	case 2, 3:
		w := float32(f.rand.IntN(101))
		if layer7(i) {
			f.set(chain.KindServiceSplitter, i, &chain.ServiceSplitter{Header: head, Splits: []chain.ServiceSplit{
				{Weight: w, ServiceSubset: "v1"}, {Weight: 100 - w, ServiceSubset: "v2"},
			}})
		}
	case 4:
		f.set(chain.KindServiceSplitter, i, nil)
	case 5:
		f.set(chain.KindServiceResolver, i, f.resolver(i))
	case 6:
		f.forget()
	default:
		f.flip(i)
		f.read(i)
	}
}

// resolver is one that compiles: the subsets are there whatever else it says. Two of them are the same
// endpoints under two names.
func (f *fleet) resolver(i int) chain.Entry {
	r := &chain.ServiceResolver{
		Header:        chain.Header{Name: service(i)},
		DefaultSubset: []string{"", "v1", "first"}[f.rand.IntN(3)],
		Subsets: map[string]chain.Subset{
			"v1":    {Filter: "Service.Meta.version == v1"},
			"first": {Filter: "Service.Meta.version == v1"},
			"v2":    {Filter: "Service.Meta.version == v2", OnlyPassing: f.rand.IntN(2) == 0},
		},
	}
	if f.rand.IntN(2) == 0 {
		r.Failover = map[string]chain.Failover{"*": {Service: service((i + 2) % churnServices)}}
	}
	return r
}

// limit is how clients of the service web treat another service: it makes other clusters.
func (f *fleet) limit(i int) chain.Entry {
	connections := 1 + f.rand.IntN(100)
	return &chain.ServiceDefaults{
		Header: chain.Header{Name: "web"},
		UpstreamConfig: &chain.UpstreamConfiguration{Overrides: []*chain.UpstreamConfig{{
			Name: service(i), Limits: &chain.UpstreamLimits{MaxConnections: &connections},
		}}},
	}
}

// run reads what becomes needed, until ctx ends.
func (f *fleet) run(ctx context.Context) {
	bell, end := f.store.NeedsBell()
	defer end()
	for {
		f.mu.Lock()
		for i := range churnServices {
			if !f.store.View().Topic(facts.Health("dc1", service(i))).Known {
				f.read(i)
			}
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-bell:
		}
	}
}

// wanted is what Translate says that a client holds, or an error while something is pending.
func (f *fleet) wanted(client snapshot.Client) (map[string]map[string][]byte, error) {
	tr, err := xds.Translate(snapshot.Config{Datacenter: "dc1", TrustDomain: "catenary.local"}, f.store.View(), client)
	if err != nil {
		return nil, err
	}
	if !tr.Plan.Complete() {
		return nil, fmt.Errorf("%s: the plan is not complete: %+v", client.ID, tr.Plan)
	}
	want := map[string]map[string][]byte{}
	for _, list := range tr.Resources {
		for _, m := range list {
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				return nil, err
			}
			url := "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
			if want[url] == nil {
				want[url] = map[string][]byte{}
			}
			want[url][nameOf(url, body)] = body
		}
	}
	return want, nil
}

// rejoin follows one stream after the other, and the last of them until ctx ends.
func rejoin(ctx context.Context, conn *grpc.ClientConn, f *follower, again <-chan struct{}) error {
	for {
		stream, leave := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- f.follow(stream, conn) }()
		select {
		case <-again:
			leave()
			if err := <-ended; stream.Err() == nil {
				return fmt.Errorf("%s: %w", f.node.GetId(), err)
			}
		case err := <-ended:
			leave()
			if ctx.Err() != nil || status.Code(err) == codes.Canceled || errors.Is(err, context.Canceled) {
				return nil
			}
			return fmt.Errorf("%s: %w", f.node.GetId(), err)
		}
	}
}

// TestNoUpdateIsLost has clients come and go while everything changes. Whenever the changes pause, each
// comes to hold exactly what a client is to hold that comes then. CATENARY_CHURN is how many rounds to
// make of it, where more are wanted.
func TestNoUpdateIsLost(t *testing.T) {
	rounds := 50
	if n, err := strconv.Atoi(os.Getenv("CATENARY_CHURN")); err == nil {
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := startControl(t, nil)
	f := newFleet(c.store, seed)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { f.run(ctx) })

	var clients []snapshot.Client
	var followers []*follower
	var again []chan struct{}
	for i := range churnClients {
		client := snapshot.Client{ID: fmt.Sprintf("web-%d", i/2), Service: "web", Declared: true}
		var ups []bootstrap.Upstream
		for n := range 1 + i%4 {
			u := bootstrap.Upstream{Service: service((i + 3*n) % churnServices), BindPort: 9000 + n}
			ups = append(ups, u)
			client.Upstreams = append(client.Upstreams, snapshot.Upstream{Service: u.Service, BindAddress: "127.0.0.1", BindPort: u.BindPort})
		}
		fol := newFollower(declaring(t, client.ID, "web", ups...), i%3 == 0)
		clients, followers, again = append(clients, client), append(followers, fol), append(again, make(chan struct{}))
		conn, leave := c.dial(), again[i]
		all.Go(func() {
			if err := rejoin(ctx, conn, fol, leave); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	for range rounds {
		for range 1 + f.draw(20) {
			f.step()
			if i := f.draw(4 * churnClients); i < churnClients {
				select {
				case again[i] <- struct{}{}:
				case <-ctx.Done():
					t.FailNow()
				}
			}
		}
		for i, client := range clients {
			testenv.Eventually(t, 20*time.Second, func() error {
				want, err := f.wanted(client)
				return errors.Join(err, followers[i].differs(want))
			})
		}
	}
	cancel()
	all.Wait()
	c.forgotten()
}

// forgotten waits until nothing is kept of clients that have gone.
func (c *control) forgotten() {
	c.t.Helper()
	testenv.Eventually(c.t, 10*time.Second, func() error {
		topics, _ := c.store.Needs()
		if list := c.server.Proxies(); len(topics) > 0 || len(list) > 0 {
			return fmt.Errorf("no client is left, but these needs %v and proxies %+v", topics, list)
		}
		return nil
	})
}
