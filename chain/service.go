package chain

import "strings"

// service is what the entries say of one service, looked up once.
type service struct {
	defaults *ServiceDefaults
	// resolver is never nil: an empty one stands for none.
	resolver *ServiceResolver
	protocol string
}

func (c *compiler) service(name string) *service {
	key := strings.ToLower(name)
	if s := c.services[key]; s != nil {
		return s
	}
	s := &service{
		defaults: lookup[*ServiceDefaults](c.entries, KindServiceDefaults, name),
		resolver: lookup[*ServiceResolver](c.entries, KindServiceResolver, name),
	}
	if s.resolver == nil {
		s.resolver = &c.noResolver
	}
	s.protocol = c.protocolOf(s.defaults)
	c.services[key] = s
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
