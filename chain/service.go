package chain

import "strings"

// service is what the entries say of one service, looked up once.
type service struct {
	defaults *ServiceDefaults
	// resolver is never nil: an empty one stands for none.
	resolver *ServiceResolver
	protocol string
}

// services holds what was looked up so far, by the name in lower case.
type services struct {
	// own is the chain's service, which is all that many chains need.
	own    service
	ownKey string
	others map[string]*service
	slab   slab[service]
}

// known returns the service if it was looked up before, or nil.
func (s *services) known(key string) *service {
	if key != s.ownKey {
		return s.others[key]
	}
	if s.own.resolver == nil {
		return nil
	}
	return &s.own
}

// room returns where to put a service that is not known.
func (s *services) room(key string) *service {
	if key == s.ownKey {
		return &s.own
	}
	if s.others == nil {
		s.others = make(map[string]*service)
	}
	v := s.slab.next()
	s.others[key] = v
	return v
}

func (c *compiler) service(name string) *service {
	key := strings.ToLower(name)
	if s := c.services.known(key); s != nil {
		return s
	}
	s := c.services.room(key)
	s.defaults = lookup[*ServiceDefaults](c.entries, KindServiceDefaults, name)
	s.resolver = lookup[*ServiceResolver](c.entries, KindServiceResolver, name)
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
