package chain

// Consul loads the entries of a chain before it compiles it, following every reference but those of
// failover targets at a peer, and then finds an entry only by the name, letter for letter, that it was
// loaded by. Mostly this shows in nothing but speed, and entries are looked up as they are needed. It
// decides in two cases:
//   - a target at a peer obeys the local entries of its name, if anything else refers to them;
//   - entries whose names are also written in other letters than their own are there or not, depending
//     on the spelling: for an entry's own service Consul follows the name of the entry.

// reach is what Consul would load: names as they are spelled where they are referred to.
type reach struct {
	// own is the chain's service, of which there are the service-defaults in any case.
	own string
	// services are those with a resolver and service-defaults.
	splitters, services map[string]bool
}

// atPeer is what counts of the local entries for a target at a peer.
func (c *compiler) atPeer(name string) *service {
	if c.services.known(name) == nil {
		if c.reach.services == nil {
			c.reach = loaded(c.req.Service, c.entries)
		}
		if !c.reach.services[name] && name != c.reach.own {
			return &service{resolver: &c.noResolver}
		}
	}
	return c.service(name)
}

// Loaded returns the entries as the chain of a service sees them: those that Consul would load for it, by
// the names it would load them by, and no others. [Compile] makes the same chain of either; what looks at
// a chain and its entries side by side needs these.
func Loaded(service string, e Entries) Entries {
	if e == nil {
		e = &EntrySet{}
	}
	return asLoaded{e, loaded(service, e)}
}

type asLoaded struct {
	Entries
	reach reach
}

// Entry implements [Entries].
func (l asLoaded) Entry(kind Kind, name string) Entry {
	switch kind {
	case KindServiceSplitter:
		if !l.reach.splitters[name] {
			return nil
		}
	case KindServiceResolver:
		if !l.reach.services[name] {
			return nil
		}
	case KindServiceDefaults:
		if !l.reach.services[name] && name != l.reach.own {
			return nil
		}
	default: // these are read whatever they are about, or not at all
	}
	return l.Entries.Entry(kind, name)
}

// loaded follows the references of all entries from a chain's service on.
func loaded(service string, e Entries) reach {
	todo := []string{service}
	if r := lookup[*ServiceRouter](e, KindServiceRouter, service); r != nil {
		todo[0] = r.Name
		for i := range r.Routes {
			if d := r.Routes[i].Destination; d != nil {
				todo = append(todo, d.Service)
			}
		}
	}
	splitters := follow(todo, func(name string) []string {
		return lookup[*ServiceSplitter](e, KindServiceSplitter, name).services()
	})
	todo = nil
	for name := range splitters {
		todo = append(todo, name)
	}
	return reach{service, splitters, follow(todo, func(name string) []string {
		return lookup[*ServiceResolver](e, KindServiceResolver, name).services()
	})}
}

// follow returns the names and all that they lead to.
func follow(names []string, leadsTo func(string) []string) map[string]bool {
	all := make(map[string]bool)
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if name != "" && !all[name] {
			all[name] = true
			names = append(names, leadsTo(name)...)
		}
	}
	return all
}

// services lists the services that the splitter names, but for its own.
func (s *ServiceSplitter) services() []string {
	if s == nil {
		return nil
	}
	var names []string
	for i := range s.Splits {
		if to := s.Splits[i].Service; to != s.Name {
			names = append(names, to)
		}
	}
	return names
}

// services lists the services that the resolver names, but for its own and failover targets at a peer.
func (r *ServiceResolver) services() []string {
	if r == nil {
		return nil
	}
	var names []string
	add := func(service string) {
		if service != r.Name {
			names = append(names, service)
		}
	}
	if r.Redirect != nil {
		add(r.Redirect.Service)
	}
	for _, f := range r.Failover {
		add(f.Service)
		for i := range f.Targets {
			if f.Targets[i].Peer == "" {
				add(f.Targets[i].Service)
			}
		}
	}
	return names
}
