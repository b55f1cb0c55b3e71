package chain

// service is what the entries say of one service, looked up once.
type service struct {
	defaults *ServiceDefaults
	// resolver is never nil: an empty one stands for none.
	resolver *ServiceResolver
	protocol string
}

// services holds what was looked up so far, by the name as it was spelled.
type services struct {
	// own is the chain's service, which is all that many chains need.
	own     service
	ownName string
	others  map[string]*service
	slab    slab[service]
}

// known returns the service if it was looked up before, or nil.
func (s *services) known(name string) *service {
	if name != s.ownName {
		return s.others[name]
	}
	if s.own.resolver == nil {
		return nil
	}
	return &s.own
}

// room returns where to put a service that is not known.
func (s *services) room(name string) *service {
	if name == s.ownName {
		return &s.own
	}
	if s.others == nil {
		s.others = make(map[string]*service)
	}
	v := s.slab.next()
	s.others[name] = v
	return v
}

func (c *compiler) service(name string) *service {
	if s := c.services.known(name); s != nil {
		return s
	}
	s := c.services.room(name)
	s.defaults = find[*ServiceDefaults](c, KindServiceDefaults, name)
	s.resolver = find[*ServiceResolver](c, KindServiceResolver, name)
	if s.resolver == nil {
		s.resolver = &c.noResolver
	}
	s.protocol = c.protocolOf(s.defaults)
	return s
}

// lookup finds an entry of a kind; one of another type than the kind's counts as none.
func lookup[E interface {
	comparable
	Entry
}](from Entries, kind Kind, name string) E {
	e, _ := from.Entry(kind, name).(E)
	return e
}

// find looks an entry up for the compiler, and notes when its name is spelled in other letters.
func find[E interface {
	comparable
	Entry
}](c *compiler, kind Kind, name string) E {
	var none E
	e := lookup[E](c.entries, kind, name)
	if e != none && e.Head().Name != name {
		c.respelled = true
	}
	return e
}
