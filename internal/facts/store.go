package facts

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/go-memdb"

	"github.com/catenary-mesh/catenary/chain"
)

// Store holds the facts. All methods are safe for concurrent use. Create one with [New].
type Store struct {
	db    *memdb.MemDB
	needs needs // of what sources follow
	// rightsNeeds are apart: who asks for rights is no source, and there may be far more of them.
	rightsNeeds needs

	mu     sync.Mutex // guards subs and shares, and orders commits
	subs   map[*Subscription]struct{}
	shares *shares
}

// New returns an empty store in which every fact is unknown.
func New() *Store {
	db, err := memdb.NewMemDB(schema())
	if err != nil {
		panic(fmt.Sprintf("facts: the schema is invalid: %v", err)) // a bug: the schema is constant
	}
	return &Store{db: db, subs: map[*Subscription]struct{}{}, needs: newNeeds(), rightsNeeds: newNeeds(), shares: newShares()}
}

const (
	tableTopics    = "topics"
	tableEntries   = "entries"
	tableServices  = "services"
	tableInstances = "instances"
	tableRights    = "rights"
	tableValues    = "values"

	indexID    = "id"
	indexTopic = "topic"
)

// topicRow is what is known of a topic as a whole.
type topicRow struct {
	Key string // Topic.String()
	TopicStatus
}

// entryRow and serviceRow are rows by (topic, lower-cased name).
type entryRow struct {
	Topic, Key string
	Entry      chain.Entry
	State      State
}

type serviceRow struct {
	Topic, Key string
	Name       string
	State      State
}

func schema() *memdb.DBSchema {
	str := func(f string) memdb.Indexer { return &memdb.StringFieldIndex{Field: f} }
	keyed := func(name string, fields ...string) *memdb.TableSchema {
		id := &memdb.CompoundIndex{}
		for _, f := range fields {
			id.Indexes = append(id.Indexes, str(f))
		}
		return &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{
			indexID:    {Name: indexID, Unique: true, Indexer: id},
			indexTopic: {Name: indexTopic, Indexer: str("Topic")},
		}}
	}
	return &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		tableTopics: {Name: tableTopics, Indexes: map[string]*memdb.IndexSchema{
			indexID: {Name: indexID, Unique: true, Indexer: str("Key")},
		}},
		tableEntries:   keyed(tableEntries, "Topic", "Key"),
		tableServices:  keyed(tableServices, "Topic", "Key"),
		tableInstances: keyed(tableInstances, "Topic"),
		tableRights:    keyed(tableRights, "Topic"),
		tableValues:    keyed(tableValues, "Topic"),
	}}
}

// Commit runs f on a transaction and publishes what it did as one change: a view has all of it or
// none. f must not call the store.
func (s *Store) Commit(f func(tx *Tx)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	txn := s.db.Txn(true)
	tx := &Tx{txn: txn, changed: map[ID]struct{}{}, shares: s.shares}
	f(tx)
	txn.Commit()
	if len(tx.changed) == 0 {
		return
	}
	for sub := range s.subs {
		sub.add(tx.changed)
	}
}

// View returns the facts as they are now.
func (s *Store) View() View { return View{txn: s.db.Txn(false)} }

// Subscription accumulates the IDs of changed facts for one reader. It holds each ID once, so that a
// slow reader costs no more than there are facts.
type Subscription struct {
	store *Store
	bell  chan struct{}

	mu      sync.Mutex
	changed map[ID]struct{}
}

// Subscribe returns a subscription to all changes from now on. Close ends it.
func (s *Store) Subscribe() *Subscription {
	sub := &Subscription{store: s, bell: make(chan struct{}, 1), changed: map[ID]struct{}{}}
	s.mu.Lock()
	s.subs[sub] = struct{}{}
	s.mu.Unlock()
	return sub
}

// Close ends the subscription.
func (sub *Subscription) Close() {
	sub.store.mu.Lock()
	delete(sub.store.subs, sub)
	sub.store.mu.Unlock()
}

// Bell receives when there may be something to drain.
func (sub *Subscription) Bell() <-chan struct{} { return sub.bell }

// Drain returns the facts as they are now and the IDs of those that changed since the last call, in
// no order. The view is never older than the IDs.
func (sub *Subscription) Drain() (View, []ID) {
	sub.mu.Lock()
	changed := sub.changed
	sub.changed = map[ID]struct{}{}
	sub.mu.Unlock()
	ids := make([]ID, 0, len(changed))
	for id := range changed {
		ids = append(ids, id)
	}
	return sub.store.View(), ids
}

func (sub *Subscription) add(ids map[ID]struct{}) {
	sub.mu.Lock()
	for id := range ids {
		sub.changed[id] = struct{}{}
	}
	sub.mu.Unlock()
	select {
	case sub.bell <- struct{}{}:
	default:
	}
}

// rowKey is a name as part of a row's key. Look-ups in Consul ignore case, and the table's index
// cannot hold an empty string, which no valid name is.
func rowKey(name string) string {
	if name == "" {
		return "-"
	}
	return strings.ToLower(name)
}
