package consulwatch

import (
	"context"
	"sync"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// idle is how long the roster sleeps when there is nothing to come.
const idle = time.Hour

// roster keeps the followed topics those that are wanted.
type roster struct {
	source *Source
	store  *facts.Store
	group  *sync.WaitGroup
}

// always reports whether a topic is followed without being needed.
func (s *Source) always(topic facts.Topic) bool {
	if topic.Kind == facts.TopicEntries || topic == facts.CARoots() || topic == facts.DefaultIntention() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.local != "" && topic == facts.Services(s.local)
}

// wanted returns the topics to follow: what always is, what is needed, and the services of each datacenter
// of which something is needed.
func (r *roster) wanted() map[facts.Topic]bool {
	wanted := r.permanent()
	needs, _ := r.store.Needs()
	for _, topic := range needs {
		if queryFor(topic, "").path == "" {
			continue // not a kind that Consul has
		}
		wanted[topic] = true
		if topic.Datacenter != "" {
			wanted[facts.Services(topic.Datacenter)] = true
		}
	}
	return wanted
}

// permanent returns the topics that are followed without being needed: the config entries, what the mesh rests
// on, and the services of the own datacenter.
func (r *roster) permanent() map[facts.Topic]bool {
	permanent := map[facts.Topic]bool{}
	if r.source.sparse {
		return permanent
	}
	permanent[facts.CARoots()], permanent[facts.DefaultIntention()] = true, true
	for _, k := range chain.AllKinds() {
		permanent[facts.Entries(k)] = true
	}
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if local := r.source.local; local != "" {
		permanent[facts.Services(local)] = true
	}
	return permanent
}

// reconcile starts what is wanted and not followed, ends what has lingered, and returns when it is to
// be called again at the latest.
func (r *roster) reconcile(ctx context.Context, now time.Time) time.Duration {
	s, wanted := r.source, r.wanted()
	next := idle
	var ended []facts.Topic
	s.mu.Lock()
	for topic, f := range s.following {
		switch {
		case wanted[topic]:
			f.until = time.Time{}
		case f.until.IsZero():
			f.until = now.Add(s.limits.Linger)
			next = min(next, s.limits.Linger)
		case now.Before(f.until):
			next = min(next, f.until.Sub(now))
		default:
			ended = append(ended, topic)
		}
	}
	for topic := range wanted {
		if s.following[topic] == nil {
			s.following[topic] = r.start(ctx, topic)
		}
	}
	s.mu.Unlock()
	r.forget(ctx, ended)
	return next
}

func (r *roster) start(ctx context.Context, topic facts.Topic) *followed {
	ctx, cancel := context.WithCancel(ctx)
	f := &followed{
		sink:   &sink{source: r.source, store: r.store, topic: topic},
		cancel: cancel, done: make(chan struct{}), begun: time.Now(),
	}
	r.group.Go(func() {
		defer close(f.done)
		r.source.followTopic(ctx, f.sink)
	})
	return f
}

// forget ends topics and drops what is known of them, once nothing can commit to them any more. What is
// wanted again by then is kept, and followed on.
func (r *roster) forget(ctx context.Context, topics []facts.Topic) {
	if len(topics) == 0 {
		return
	}
	s := r.source
	s.mu.Lock()
	var ended []*followed
	for _, topic := range topics {
		ended = append(ended, s.following[topic])
		delete(s.following, topic)
	}
	s.mu.Unlock()
	for _, f := range ended {
		f.cancel()
	}
	for _, f := range ended {
		<-f.done
		f.sink.hidden("")
		s.regained(f.sink.topic)
		s.polled(f.sink.topic, nil, "")
	}
	var kept []facts.Topic
	r.store.Commit(func(tx *facts.Tx) {
		wanted := r.wanted()
		for _, topic := range topics {
			if wanted[topic] {
				kept = append(kept, topic)
			} else {
				tx.Forget(topic)
			}
		}
	})
	s.mu.Lock()
	for _, topic := range kept {
		s.following[topic] = r.start(ctx, topic)
	}
	s.mu.Unlock()
}
