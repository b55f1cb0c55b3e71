package fleet

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

// kind is a resource type's place in the order in which an Envoy asks.
type kind int

const (
	clusters kind = iota
	secrets
	endpoints
	listeners
	routes
	kinds
)

// url is the type's URL.
func (k kind) url() string {
	return [kinds]string{wire.ClusterType, wire.SecretType, wire.EndpointType, wire.ListenerType, wire.RouteType}[k]
}

// String is the name of the service of that type.
func (k kind) String() string { return [kinds]string{"CDS", "SDS", "EDS", "LDS", "RDS"}[k] }

func kindOf(url []byte) (kind, error) {
	for k := clusters; k < kinds; k++ {
		if string(url) == k.url() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("a response of type %q, which was not asked for", url)
}

// envoy is the protocol state of one imitated Envoy on one stream. Its stream's goroutine alone touches
// it, but for what is atomic.
type envoy struct {
	node wire.Node
	// clusters is how many clusters with endpoints make its configuration whole.
	clusters int
	// refuseEvery is [Config.RefuseEvery].
	refuseEvery int
	send        func([]byte)
	// became is called once, when the configuration is whole, and saw with every set of endpoints.
	became func()
	saw    func(name, body []byte)

	held      [kinds]held
	response  wire.Response
	encoded   []byte
	full      atomic.Bool
	responses int

	bytes     [kinds]atomic.Int64
	messages  atomic.Int64
	resources atomic.Int64
	refused   atomic.Int64
}

// held is what is held of a type.
type held struct {
	asked, answered bool
	// wanted are the names subscribed to, for the types that are asked for by name.
	wanted map[string]bool
	// versions are those of what was answered; that of what does not exist is empty.
	versions map[string]string
}

// begin sends the first requests: for clusters, which the rest follows, or with the versions of an
// earlier stream for everything that it had, as an Envoy does.
func (e *envoy) begin(earlier *envoy) {
	for k := range e.held {
		e.held[k] = held{wanted: map[string]bool{}, versions: map[string]string{}}
	}
	if earlier == nil {
		e.ask(clusters, wire.Request{Node: &e.node})
		return
	}
	for k := clusters; k < kinds; k++ {
		old := &earlier.held[k]
		e.held[k].wanted, e.held[k].versions = old.wanted, old.versions
		existing := maps.Clone(old.versions)
		maps.DeleteFunc(existing, func(_, version string) bool { return version == "" })
		r := wire.Request{Subscribe: slices.Sorted(maps.Keys(old.wanted)), Initial: existing}
		if k == clusters {
			r.Node = &e.node
		}
		if k == clusters || k == listeners || len(r.Subscribe) > 0 {
			e.ask(k, r)
		}
	}
}

// ask sends the request for a type.
func (e *envoy) ask(k kind, r wire.Request) {
	e.held[k].asked = true
	r.Type = k.url()
	e.encoded = r.Append(e.encoded[:0])
	e.send(e.encoded)
}

// take takes a response, and sends what an Envoy answers.
func (e *envoy) take(message []byte) error {
	r := &e.response
	if err := r.Parse(message); err != nil {
		return err
	}
	k, err := kindOf(r.Type)
	if err != nil {
		return err
	}
	e.bytes[k].Add(int64(len(message)))
	e.messages.Add(1)
	e.resources.Add(int64(len(r.Resources)))
	if k == endpoints { // what is refused has arrived all the same
		for _, x := range r.Resources {
			e.saw(x.Name, x.Body)
		}
	}
	if e.responses++; e.refuseEvery > 0 && e.full.Load() && e.responses%e.refuseEvery == 0 {
		e.refused.Add(1)
		e.ask(k, wire.Request{Nonce: r.Nonce, Refusal: "refused by the load generator"})
		return nil
	}
	h := &e.held[k]
	h.answered = true
	for _, x := range r.Resources {
		h.put(x)
	}
	for _, name := range r.Removed {
		h.remove(name, k)
	}
	e.ask(k, wire.Request{Nonce: r.Nonce})
	if err := e.follow(k); err != nil {
		return err
	}
	if !e.full.Load() && e.whole() {
		e.full.Store(true)
		e.became()
	}
	return nil
}

func (h *held) put(x wire.Resource) {
	// A conversion in the index does not allocate, and most of what comes has come before.
	if version, ok := h.versions[string(x.Name)]; !ok || version != string(x.Version) {
		h.versions[string(x.Name)] = string(x.Version)
	}
}

// remove forgets what is gone. That a name asked for does not exist is an answer.
func (h *held) remove(name []byte, k kind) {
	if k != clusters && k != listeners {
		h.versions[string(name)] = ""
		return
	}
	delete(h.versions, string(name))
}

// follow asks for what a response names or lets an Envoy go on to.
func (e *envoy) follow(k kind) error {
	switch k {
	case clusters:
		if err := e.nameAll(secrets, wire.SecretsOf); err != nil {
			return err
		}
		return e.name(endpoints, wire.EndpointsOf)
	case secrets, endpoints:
		e.listen()
	case listeners:
		return e.nameAll(routes, wire.RoutesOf)
	default:
		return nil
	}
	return nil
}

// name subscribes to what each resource of the response names, if anything.
func (e *envoy) name(k kind, of func([]byte) (string, error)) error {
	err := e.nameAll(k, func(body []byte) ([]string, error) {
		name, err := of(body)
		if err != nil || name == "" {
			return nil, err
		}
		return []string{name}, nil
	})
	e.listen()
	return err
}

func (e *envoy) nameAll(k kind, of func([]byte) ([]string, error)) error {
	wanted := e.held[k].wanted
	var r wire.Request
	for _, x := range e.response.Resources {
		names, err := of(x.Body)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !wanted[name] {
				wanted[name] = true
				r.Subscribe = append(r.Subscribe, name)
			}
		}
	}
	if k == endpoints {
		r.Unsubscribe = e.forget(wanted)
	}
	if len(r.Subscribe)+len(r.Unsubscribe) > 0 {
		e.ask(k, r)
	}
	return nil
}

// forget gives up the endpoints of clusters that are gone.
func (e *envoy) forget(wanted map[string]bool) (names []string) {
	for _, name := range e.response.Removed {
		if wanted[string(name)] {
			delete(wanted, string(name))
			delete(e.held[endpoints].versions, string(name))
			names = append(names, string(name))
		}
	}
	return names
}

// listen asks for listeners once all clusters are warm, as an Envoy does.
func (e *envoy) listen() {
	if !e.held[listeners].asked && e.warm() {
		e.ask(listeners, wire.Request{})
	}
}

func (e *envoy) warm() bool {
	h, s := &e.held[endpoints], &e.held[secrets]
	return e.held[clusters].answered && len(h.wanted) >= e.clusters && len(h.versions) >= len(h.wanted) && len(s.versions) >= len(s.wanted)
}

func (e *envoy) whole() bool {
	return e.held[listeners].answered && e.warm() && len(e.held[routes].versions) >= len(e.held[routes].wanted)
}

func (e *envoy) bytesRead() (n int64) {
	for k := range e.bytes {
		n += e.bytes[k].Load()
	}
	return n
}

// progress says how far the configuration has come, for a reader of an error.
func (e *envoy) progress() string {
	h := &e.held
	return fmt.Sprintf("%d clusters, endpoints of %d of %d (%d are awaited), %d listeners (asked for: %t), routes %d of %d, %d messages",
		len(h[clusters].versions), len(h[endpoints].versions), len(h[endpoints].wanted), e.clusters,
		len(h[listeners].versions), h[listeners].asked, len(h[routes].versions), len(h[routes].wanted), e.messages.Load())
}
