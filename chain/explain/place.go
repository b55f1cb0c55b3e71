package explain

import (
	"cmp"

	"github.com/catenary-mesh/catenary/chain"
)

// place is where a target lies, as far as entries name it.
type place struct {
	service, subset, namespace, partition, datacenter, peer string
}

const defaultName = "default" // of the one namespace and the one partition there is

func (w *walker) local(service, subset string) place {
	return place{
		service: service, subset: subset,
		namespace: defaultName, partition: defaultName, datacenter: w.chain.Datacenter,
	}
}

// start is where the chain begins.
func (w *walker) start() place { return w.local(w.chain.ServiceName, "") }

// id is the target ID of a place.
func (p place) id() string {
	rest := p.service + "." + p.namespace + "." + p.partition + "."
	switch {
	case p.peer != "":
		return rest + "external." + p.peer
	case p.subset != "":
		return p.subset + "." + rest + p.datacenter
	}
	return rest + p.datacenter
}

// moved is the place that a redirect or a failover makes of another; what it leaves empty stays, but
// for the peer, and for the subset of another service.
func (w *walker) moved(p, to place) place {
	out := p
	out.peer = to.peer
	if to.service != "" && to.service != p.service {
		out.service, out.subset = to.service, ""
	}
	out.subset = cmp.Or(to.subset, out.subset)
	if to.peer != "" {
		out.namespace, out.partition, out.datacenter = cmp.Or(to.namespace, defaultName), defaultName, ""
		return out
	}
	out.namespace = cmp.Or(to.namespace, out.namespace)
	out.partition = cmp.Or(to.partition, out.partition)
	out.datacenter = cmp.Or(to.datacenter, out.datacenter, w.chain.Datacenter)
	return out
}

// of is the place of a target of the chain. A target at a peer stands for every subset there.
func of(t *chain.Target) place {
	return place{
		service: t.Service, subset: t.ServiceSubset, namespace: t.Namespace, partition: t.Partition,
		datacenter: t.Datacenter, peer: t.Peer,
	}
}

// hop is one place on the way to a target, and how the way goes on from there.
type hop struct {
	at place
	by string
}

// hops leads from a place to the target that the compiler found for it. It is empty when the place is
// the target, and when the entries show no way, as none of them then has a say.
func (w *walker) hops(p place, target string) []hop {
	var list []hop
	for len(list) <= chain.MaxRedirects && p.id() != target {
		r := w.service(p.service).resolver
		if r == nil {
			return nil
		}
		switch next := w.redirected(p, r); {
		case next.id() != p.id():
			list = append(list, hop{p, "redirect"})
			p = next
		case r.DefaultSubset != "" && p.subset == "":
			list = append(list, hop{p, "default subset " + r.DefaultSubset})
			p.subset = r.DefaultSubset
		default:
			return nil
		}
	}
	return list
}

// redirected is where a resolver sends what comes to a place.
func (w *walker) redirected(p place, r *chain.ServiceResolver) place {
	to := r.Redirect
	if to == nil {
		return p
	}
	return w.moved(p, place{to.Service, to.ServiceSubset, to.Namespace, to.Partition, to.Datacenter, to.Peer})
}

// failoverPlaces lists where the failover of a target leads, but for the target itself.
func (w *walker) failoverPlaces(t *chain.Target, r *chain.ServiceResolver) []place {
	f, ok := r.Failover[t.ServiceSubset]
	if !ok || t.ServiceSubset == "" {
		f = r.Failover["*"]
	}
	var list []place
	add := func(to place) {
		if p := w.moved(of(t), to); p.id() != t.ID {
			list = append(list, p)
		}
	}
	for _, dc := range f.Datacenters {
		add(place{service: f.Service, subset: f.ServiceSubset, namespace: f.Namespace, datacenter: dc})
	}
	if len(f.Datacenters) > 0 {
		return list
	}
	for _, to := range f.Targets {
		add(place{to.Service, to.ServiceSubset, to.Namespace, to.Partition, to.Datacenter, to.Peer})
	}
	if len(f.Targets) == 0 {
		add(place{service: f.Service, subset: f.ServiceSubset, namespace: f.Namespace})
	}
	return list
}
