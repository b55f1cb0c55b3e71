package facts

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// VirtualIPs is the topic of the virtual IPs of a datacenter's services.
func VirtualIPs(datacenter string) Topic {
	return Topic{Kind: TopicVirtualIPs, Datacenter: datacenter}
}

// ServiceIPs are the virtual IPs of one service.
type ServiceIPs struct {
	// Automatic were given by the source, Manual by somebody who set them.
	Automatic, Manual []netip.Addr
}

// Virtual is the virtual IPs of services.
type Virtual struct {
	// Services has them by the name of the service in lower case, also of services that were found to have none.
	Services map[string]ServiceIPs
	// Unread says of which services, by the same names, they could not be read so far, and why.
	Unread map[string]string
}

// VirtualIPs commits the virtual IPs of the services of a datacenter.
func (tx *Tx) VirtualIPs(datacenter string, all Virtual) Outcome {
	all.Services, all.Unread = maps.Clone(all.Services), maps.Clone(all.Unread)
	return tx.value(VirtualIPs(datacenter), all)
}

// VirtualIPs returns the virtual IPs of the services of a datacenter: present, unknown, or absent where the source
// has none. They are shared and must not be changed.
func (v View) VirtualIPs(datacenter string) (Virtual, State) {
	topic := VirtualIPs(datacenter)
	if all, state := valueOf[Virtual](v, topic); state == Present {
		return all, state
	}
	return Virtual{}, v.missing(topic)
}

// VirtualOwners returns the services that have a virtual IP by the instances of a topic, in lower case:
// those of sidecars and Connect-native instances, and those behind terminating gateways.
func (v View) VirtualOwners(topic Topic) []string {
	list, _ := v.Instances(topic)
	var owners []string
	for _, in := range list {
		for _, o := range in.Virtual() {
			if name := strings.ToLower(o.Service); !slices.Contains(owners, name) {
				owners = append(owners, name)
			}
		}
	}
	return owners
}

// VirtualAddress is a virtual IP that the registration of an instance tells.
type VirtualAddress struct {
	Service string
	IP      netip.Addr
}

// The tags of addresses that are virtual IPs. Those of services behind a terminating gateway are followed by a colon
// and the service.
const (
	tagConsulVirtual = "consul-virtual"
	tagVirtual       = "virtual"
)

// Virtual returns the virtual IPs that the registration tells: Consul's own, and one that a platform gave.
func (in *Instance) Virtual() []VirtualAddress {
	var list []VirtualAddress
	for tag, at := range in.Service.TaggedAddresses {
		service := in.Service.Service
		if in.Service.Kind == "connect-proxy" && in.Service.Proxy != nil {
			service = in.Service.Proxy.DestinationServiceName
		}
		if other, behind := strings.CutPrefix(tag, tagConsulVirtual+":"); behind {
			service = other
		} else if tag != tagConsulVirtual && tag != tagVirtual {
			continue
		}
		ip, err := netip.ParseAddr(at.Address)
		if v := (VirtualAddress{service, ip.Unmap()}); err == nil && service != "" && ip.Zone() == "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b VirtualAddress) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), a.IP.Compare(b.IP))
	})
	return list
}

// VirtualKinds are the kinds of entries by which there is a service of their name, also if it has no instances: Consul
// gives it a virtual IP.
func VirtualKinds() []chain.Kind {
	return []chain.Kind{
		chain.KindServiceDefaults, chain.KindServiceRouter, chain.KindServiceSplitter, chain.KindServiceResolver, chain.KindServiceIntentions,
	}
}

// VirtualEntries returns the services that have an automatic virtual IP by their entries, in lower case.
func (v View) VirtualEntries() []string {
	var names []string
	for _, kind := range VirtualKinds() {
		for _, e := range v.AllEntries(kind) {
			if name := strings.ToLower(e.Head().Name); name != chain.WildcardName {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
