package chain

import (
	"slices"
	"strings"
)

// maxDescription is how many bytes a description may have.
const maxDescription = 512

func (f *findings) intentions(e *ServiceIntentions) {
	f.wildcard("Name", e.Name)
	if len(e.Sources) == 0 {
		f.fault(CodeNoSources, "Sources", "there is no source; add at least one, or delete the entry")
	}
	f.jwt("JWT", e.JWT)
	for i, s := range e.Sources {
		if s == nil {
			continue
		}
		path := at("Sources", i)
		f.source(path, s)
		if e.Name == WildcardName && len(s.Permissions) > 0 {
			f.fault(CodePermissionsWildcard, path+".Permissions",
				"permissions are for one destination; give each service its own entry, or an Action here")
		}
		if slices.ContainsFunc(e.Sources[:i], s.same) {
			f.fault(CodeSourceRepeated, path, "the source %q is listed before; leave it out here", s.Name)
		}
	}
}

// same reports whether two sources are one.
func (s *SourceIntention) same(other *SourceIntention) bool {
	return other != nil && s.Name == other.Name && s.Peer == other.Peer && s.Namespace == other.Namespace &&
		s.Partition == other.Partition && s.SamenessGroup == other.SamenessGroup
}

func (f *findings) source(path string, s *SourceIntention) {
	f.enterprise(path, "Partition", s.Partition, "Namespace", s.Namespace, "SamenessGroup", s.SamenessGroup)
	if s.Name == "" {
		f.fault(CodeSourceName, path+".Name", "the source has no name; write that of a service, or * for all")
	}
	f.wildcard(path+".Name", s.Name)
	if strings.Contains(s.Peer, WildcardName) {
		f.fault(CodeWildcard, path+".Peer", "%q: name one peer; * is not allowed", s.Peer)
	}
	switch {
	case len(s.Permissions) > 0 && s.Action != "":
		f.fault(CodeIntentionAction, path+".Action", "Action and Permissions are both set; keep one")
	case len(s.Permissions) == 0:
		f.action(path+".Action", s.Action)
	}
	for i, p := range s.Permissions {
		f.permission(at(path+".Permissions", i), p)
	}
	f.oneOf(path+".Type", s.Type, SourceConsul)
	if len(s.Description) > maxDescription {
		f.fault(CodeDescription, path+".Description", "it is longer than %d bytes; shorten it", maxDescription)
	}
	if len(s.LegacyMeta) > 0 {
		f.fault(CodeLegacyMeta, path+".LegacyMeta", "it is for intentions of an older interface; use Meta of the entry")
	}
}

// wildcard refuses a name that is a pattern.
func (f *findings) wildcard(field, name string) {
	if name != WildcardName && strings.Contains(name, WildcardName) {
		f.fault(CodeWildcard, field, "%q is no name, and patterns are not allowed; use * alone for all services", name)
	}
}

func (f *findings) action(field string, a IntentionAction) {
	if a != IntentionAllow && a != IntentionDeny {
		f.fault(CodeIntentionAction, field, "%q is not an action; use allow or deny", a)
	}
}

func (f *findings) permission(path string, p *IntentionPermission) {
	if p == nil {
		return
	}
	f.action(path+".Action", p.Action)
	f.jwt(path+".JWT", p.JWT)
	h, field := p.HTTP, path+".HTTP"
	if h == nil || h.empty() {
		f.fault(CodePermissionEmpty, field, "there is no condition; set a path, a header or methods, PathPrefix / for all requests")
		return
	}
	f.paths(field, h.PathExact, h.PathPrefix, h.PathRegex)
	f.methods(field+".Methods", h.Methods)
	for i := range h.Header {
		f.intentionHeader(at(field+".Header", i), &h.Header[i])
	}
}

func (h *IntentionHTTP) empty() bool {
	return countSet(h.PathExact, h.PathPrefix, h.PathRegex) == 0 && len(h.Header) == 0 && len(h.Methods) == 0
}

func (f *findings) intentionHeader(path string, h *IntentionHeader) {
	if h.Name == "" {
		f.fault(CodeMatchName, path, "the header to match has no Name")
	}
	n := countSet(h.Exact, h.Prefix, h.Suffix, h.Contains, h.Regex)
	if h.Present {
		n++
	}
	if n != 1 {
		f.fault(CodeMatchForms, path, "%d of Present, Exact, Prefix, Suffix, Contains and Regex are set; set exactly one", n)
	}
	if h.IgnoreCase && (h.Present || h.Regex != "") {
		f.fault(CodeIgnoreCase, path+".IgnoreCase", "it is for Exact, Prefix, Suffix and Contains; leave it out, or begin the Regex with (?i)")
	}
	f.regex(path+".Regex", h.Regex)
}

func (f *findings) jwt(path string, r *JWTRequirement) {
	if r == nil {
		return
	}
	for i, p := range r.Providers {
		if p == nil || p.Name == "" {
			f.fault(CodeJWTProvider, at(path+".Providers", i), "the provider has no Name; write that of its jwt-provider entry")
		}
	}
}

// ValidateAmong finds what is wrong with an entry beside others: an error is what Consul's Community Edition
// refuses to store. What keeps a chain from being compiled is for [Compile] to say.
func ValidateAmong(e Entry, entries Entries) []Problem {
	i, ok := e.(*ServiceIntentions)
	if !ok || i.Name == WildcardName {
		return nil
	}
	c := &compiler{entries: entries, proxy: lookup[*ProxyDefaults](entries, KindProxyDefaults, GlobalName)}
	protocol := c.protocolOf(lookup[*ServiceDefaults](entries, KindServiceDefaults, i.Name))
	f := &findings{entry: e}
	for n, s := range i.Sources {
		if s != nil && len(s.Permissions) > 0 && !IsLayer7(protocol) {
			f.fault(CodePermissionsProtocol, at("Sources", n)+".Permissions",
				"permissions are about HTTP requests, and the protocol of %q is %q; set it in service-defaults, or use an Action", i.Name, protocol)
		}
	}
	return f.problems
}
