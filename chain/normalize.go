package chain

import (
	"slices"
	"strings"
)

// Normalize returns the entry as Consul would store it: methods in upper case, protocols in lower case,
// weights rounded to 0.01, intentions in the order of their precedence, proxy-defaults and mesh named. The entry itself, which must not be nil, is not changed.
// Decoders call it before [Validate] and [Compile].
func Normalize(e Entry) Entry {
	switch e := e.(type) {
	case *ProxyDefaults:
		return e.normal()
	case *ServiceDefaults:
		return e.normal()
	case *ServiceRouter:
		return e.normal()
	case *ServiceSplitter:
		return e.normal()
	case *ServiceIntentions:
		return e.normal()
	case *Mesh:
		return e.normal()
	}
	return e
}

func (e *ProxyDefaults) normal() *ProxyDefaults {
	if e.Name != "" {
		return e
	}
	c := *e
	c.Name = GlobalName
	return &c
}

func (e *ServiceDefaults) normal() *ServiceDefaults {
	c := *e
	c.Protocol = strings.ToLower(c.Protocol)
	if e.UpstreamConfig != nil {
		u := *e.UpstreamConfig
		u.Defaults = u.Defaults.normal()
		u.Overrides = slices.Clone(u.Overrides)
		for i := range u.Overrides {
			u.Overrides[i] = u.Overrides[i].normal()
		}
		c.UpstreamConfig = &u
	}
	return &c
}

func (u *UpstreamConfig) normal() *UpstreamConfig {
	if u == nil {
		return nil
	}
	c := *u
	c.Protocol = strings.ToLower(c.Protocol)
	return &c
}

func (e *ServiceRouter) normal() *ServiceRouter {
	c := *e
	c.Routes = slices.Clone(e.Routes)
	for i := range c.Routes {
		m := c.Routes[i].Match
		if m == nil || m.HTTP == nil || len(m.HTTP.Methods) == 0 {
			continue
		}
		h := *m.HTTP
		h.Methods = upper(h.Methods)
		c.Routes[i].Match = &RouteMatch{HTTP: &h}
	}
	return &c
}

func (e *ServiceSplitter) normal() *ServiceSplitter {
	c := *e
	c.Splits = slices.Clone(e.Splits)
	for i := range c.Splits {
		c.Splits[i].Weight = roundWeight(c.Splits[i].Weight)
	}
	return &c
}

func upper(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = strings.ToUpper(list[i])
	}
	return list
}

func (e *Mesh) normal() *Mesh {
	if e.Name != "" {
		return e
	}
	c := *e
	c.Name = MeshName
	return &c
}
