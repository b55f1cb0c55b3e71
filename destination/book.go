package destination

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// book is who has which address, among the instances of a datacenter. It is kept only while somebody asks for
// addresses, because it takes the instances of every service.
type book struct {
	datacenter string
	pages      map[facts.Topic]page
	virtual    map[netip.Addr]map[string]int // owners, and by how many instances
	instances  map[netip.AddrPort][]*facts.Instance
}

// page is what the instances of a topic have put into the book.
type page struct{ list []*facts.Instance }

func newBook(datacenter string) *book {
	return &book{
		datacenter: datacenter, pages: map[facts.Topic]page{},
		virtual: map[netip.Addr]map[string]int{}, instances: map[netip.AddrPort][]*facts.Instance{},
	}
}

// topics are those that the book is made of.
func (b *book) topics(view facts.View) []facts.Topic {
	list := []facts.Topic{facts.Services(b.datacenter)}
	for _, service := range view.AllServices(b.datacenter) {
		list = append(list, facts.Health(b.datacenter, service))
	}
	return list
}

// lacks says what is not known of all that the book is made of; empty when all is.
func lacks(view facts.View, topics []facts.Topic) string {
	for _, t := range topics {
		status := view.Topic(t)
		if t.Kind == facts.TopicServices && !status.Known || t.Kind == facts.TopicHealth && !view.Known(t) {
			return view.Why(facts.ID{Topic: t})
		}
	}
	return ""
}

// put replaces what the instances of a topic have in the book, and adds the addresses of which something changed.
func (b *book) put(topic facts.Topic, list []*facts.Instance, changed map[netip.Addr]struct{}) {
	old := b.pages[topic].list
	kept := make(map[*facts.Instance]bool, len(old))
	for _, in := range old {
		kept[in] = true
	}
	for _, in := range list {
		if kept[in] {
			delete(kept, in) // it is shared, and so the same
			continue
		}
		b.enter(in, changed)
	}
	for in := range kept {
		b.strike(in, changed)
	}
	if len(list) == 0 {
		delete(b.pages, topic)
		return
	}
	b.pages[topic] = page{slices.Clone(list)}
}

func (b *book) enter(in *facts.Instance, changed map[netip.Addr]struct{}) {
	owner, _ := serviceOf(in)
	for _, ip := range virtualIPs(in) {
		if b.virtual[ip] == nil {
			b.virtual[ip] = map[string]int{}
		}
		b.virtual[ip][owner]++
		changed[ip] = struct{}{}
	}
	for _, at := range addressesOf(in) {
		b.instances[at] = append(b.instances[at], in)
		changed[at.Addr()] = struct{}{}
	}
}

func (b *book) strike(in *facts.Instance, changed map[netip.Addr]struct{}) {
	owner, _ := serviceOf(in)
	for _, ip := range virtualIPs(in) {
		if b.virtual[ip][owner]--; b.virtual[ip][owner] <= 0 {
			delete(b.virtual[ip], owner)
		}
		if len(b.virtual[ip]) == 0 {
			delete(b.virtual, ip)
		}
		changed[ip] = struct{}{}
	}
	for _, at := range addressesOf(in) {
		b.instances[at] = slices.DeleteFunc(b.instances[at], func(other *facts.Instance) bool { return other == in })
		if len(b.instances[at]) == 0 {
			delete(b.instances, at)
		}
		changed[at.Addr()] = struct{}{}
	}
}

// owners are the services that have a virtual IP, in order: more than one is a mistake of somebody's.
func (b *book) owners(ip netip.Addr) []string {
	var list []string
	for owner := range b.virtual[ip] {
		list = append(list, owner)
	}
	slices.Sort(list)
	return slices.CompactFunc(list, strings.EqualFold)
}

// instance is who listens at an address, of several always the same one; nil when nobody does.
func (b *book) instance(at netip.AddrPort) *facts.Instance {
	list := b.instances[at]
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(x, y *facts.Instance) int {
		return cmp.Or(strings.Compare(x.Service.Service, y.Service.Service),
			strings.Compare(x.Node.Node, y.Node.Node), strings.Compare(x.Service.ID, y.Service.ID))
	})
}

// virtualIPs are those of the service of an instance: Consul's own, and one that a platform gave it.
func virtualIPs(in *facts.Instance) []netip.Addr {
	var list []netip.Addr
	for _, tag := range []string{"consul-virtual", "virtual"} {
		tagged, ok := in.Service.TaggedAddresses[tag]
		if !ok {
			continue
		}
		if ip, err := netip.ParseAddr(tagged.Address); err == nil && !slices.Contains(list, ip.Unmap()) {
			list = append(list, ip.Unmap())
		}
	}
	return list
}

// addressesOf is where an instance listens.
func addressesOf(in *facts.Instance) []netip.AddrPort {
	ip, err := netip.ParseAddr(cmp.Or(in.Service.Address, in.Node.Address))
	if err != nil || in.Service.Port <= 0 || in.Service.Port > 65535 {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(in.Service.Port))}
}
