package destination

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// atlas is where nodes are, as far as instances tell that are followed anyway: a proxy may run on a node that has no
// instance of what it asks for. It is kept while a proxy asks that says its node and not its zone.
type atlas struct {
	store      *facts.Store
	datacenter string
	wake       chan struct{} // a bell: the first asks, or none does any more

	pages map[facts.Topic][]*facts.Instance // of the goroutine that runs

	mu    sync.Mutex // guards all below
	asked map[string]map[*watcher]struct{}
	nodes map[string]map[facts.Locality]int // by how many instances; nil until all were looked at
}

func newAtlas(cfg Config) *atlas {
	return &atlas{store: cfg.Store, datacenter: cfg.Place.Datacenter, wake: make(chan struct{}, 1), asked: map[string]map[*watcher]struct{}{}}
}

// follows reports whether it makes a difference where the node of a proxy is.
func (o Origin) follows() bool { return o.Node != "" && o.Zone == "" }

// follow has a watcher told when it becomes known where its node is.
func (a *atlas) follow(o Origin, w *watcher) {
	if !o.follows() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	node := strings.ToLower(o.Node)
	if a.asked[node] == nil {
		a.asked[node] = map[*watcher]struct{}{}
	}
	a.asked[node][w] = struct{}{}
	if a.nodes == nil {
		a.ring()
	}
}

func (a *atlas) drop(o Origin, w *watcher) {
	if !o.follows() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	node := strings.ToLower(o.Node)
	if delete(a.asked[node], w); len(a.asked[node]) == 0 {
		delete(a.asked, node)
	}
	if len(a.asked) == 0 {
		a.ring()
	}
}

func (a *atlas) ring() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// find returns where a node is, empty where that is not known: what most of its instances say.
func (a *atlas) find(node string) (region, zone string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.at(strings.ToLower(node))
	return at.Region, at.Zone
}

func (a *atlas) at(node string) facts.Locality {
	var best facts.Locality
	most := 0
	for l, n := range a.nodes[node] {
		if n > most || n == most && cmp.Or(strings.Compare(l.Region, best.Region), strings.Compare(l.Zone, best.Zone)) < 0 {
			best, most = l, n
		}
	}
	return best
}

// run keeps the atlas until ctx ends.
func (a *atlas) run(ctx context.Context, sub *facts.Subscription) {
	defer sub.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
			a.turn(nil)
		case <-sub.Bell():
			_, changed := sub.Drain()
			a.turn(changed)
		}
	}
}

func (a *atlas) turn(ids []facts.ID) {
	a.mu.Lock()
	open, wanted := a.nodes != nil, len(a.asked) > 0
	if open && !wanted {
		a.nodes, a.pages = nil, nil
	}
	a.mu.Unlock()
	if !wanted {
		return
	}
	view, topics := a.store.View(), map[facts.Topic]bool{}
	for _, id := range ids {
		topics[id.Topic] = a.tells(id.Topic)
	}
	if !open {
		a.pages = map[facts.Topic][]*facts.Instance{}
		for _, status := range view.Topics() {
			topics[status.Topic] = a.tells(status.Topic)
		}
	}
	moves := map[string]map[facts.Locality]int{}
	for topic, tells := range topics {
		if tells {
			a.read(view, topic, moves)
		}
	}
	a.move(moves)
}

// tells reports whether a topic has instances, which tell where their nodes are.
func (a *atlas) tells(t facts.Topic) bool {
	return t.Peer == "" && t.Datacenter == a.datacenter && (t.Kind == facts.TopicHealth || t.Kind == facts.TopicConnect)
}

// read counts by how many instances of a topic more or less a node is somewhere.
func (a *atlas) read(view facts.View, topic facts.Topic, moves map[string]map[facts.Locality]int) {
	list, _ := view.Instances(topic)
	gone, come := difference(a.pages[topic], list)
	if a.pages[topic] = list; len(list) == 0 {
		delete(a.pages, topic)
	}
	count := func(in *facts.Instance, n int) {
		l := in.Node.Locality
		if l == nil {
			l = in.Service.Locality
		}
		if l == nil || l.Zone == "" {
			return
		}
		node := strings.ToLower(in.Node.Node)
		if moves[node] == nil {
			moves[node] = map[facts.Locality]int{}
		}
		moves[node][facts.Locality{Region: clean(l.Region), Zone: clean(l.Zone)}] += n
	}
	for _, in := range gone {
		count(in, -1)
	}
	for _, in := range come {
		count(in, 1)
	}
}

// move makes what was counted the case, and tells those whose node is elsewhere than it was.
func (a *atlas) move(moves map[string]map[facts.Locality]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes == nil {
		a.nodes = map[string]map[facts.Locality]int{}
	}
	for node, counts := range moves {
		before := a.at(node)
		at := a.nodes[node]
		if at == nil {
			at = map[facts.Locality]int{}
			a.nodes[node] = at
		}
		for l, n := range counts {
			if at[l] += n; at[l] <= 0 {
				delete(at, l)
			}
		}
		if len(at) == 0 {
			delete(a.nodes, node)
		}
		if a.at(node) == before {
			continue
		}
		for w := range a.asked[node] {
			w.ring()
		}
	}
}
