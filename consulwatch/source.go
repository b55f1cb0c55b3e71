package consulwatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Source follows Consul. Create one with [New]; it may be run once.
type Source struct {
	// Fixed by New.
	intentions string // the default that is configured
	client     *api.Client
	transport  *transport
	address    string
	datacenter string // as configured
	streams    bool   // events are wanted
	sparse     bool   // only what is needed is followed
	access     *access
	limits     Limits
	log        hclog.Logger
	metrics    Metrics
	rights     *rights
	slots      *slots
	follow     follower
	link       *link

	renamed   signal // the token is another
	central   signal // central configuration of registrations has changed
	recovered signal // Consul answers again
	restored  signal // Consul may have been restored: read everything again
	// signs and cuts are bells of signs that everything is to be read again: of a restore, and of a
	// change of rights.
	signs, cuts chan struct{}
	gone        chan struct{} // a bell: Consul cannot be reached

	reloading sync.Mutex // held while the token and the certificates are read again

	mu        sync.Mutex
	following map[facts.Topic]*followed
	local     string                   // the agent's datacenter, once known
	away      map[facts.Topic]struct{} // for which topics Consul does not answer
	back      bool                     // it has answered one since it was away
	confirms  map[string]*turns        // by datacenter: bounds the readings that resolve doubts
	polls     map[facts.Topic]string   // which topics are followed by queries for want of events, and why
	pollsSaid map[string]bool          // the reasons for that which were said since all had events
	veiled    map[facts.Topic]string   // of which topics something may be hidden, and why
	waiting   string                   // why a question about the wiring is not answered
}

// followed is a topic that is followed.
type followed struct {
	sink   *sink
	cancel context.CancelFunc
	done   chan struct{}
	begun  time.Time
	until  time.Time // when it will be forgotten; zero while it is needed
}

// New returns a source. It reads the token and TLS files and connects to nothing.
func New(cfg Config) (*Source, error) {
	limits := cfg.Limits.withDefaults()
	given := cfg.API
	if given == nil {
		given = api.DefaultConfig()
	}
	if err := checkServers(cfg.Servers); err != nil {
		return nil, err
	}
	client, transport, own, err := connect(given, limits.Connections)
	if err != nil {
		return nil, err
	}
	s := &Source{
		client: client, transport: transport, address: own.Address, datacenter: cfg.Datacenter, local: cfg.Datacenter,
		limits: limits, log: cfg.Logger, metrics: cfg.Metrics,
		following: map[facts.Topic]*followed{}, veiled: map[facts.Topic]string{}, away: map[facts.Topic]struct{}{},
		confirms: map[string]*turns{}, polls: map[facts.Topic]string{}, pollsSaid: map[string]bool{},
		signs: make(chan struct{}, 1), cuts: make(chan struct{}, 1), gone: make(chan struct{}, 1),
	}
	if s.intentions = cfg.DefaultIntentions; !slices.Contains([]string{"", policyAllow, policyDeny}, s.intentions) {
		return nil, fmt.Errorf("what holds without intentions is %q: want allow or deny", s.intentions)
	}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	if s.metrics == nil {
		s.metrics = noMetrics{}
	}
	s.access = newAccess(given, own, limits.Connections)
	s.rights = newRights(s)
	s.slots = newSlots(limits.Connections-unslotted, transport.multiplexed.Load)
	transport.onProtocol = func() { s.slots.count(0) }
	s.link = &link{source: s, servers: cfg.Servers, secure: s.secure}
	s.follow = map[Follow]follower{
		"": s.followAuto, FollowAuto: s.followAuto, FollowStream: s.followStream, FollowPoll: s.followBlocking,
	}[cfg.Follow]
	if s.follow == nil {
		return nil, fmt.Errorf("the way to follow Consul is %q: want auto, stream or poll", cfg.Follow)
	}
	s.streams, s.sparse = cfg.Follow != FollowPoll, cfg.Sparse
	return s, nil
}

// Address returns where Consul is.
func (s *Source) Address() string { return s.address }

// Run follows Consul and commits what it says to the store, until ctx ends; then it returns nil, and
// nothing that it started goes on. It never returns because of Consul.
func (s *Source) Run(ctx context.Context, store *facts.Store) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.transport.closeIdle()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	bell, hangUp := store.NeedsBell()
	defer hangUp()
	learned := make(chan struct{})
	wg.Go(func() {
		defer close(learned)
		if _, err := s.Datacenter(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("the services are not followed", "reason", err)
		}
	})
	wg.Go(func() { s.watchFiles(ctx) })
	wg.Go(func() { s.reread(ctx) })
	wg.Go(func() { s.probe(ctx) })
	if s.streams {
		wg.Go(func() { s.link.run(ctx) })
	}
	r := &roster{source: s, store: store, group: &wg}
	for {
		next := r.reconcile(ctx, time.Now())
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-learned:
			learned = nil
		case <-bell:
		case <-timer.C:
		}
		timer.Stop()
	}
}
