package identity

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// LeafsConfig is what [Leafs] are made from. Issuer and Datacenter are required.
type LeafsConfig struct {
	Issuer Issuer
	// Datacenter returns where the services are. It may wait until it is known, or until its context ends.
	Datacenter func(context.Context) (string, error)
	// Logger gets what an operator should know; nil means no log.
	Logger hclog.Logger
	// Metrics is told what is held and issued; nil means nobody.
	Metrics LeafMetrics
	// Linger is how long a certificate is kept up after the last need of it has ended, 60 s by default.
	Linger time.Duration
	// Spread is the time over which certificates are renewed when another root signs, 30 s by default.
	Spread time.Duration
	// Rate is how many certificates are ordered in a second at most, 25 by default: by default a server of
	// Consul signs 50, for everyone.
	Rate int
	// Patience is how long an order may take, 10 s by default.
	Patience time.Duration
	// RetryMin and RetryMax bound the time between attempts after a failure, 250 ms and 30 s by default.
	RetryMin, RetryMax time.Duration
}

// LeafMetrics is told of certificates. It must be safe for concurrent use.
type LeafMetrics interface {
	// LeafsHeld tells how many there are, and when the first of them ends to be valid; zero without any.
	LeafsHeld(n int, firstExpiry time.Time)
	// LeafOrder tells of an order, and what came of it: one of the results below.
	LeafOrder(result string)
}

// What came of an order.
const (
	// OrderIssued brought a certificate.
	OrderIssued = "issued"
	// OrderUnchanged brought the one that is held already.
	OrderUnchanged = "unchanged"
	// OrderLimited was one too many at that time.
	OrderLimited = "limited"
	// OrderForbidden was not within our rights.
	OrderForbidden = "forbidden"
	// OrderUnreachable found nobody to answer.
	OrderUnreachable = "unreachable"
	// OrderFailed was answered with something else, or with a certificate that was not ordered.
	OrderFailed = "failed"
)

// Leafs keeps a certificate for each service of which the topic of kind leaf is needed. What may be known
// of it is a fact; the key stays here, and in memory. All methods are safe for concurrent use. It works
// while Run runs.
type Leafs struct {
	cfg   LeafsConfig
	log   hclog.Logger
	renew chan struct{}

	mu       sync.Mutex
	pairs    map[string][]pair // by service, the newest first
	problems map[string]string // by service
}

// pair is a certificate and its key.
type pair struct {
	fact  facts.Leaf
	chain []byte
	key   Key
	until time.Time // when it is dropped; zero for the one in use
}

// NewLeafs returns leafs that hold nothing yet.
func NewLeafs(cfg LeafsConfig) *Leafs {
	cfg.Linger = cmp.Or(cfg.Linger, time.Minute)
	cfg.Spread = cmp.Or(cfg.Spread, 30*time.Second)
	cfg.Rate = cmp.Or(cfg.Rate, 25)
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	cfg.RetryMin = cmp.Or(cfg.RetryMin, 250*time.Millisecond)
	cfg.RetryMax = cmp.Or(cfg.RetryMax, 30*time.Second)
	if cfg.Metrics == nil {
		cfg.Metrics = noLeafMetrics{}
	}
	l := &Leafs{
		cfg: cfg, log: cfg.Logger, renew: make(chan struct{}, 1),
		pairs: map[string][]pair{}, problems: map[string]string{},
	}
	if l.log == nil {
		l.log = hclog.NewNullLogger()
	}
	return l
}

// Pair returns the certificate, with its intermediates, and the key of a fact, as PEM: of the one in use,
// or of the one before it for a short while, so that a view of the facts that is slightly older finds it
// too. They must not be changed.
func (l *Leafs) Pair(leaf facts.Leaf) (chainPEM, keyPEM []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pairs[leaf.Service] {
		// An authority that begins anew counts its serial numbers anew.
		if p.fact.Serial == leaf.Serial && p.fact.URI == leaf.URI && p.fact.NotAfter.Equal(leaf.NotAfter) {
			return p.chain, p.key.PEM(), true
		}
	}
	return nil, nil, false
}

// Renew has every certificate renewed, over the time of the spread.
func (l *Leafs) Renew() { ring(l.renew) }

// noLeafMetrics drops what it is told.
type noLeafMetrics struct{}

func (noLeafMetrics) LeafsHeld(int, time.Time) {}

func (noLeafMetrics) LeafOrder(string) {}
