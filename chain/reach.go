package chain

import "strings"

// Consul loads the entries of a chain before it compiles it, following every reference but those of
// failover targets at a peer. A target at a peer still obeys the local entries of that name, so
// whether they were loaded decides what becomes of it. Everything else is found by compiling.

// reach is the services whose entries are loaded for a chain, in lower case.
type reach map[string]bool

// atPeer is what counts of the local entries for a target at a peer.
func (c *compiler) atPeer(name string) *service {
	if c.services.known(strings.ToLower(name)) == nil {
		if c.reach == nil {
			c.reach = c.loaded()
		}
		if !c.reach[strings.ToLower(name)] {
			return &service{resolver: &c.noResolver}
		}
	}
	return c.service(name)
}

// loaded follows the references of all entries from the chain's own service on.
func (c *compiler) loaded() reach {
	all := make(reach)
	todo := []string{c.req.Service}
	if r := lookup[*ServiceRouter](c.entries, KindServiceRouter, c.req.Service); r != nil {
		for i := range r.Routes {
			if d := r.Routes[i].Destination; d != nil {
				todo = append(todo, d.Service)
			}
		}
	}
	split := all.add(todo, func(name string) []string {
		return lookup[*ServiceSplitter](c.entries, KindServiceSplitter, name).services()
	})
	clear(all)
	all.add(split, func(name string) []string {
		return lookup[*ServiceResolver](c.entries, KindServiceResolver, name).services()
	})
	return all
}

// add adds the names and all that they lead to, and returns the names it added.
func (r reach) add(names []string, leadsTo func(string) []string) []string {
	var added []string
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if key := strings.ToLower(name); name != "" && !r[key] {
			r[key] = true
			added = append(added, name)
			names = append(names, leadsTo(name)...)
		}
	}
	return added
}

// services lists the services that the splitter names.
func (s *ServiceSplitter) services() []string {
	if s == nil {
		return nil
	}
	var names []string
	for i := range s.Splits {
		names = append(names, s.Splits[i].Service)
	}
	return names
}

// services lists the services that the resolver names, but for failover targets at a peer.
func (r *ServiceResolver) services() []string {
	if r == nil {
		return nil
	}
	var names []string
	if r.Redirect != nil {
		names = append(names, r.Redirect.Service)
	}
	for _, f := range r.Failover {
		names = append(names, f.Service)
		for i := range f.Targets {
			if f.Targets[i].Peer == "" {
				names = append(names, f.Targets[i].Service)
			}
		}
	}
	return names
}
