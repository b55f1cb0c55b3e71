package consulwatch

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Registrations are read with the central configuration, which no event of theirs tells of. So they are
// read again when an entry changes that can be part of it.

// centralKinds are the kinds that central configuration is made of.
func centralKinds(kind chain.Kind) bool {
	return kind == chain.KindProxyDefaults || kind == chain.KindServiceDefaults
}

// central returns what is closed when central configuration has changed; nil for a topic that has none.
func (w *streamWatch) central() <-chan struct{} {
	if w.to.topic.Kind != facts.TopicProxies {
		return nil
	}
	return w.source.central.next()
}

// merged has the registrations read when the configuration that was merged into them has changed.
func (w *streamWatch) merged() {
	if now := w.configuration(); now != w.config {
		w.config = now
		w.doubts.raiseWithin(rand.N(w.source.limits.RetryMin)) // of many topics not all at once
	}
}

// configuration identifies the central configuration of the topic's registrations: of the proxies, of
// the service, and of its upstreams. In a transparent proxy any service may be one.
func (w *streamWatch) configuration() string {
	view := w.to.store.View()
	var b strings.Builder
	note := func(kind chain.Kind, name string) {
		if e, _ := view.Entry(kind, name); e != nil {
			fmt.Fprintf(&b, "%s/%s@%d ", kind, name, e.Head().ModifyIndex)
		}
	}
	note(chain.KindProxyDefaults, "global")
	note(chain.KindServiceDefaults, w.to.topic.Name)
	note(chain.KindServiceDefaults, "*")
	list, _ := view.Instances(w.to.topic)
	for _, in := range list {
		if in.Service.Proxy == nil {
			continue
		}
		if in.Service.Proxy.Mode == "transparent" {
			for _, e := range view.AllEntries(chain.KindServiceDefaults) {
				note(chain.KindServiceDefaults, e.Head().Name)
			}
			break
		}
		for _, u := range in.Service.Proxy.Upstreams {
			note(chain.KindServiceDefaults, u.DestinationName)
		}
	}
	return b.String()
}
