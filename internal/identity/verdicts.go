package identity

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Config is what [Verdicts] are made from. Authorizer is required.
type Config struct {
	Authorizer Authorizer
	// Logger gets what an operator should know; nil means no log.
	Logger hclog.Logger
	// Refresh is how often the rights in use are asked for again, 20 s by default. A Consul agent may
	// itself be 30 s behind.
	Refresh time.Duration
	// Hold is how long an answer counts while Consul cannot be reached, 1 h by default.
	Hold time.Duration
	// Patience is how long Consul gets to answer, 5 s by default.
	Patience time.Duration
}

const (
	// slack is by how much an answer may be older than Refresh and still admit a stream unasked.
	slack = 10 * time.Second
	// denial is how long an answer refuses streams unasked: whoever mends a policy wants to see it work.
	denial = 5 * time.Second
	// workers is how many calls to Consul there are at once.
	workers = 4
	// maxQuestions is how many questions go into a call: Consul answers no more.
	maxQuestions = 64
	// maxIdle is how many tokens are remembered that no stream uses.
	maxIdle = 10_000
)

// Verdicts keeps what Consul answers about the tokens of clients: once for each token and service,
// however many streams ask. It follows the needs of kind rights, and admits streams. All methods are
// safe for concurrent use. It works while Run runs.
type Verdicts struct {
	cfg Config
	log hclog.Logger
	// bell wakes the loop of Run, probe the one that looks whether Consul answers.
	bell, probe chan struct{}

	mu      sync.Mutex // guards all below; never held while anything is waited for
	work    *sync.Cond // there is something in queue, or Run has ended
	queue   []*bearer
	bearers map[digest]*bearer
	readers map[string]*bearer
	named   uint64                   // how many readers were given a name
	needed  map[facts.Topic]struct{} // the needs as last seen
	dirty   map[facts.Topic]struct{} // rights to commit
	acls    acls
	open    map[*Grant]struct{} // the grants made because ACLs are off
	away    string              // why Consul cannot be asked; empty when it can
}

// acls is whether Consul has rights to ask for.
type acls uint8

const (
	aclsUnknown acls = iota
	aclsOn
	aclsOff
)

// NewVerdicts returns verdicts that know nothing yet.
func NewVerdicts(cfg Config) *Verdicts {
	cfg.Refresh = cmp.Or(cfg.Refresh, 20*time.Second)
	cfg.Hold = cmp.Or(cfg.Hold, time.Hour)
	cfg.Patience = cmp.Or(cfg.Patience, 5*time.Second)
	v := &Verdicts{
		cfg: cfg, log: cfg.Logger,
		bell: make(chan struct{}, 1), probe: make(chan struct{}, 1),
		bearers: map[digest]*bearer{}, readers: map[string]*bearer{},
		needed: map[facts.Topic]struct{}{}, dirty: map[facts.Topic]struct{}{},
		open: map[*Grant]struct{}{},
	}
	v.work = sync.NewCond(&v.mu)
	if v.log == nil {
		v.log = hclog.NewNullLogger()
	}
	return v
}

// bearer returns what is known of a token. The caller holds the lock.
func (v *Verdicts) bearer(t Token) *bearer {
	key := t.digest()
	b := v.bearers[key]
	if b == nil {
		v.named++
		b = &bearer{
			key: key, token: t, reader: fmt.Sprintf("token-%d", v.named),
			verdicts: map[Question]verdict{}, asked: map[Question]*flight{},
			grants: map[*Grant]struct{}{}, needs: map[Question]facts.Topic{},
		}
		v.bearers[key], v.readers[b.reader] = b, b
	}
	return b
}

// drop forgets a bearer. The caller holds the lock.
func (v *Verdicts) drop(b *bearer) {
	if v.bearers[b.key] != b {
		return
	}
	delete(v.bearers, b.key)
	delete(v.readers, b.reader)
	for _, topic := range b.needs {
		v.dirty[topic] = struct{}{}
	}
	clear(b.needs)
	ring(v.bell)
}

// ask has a question answered anew. The caller holds the lock.
func (v *Verdicts) ask(b *bearer, q Question) {
	if _, ok := b.asked[q]; !ok {
		b.asked[q] = nil
	}
	v.enqueue(b)
}

// await is ask for someone who waits for the answer. The caller holds the lock.
func (v *Verdicts) await(b *bearer, q Question) *flight {
	f := b.asked[q]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		b.asked[q] = f
	}
	v.enqueue(b)
	return f
}

func (v *Verdicts) enqueue(b *bearer) {
	if !b.queued {
		b.queued = true
		v.queue = append(v.queue, b)
		v.work.Signal()
	}
}

// fresh reports whether a verdict is young enough to go by unasked.
func (v *Verdicts) fresh(d verdict, now time.Time) bool {
	limit := denial
	if d.allow {
		limit = v.cfg.Refresh + slack
	}
	return !d.at.IsZero() && now.Sub(d.at) <= limit
}

// held reports whether a verdict counts while Consul cannot be asked.
func (v *Verdicts) held(d verdict, now time.Time) bool {
	return !d.at.IsZero() && now.Sub(d.at) <= v.cfg.Hold
}

// readOf is the question behind a topic of kind rights.
func readOf(t facts.Topic) Question {
	return Question{Service: strings.ToLower(t.Name), Access: Read}
}

// ring wakes who waits for a bell of capacity one.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
