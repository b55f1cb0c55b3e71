package destination

import (
	"net/netip"
	"slices"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// bookNeed is the name under which the book needs its topics.
const bookNeed = "destination-addresses"

// open has the book follow an address. The first one opens it.
func (h *hub) open(s *subject, view facts.View) {
	if h.book == nil {
		h.book = newBook(h.cfg.Place.Datacenter)
		h.cover(view)
		changed := map[netip.Addr]struct{}{}
		for _, topic := range h.covered {
			h.read(view, topic, changed)
		}
	}
	ip := s.question.addr.Addr()
	if h.byAddr[ip] == nil {
		h.byAddr[ip] = map[*subject]struct{}{}
	}
	h.byAddr[ip][s] = struct{}{}
}

// shut ends that the book follows an address. The last one closes it.
func (h *hub) shut(s *subject) {
	ip := s.question.addr.Addr()
	if delete(h.byAddr[ip], s); len(h.byAddr[ip]) == 0 {
		delete(h.byAddr, ip)
	}
	if len(h.byAddr) == 0 {
		h.book, h.covered, h.pending = nil, nil, ""
		h.cfg.Store.Need(bookNeed)
	}
}

// cover needs the instances of all services there are now, and strikes those of the others.
func (h *hub) cover(view facts.View) {
	topics := h.book.topics(view)
	if len(topics) > h.cfg.MaxServices {
		h.cfg.Logger.Warn("addresses are looked up among some services only: there are too many", "services", len(topics)-1, "limit", h.cfg.MaxServices)
		topics = topics[:h.cfg.MaxServices]
	}
	h.covered = topics
	h.cfg.Store.Need(bookNeed, topics...)
	h.pending = lacks(view, topics)
}

func (h *hub) read(view facts.View, topic facts.Topic, changed map[netip.Addr]struct{}) {
	if topic == facts.Health(h.book.datacenter, topic.Name) {
		list, _ := view.Instances(topic)
		h.book.put(topic, list, changed)
	}
}

// turnPages brings the book up to date and adds the subjects whose address is concerned. While the book is not
// complete all wait, and when it has become so all are concerned.
func (h *hub) turnPages(view facts.View, ids []facts.ID, stale map[*subject]struct{}) {
	if h.book == nil {
		return
	}
	was := h.pending
	services := facts.Services(h.cfg.Place.Datacenter)
	if slices.ContainsFunc(ids, func(id facts.ID) bool { return id.Topic == services }) {
		h.cover(view)
	} else if was != "" {
		h.pending = lacks(view, h.covered)
	}
	changed := map[netip.Addr]struct{}{}
	for _, id := range ids {
		h.read(view, id.Topic, changed)
	}
	for ip, subjects := range h.byAddr {
		if _, concerned := changed[ip]; !concerned && was == h.pending {
			continue
		}
		for s := range subjects {
			stale[s] = struct{}{}
		}
	}
}
