package consulwatch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// What is known of a topic is dropped when it has lingered, but not when it is needed again while its
// follower ends.
func TestWhatIsNeededAgainIsNotForgotten(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s, err := New(f.config())
	if err != nil {
		t.Fatal(err)
	}
	store := facts.New()
	topics := []facts.Topic{apiHealth, facts.Health("dc1", "web")}
	ending := make(chan func())
	s.follow = func(ctx context.Context, to *sink) {
		<-ctx.Done()
		if during := <-ending; during != nil {
			during()
		}
	}
	store.Commit(func(tx *facts.Tx) {
		for _, topic := range topics {
			tx.Instances(topic, nil, facts.Reading{Confirmed: true})
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	r := &roster{source: s, store: store, group: &group}
	store.Need("test", topics...)
	now := time.Now()
	r.reconcile(ctx, now)
	store.Need("test")
	r.reconcile(ctx, now)
	go func() {
		ending <- func() { store.Need("test", apiHealth) }
		close(ending)
	}()
	r.reconcile(ctx, now.Add(s.limits.Linger))
	v := store.View()
	if !v.Topic(apiHealth).Read || v.Topic(topics[1]).Read {
		t.Errorf("needed again: known %t; not needed: known %t", v.Topic(apiHealth).Read, v.Topic(topics[1]).Read)
	}
	s.mu.Lock()
	if s.following[apiHealth] == nil || s.following[topics[1]] != nil {
		t.Errorf("followed: %v", s.following)
	}
	s.mu.Unlock()
	cancel()
	group.Wait()
}
