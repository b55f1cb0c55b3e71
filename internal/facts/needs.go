package facts

import (
	"slices"
	"strings"
	"sync"
)

// needs is which topics are needed, and by how many. Its lists are its own.
type needs struct {
	mu    sync.Mutex
	byWho map[string][]Topic
	count map[Topic]int
	bells map[chan struct{}]struct{}
}

func newNeeds() needs {
	return needs{byWho: map[string][]Topic{}, count: map[Topic]int{}, bells: map[chan struct{}]struct{}{}}
}

// Need replaces the topics that who needs; none ends all of who's needs. Equal topics of several
// needers are followed once.
func (s *Store) Need(who string, topics ...Topic) {
	var follow, rights []Topic
	for _, t := range topics {
		if t.Kind == TopicRights {
			rights = append(rights, t)
		} else {
			follow = append(follow, t)
		}
	}
	s.needs.replace(who, follow)
	s.rightsNeeds.replace(who, rights)
}

// replace is Need for topics that are told to the same.
func (n *needs) replace(who string, topics []Topic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := false
	for _, t := range topics {
		n.count[t]++
		changed = changed || n.count[t] == 1
	}
	for _, t := range n.byWho[who] {
		if n.count[t]--; n.count[t] == 0 {
			delete(n.count, t)
			changed = true
		}
	}
	if len(topics) == 0 {
		delete(n.byWho, who)
	} else {
		n.byWho[who] = topics
	}
	if !changed {
		return
	}
	for bell := range n.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// Needs returns the needed topics in order, and for each by how many it is needed. Rights are not among
// them: no source follows those.
func (s *Store) Needs() ([]Topic, map[Topic]int) {
	n := &s.needs
	n.mu.Lock()
	defer n.mu.Unlock()
	topics := make([]Topic, 0, len(n.count))
	count := make(map[Topic]int, len(n.count))
	for t, c := range n.count {
		topics = append(topics, t)
		count[t] = c
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.String(), b.String()) })
	return topics, count
}

// NeedsBell returns a channel that receives when the set of needed topics may have changed, and a
// function that ends it.
func (s *Store) NeedsBell() (<-chan struct{}, func()) { return s.needs.bell() }

// RightsNeeds returns the needed topics of kind rights, in no order.
func (s *Store) RightsNeeds() []Topic {
	n := &s.rightsNeeds
	n.mu.Lock()
	defer n.mu.Unlock()
	topics := make([]Topic, 0, len(n.count))
	for t := range n.count {
		topics = append(topics, t)
	}
	return topics
}

// RightsBell is [Store.NeedsBell] for [Store.RightsNeeds].
func (s *Store) RightsBell() (<-chan struct{}, func()) { return s.rightsNeeds.bell() }

func (n *needs) bell() (<-chan struct{}, func()) {
	bell := make(chan struct{}, 1)
	n.mu.Lock()
	n.bells[bell] = struct{}{}
	n.mu.Unlock()
	return bell, func() {
		n.mu.Lock()
		delete(n.bells, bell)
		n.mu.Unlock()
	}
}
