package factstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// timeout is how long a source may take to see a change. A source that backs off, or takes turns, may
// need seconds.
const timeout = 30 * time.Second

// watch follows the store of a harness.
type watch struct {
	Harness
	t       *testing.T
	sub     *facts.Subscription
	needed  []facts.Topic
	view    facts.View
	changed map[facts.ID]bool
	markers int
}

// follow subscribes to the store and needs the topics until the test ends.
func follow(t *testing.T, h Harness, topics ...facts.Topic) *watch {
	t.Helper()
	w := &watch{Harness: h, t: t, needed: topics, sub: h.Store().Subscribe(), changed: map[facts.ID]bool{}}
	w.view = h.Store().View()
	h.Store().Need("factstest", topics...)
	t.Cleanup(func() {
		h.Store().Need("factstest")
		w.sub.Close()
	})
	return w
}

// until waits until the condition holds; it returns what is still missing, or nothing.
func (w *watch) until(condition func() string) {
	w.t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		missing := condition()
		if missing == "" {
			return
		}
		select {
		case <-w.sub.Bell():
			w.drain()
		case <-deadline.C:
			w.t.Fatalf("not within %v: %s", timeout, missing)
		}
	}
}

// drain takes what changed of entries, services and needed topics: a source may know more. How well a
// topic is known as a whole is not followed: sources differ in when they learn that.
func (w *watch) drain() {
	var ids []facts.ID
	w.view, ids = w.sub.Drain()
	for _, id := range ids {
		always := id.Topic.Kind == facts.TopicEntries || id.Topic.Kind == facts.TopicServices
		if id.Row != facts.StatusRow && (always || slices.Contains(w.needed, id.Topic)) {
			w.changed[id] = true
		}
	}
}

// changes runs f, waits until all that is wanted has changed, and fails if anything else has.
func (w *watch) changes(f func(), want ...facts.ID) {
	w.t.Helper()
	clear(w.changed)
	f()
	w.until(func() string {
		for _, id := range want {
			if !w.changed[id] {
				return id.String() + " to change"
			}
		}
		return ""
	})
	// What changed by mistake comes with what was meant or soon after: the source is made to read
	// again, and then nothing else may have changed.
	want = append(want, w.mark())
	for id := range w.changed {
		if !slices.Contains(want, id) {
			w.t.Errorf("%s changed; want only %v", id, want)
		}
	}
}

// mark changes an entry that nothing else is about, and waits until it is seen.
func (w *watch) mark() facts.ID {
	w.t.Helper()
	w.markers++
	w.PutEntry(w.t, fmt.Sprintf(
		`{"Kind": "service-defaults", "Name": %q, "Protocol": "http", "Meta": {"mark": "%d"}}`, w.marker(), w.markers))
	id := entryID(chain.KindServiceDefaults, w.marker())
	w.until(func() string {
		e, _ := w.view.Entry(chain.KindServiceDefaults, w.marker())
		if e == nil || e.Head().Meta["mark"] != fmt.Sprint(w.markers) {
			return "the marker, " + id.String()
		}
		return ""
	})
	return id
}

func (w *watch) marker() string {
	return strings.ToLower(strings.ReplaceAll(w.t.Name(), "/", "-")) + "-marker"
}

// entry waits until an entry is in the state and, if it is present, fulfils the test.
func (w *watch) entry(kind chain.Kind, name string, want facts.State, ok func(chain.Entry) bool) {
	w.t.Helper()
	w.until(func() string {
		e, state := w.view.Entry(kind, name)
		if state != want || (e != nil && ok != nil && !ok(e)) {
			return fmt.Sprintf("%s/%s to be %s; it is %s: %+v", kind, name, want, state, e)
		}
		return ""
	})
}

// service waits until a service is in the state.
func (w *watch) service(name string, want facts.State) {
	w.t.Helper()
	w.until(func() string {
		if state := w.view.Service(w.Datacenter(), name); state != want {
			return fmt.Sprintf("service %s to be %s; it is %s", name, want, state)
		}
		return ""
	})
}

// instances waits until a topic has exactly the instances, or is absent when there are none.
func (w *watch) instances(topic facts.Topic, want ...ServiceSpec) {
	w.t.Helper()
	byID := map[string]ServiceSpec{}
	for _, s := range want {
		byID[s.ID] = s.WithDefaults()
	}
	state := facts.Present
	if len(want) == 0 {
		state = facts.Absent
	}
	w.until(func() string {
		list, got := w.view.Instances(topic)
		if got != state || len(list) != len(want) {
			return fmt.Sprintf("%s to be %s with %d instances; it is %s with %d", topic, state, len(want), got, len(list))
		}
		for _, in := range list {
			s, ok := byID[in.Service.ID]
			if !ok {
				return fmt.Sprintf("%s to be without %s", topic, in.Service.ID)
			}
			if diff := s.differs(in, topic.Kind == facts.TopicProxies); diff != "" {
				return fmt.Sprintf("%s of %s: %s", s.ID, topic, diff)
			}
		}
		return ""
	})
}

// differs says in what an instance is not what was registered.
func (s ServiceSpec) differs(in *facts.Instance, registration bool) string {
	got := in.Service
	switch {
	case got.Service != s.Name || got.Port != s.Port || got.Address != s.Address:
		return fmt.Sprintf("is %s at %s:%d", got.Service, got.Address, got.Port)
	case !slices.Equal(got.Tags, s.Tags):
		return fmt.Sprintf("has the tags %q", got.Tags)
	case !maps.Equal(got.Meta, s.Meta):
		return fmt.Sprintf("has the meta %q", got.Meta)
	case got.Weights != s.Weights:
		return fmt.Sprintf("has the weights %v", got.Weights)
	case in.Node.Node == "" || in.Node.Address == "" || in.Node.Datacenter == "":
		return fmt.Sprintf("has the incomplete node %+v", in.Node)
	case registration && len(in.Checks) != 0:
		return "is a registration and has checks"
	case !registration && worst(in) != s.Status:
		return fmt.Sprintf("is %s", worst(in))
	}
	return s.proxyDiffers(got)
}

func (s ServiceSpec) proxyDiffers(got facts.Service) string {
	if s.Proxy == nil {
		if got.Kind != "" || got.Proxy != nil {
			return fmt.Sprintf("is of kind %q", got.Kind)
		}
		return ""
	}
	if got.Kind != "connect-proxy" || got.Proxy == nil {
		return fmt.Sprintf("is of kind %q", got.Kind)
	}
	if got.Proxy.DestinationServiceName != s.Proxy.DestinationServiceName ||
		got.Proxy.DestinationServiceID != s.Proxy.DestinationServiceID ||
		got.Proxy.LocalServicePort != s.Proxy.LocalServicePort {
		return fmt.Sprintf("has the proxy %+v", *got.Proxy)
	}
	same := slices.EqualFunc(got.Proxy.Upstreams, s.Proxy.Upstreams, func(a, b facts.Upstream) bool {
		return a.DestinationName == b.DestinationName && a.LocalBindPort == b.LocalBindPort
	})
	if !same {
		return fmt.Sprintf("has the upstreams %+v", got.Proxy.Upstreams)
	}
	return ""
}

// worst is the worst status of the instance's own checks.
func worst(in *facts.Instance) facts.CheckStatus {
	status := facts.StatusPassing
	for _, c := range in.Checks {
		if c.Status == facts.StatusCritical || (c.Status == facts.StatusWarning && status == facts.StatusPassing) {
			status = c.Status
		}
	}
	return status
}

func entryID(kind chain.Kind, name string) facts.ID {
	return facts.ID{Topic: facts.Entries(kind), Row: name}
}

func (w *watch) health(service string) facts.Topic { return facts.Health(w.Datacenter(), service) }

func (w *watch) healthID(service string) facts.ID { return facts.ID{Topic: w.health(service)} }

func (w *watch) serviceID(name string) facts.ID {
	return facts.ID{Topic: facts.Services(w.Datacenter()), Row: name}
}
