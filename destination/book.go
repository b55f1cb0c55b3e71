package destination

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// book is who has which address, among the instances of a datacenter and by what Consul tells of virtual IPs. It is
// kept only while somebody asks for addresses, because it takes the instances of every service.
type book struct {
	pages     map[facts.Topic][]*facts.Instance
	live      map[netip.Addr]map[string]int // owners of virtual IPs, and by how many instances
	owners    map[string]int                // services that have any so, in lower case
	instances map[netip.AddrPort][]*facts.Instance
	virtual   facts.Virtual
	told      facts.State // how well it is known
	// manual and automatic are the owners of virtual IPs as Consul tells them.
	manual, automatic map[netip.Addr][]string
}

func newBook() *book {
	return &book{
		pages: map[facts.Topic][]*facts.Instance{}, live: map[netip.Addr]map[string]int{}, owners: map[string]int{},
		instances: map[netip.AddrPort][]*facts.Instance{},
	}
}

// revision is what is to be changed on the page of a topic.
type revision struct {
	topic      facts.Topic
	list       []*facts.Instance
	gone, come []*facts.Instance
}

// revise finds out what the instances of a topic change, and changes nothing.
func (b *book) revise(topic facts.Topic, list []*facts.Instance) revision {
	gone, come := difference(b.pages[topic], list)
	return revision{topic, list, gone, come}
}

// difference returns the instances that only the one list has, and those that only the other has. Instances are
// shared: what did not change is the same.
func difference(before, now []*facts.Instance) (gone, come []*facts.Instance) {
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	kept := make(map[*facts.Instance]bool, len(before))
	for _, in := range before {
		kept[in] = true
	}
	for _, in := range now {
		if !kept[in] {
			come = append(come, in)
		}
		delete(kept, in)
	}
	return slices.Collect(maps.Keys(kept)), come
}

// apply makes a revision, and adds the addresses of which something changed.
func (b *book) apply(r revision, changed map[netip.Addr]struct{}) {
	for _, in := range r.come {
		b.enter(in, changed)
	}
	for _, in := range r.gone {
		b.strike(in, changed)
	}
	if b.pages[r.topic] = r.list; len(r.list) == 0 {
		delete(b.pages, r.topic)
	}
}

func (b *book) enter(in *facts.Instance, changed map[netip.Addr]struct{}) {
	for _, v := range in.Virtual() {
		if b.live[v.IP] == nil {
			b.live[v.IP] = map[string]int{}
		}
		b.live[v.IP][v.Service]++
		b.owners[strings.ToLower(v.Service)]++
		changed[v.IP] = struct{}{}
	}
	if at, ok := addressOf(in); ok {
		b.instances[at] = append(b.instances[at], in)
		changed[at.Addr()] = struct{}{}
	}
}

func (b *book) strike(in *facts.Instance, changed map[netip.Addr]struct{}) {
	for _, v := range in.Virtual() {
		if b.live[v.IP][v.Service]--; b.live[v.IP][v.Service] <= 0 {
			delete(b.live[v.IP], v.Service)
		}
		if len(b.live[v.IP]) == 0 {
			delete(b.live, v.IP)
		}
		service := strings.ToLower(v.Service)
		if b.owners[service]--; b.owners[service] <= 0 {
			delete(b.owners, service)
		}
		changed[v.IP] = struct{}{}
	}
	if at, ok := addressOf(in); ok {
		b.instances[at] = slices.DeleteFunc(b.instances[at], func(other *facts.Instance) bool { return other == in })
		if len(b.instances[at]) == 0 {
			delete(b.instances, at)
		}
		changed[at.Addr()] = struct{}{}
	}
}

// tell takes over what Consul tells of virtual IPs, and adds the addresses of which something changed.
func (b *book) tell(all facts.Virtual, state facts.State, changed map[netip.Addr]struct{}) {
	manual, automatic := map[netip.Addr][]string{}, map[netip.Addr][]string{}
	for _, name := range slices.Sorted(maps.Keys(all.Services)) {
		for _, ip := range all.Services[name].Manual {
			manual[ip] = append(manual[ip], name)
		}
		for _, ip := range all.Services[name].Automatic {
			automatic[ip] = append(automatic[ip], name)
		}
	}
	for _, side := range [][2]map[netip.Addr][]string{{b.manual, manual}, {b.automatic, automatic}} {
		for ip, names := range side[0] {
			if !slices.Equal(names, side[1][ip]) {
				changed[ip] = struct{}{}
			}
		}
		for ip := range side[1] {
			if _, had := side[0][ip]; !had {
				changed[ip] = struct{}{}
			}
		}
	}
	b.virtual, b.told, b.manual, b.automatic = all, state, manual, automatic
}

// ownersOf are the services that have a virtual IP, in order: more than one is a mistake of somebody's. What Consul
// tells of automatic ones is asked for from time to time only, and instances tell them at once: those go before.
func (b *book) ownersOf(ip netip.Addr) []string {
	list := slices.Collect(maps.Keys(b.live[ip]))
	if len(list) == 0 {
		list = slices.Clone(b.automatic[ip])
	}
	list = append(list, b.manual[ip]...)
	slices.SortFunc(list, func(x, y string) int {
		return cmp.Or(strings.Compare(strings.ToLower(x), strings.ToLower(y)), strings.Compare(x, y))
	})
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

// addressOf is where an instance listens.
func addressOf(in *facts.Instance) (at netip.AddrPort, ok bool) {
	ip, err := netip.ParseAddr(cmp.Or(in.Service.Address, in.Node.Address))
	if err != nil || ip.Zone() != "" || in.Service.Port <= 0 || in.Service.Port > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(in.Service.Port)), true
}
