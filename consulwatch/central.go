package consulwatch

import (
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// Registrations are read with the central configuration, which no event of theirs tells of. So they are
// read again when an entry changes that can be part of it.

// isCentral reports whether central configuration is made of a kind.
func isCentral(kind chain.Kind) bool {
	return kind == chain.KindProxyDefaults || kind == chain.KindServiceDefaults
}

// central is the central configuration of the registrations of a topic when it was last looked at. The
// zero value is that of a topic that has none.
type central struct {
	to   *sink
	next <-chan struct{} // closed when any has changed
	was  string
}

func newCentral(to *sink) central {
	if to.topic.Kind != facts.TopicProxies {
		return central{}
	}
	c := central{to: to}
	c.changed()
	return c
}

// changed reports whether it has changed since it was last looked at, for these registrations.
func (c *central) changed() bool {
	if c.to == nil {
		return false
	}
	c.next = c.to.source.central.next()
	now := c.identify()
	changed := now != c.was
	c.was = now
	return changed
}

// identify returns what identifies the configuration: of the proxies, of the service, and of its
// upstreams. In a transparent proxy any service may be one.
func (c *central) identify() string {
	view := c.to.store.View()
	var b strings.Builder
	note := func(kind chain.Kind, name string) {
		if e, _ := view.Entry(kind, name); e != nil {
			fmt.Fprintf(&b, "%s/%s@%d ", kind, name, e.Head().ModifyIndex)
		}
	}
	note(chain.KindProxyDefaults, "global")
	note(chain.KindServiceDefaults, c.to.topic.Name)
	note(chain.KindServiceDefaults, "*")
	list, _ := view.Instances(c.to.topic)
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
