package chain

import "fmt"

// The severities of a [Problem].
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// The codes of the problems that [Compile] finds. docs/codes.md says what to do about each.
const (
	CodeCircularRedirect  = "CAT2001"
	CodeCircularReference = "CAT2002"
	CodeProtocolMix       = "CAT2003"
	CodeProtocolTooLow    = "CAT2004"
	CodeNoSuchSubset      = "CAT2005"
	CodeExternal          = "CAT2006"
	CodeNoSamenessGroup   = "CAT2007"
	CodeTooLarge          = "CAT2008"
)

// problem is an error at a field of an entry; the entry may be nil or stand for one that is not there.
func (c *compiler) problem(code string, at Entry, field, message string) *Problem {
	p := &Problem{Code: code, Severity: SeverityError, Message: message}
	if at != nil && at.Head().Name != "" {
		p.Entry, p.Origin, p.Field = ref(at), at.Head().Origin, field
	}
	return p
}

func (c *compiler) tooLarge(what string, limit int) *Problem {
	return c.problem(CodeTooLarge, nil, "", fmt.Sprintf(
		"discovery chain %q has more than %d %s; use fewer splitters below splitters, and fewer legs, redirects and failovers",
		c.req.Service, limit, what))
}

// ref names an entry as problems do.
func ref(e Entry) string { return string(e.Kind()) + "/" + e.Head().Name }

// protocolSource is the entry that decides the protocol of a service, nil when none does.
func (c *compiler) protocolSource(s *service) Entry {
	switch {
	case s.defaults != nil:
		return s.defaults
	case c.proxy != nil:
		return c.proxy
	}
	return nil
}
