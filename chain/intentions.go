package chain

import (
	"cmp"
	"slices"
)

// ServiceIntentions is the service-intentions entry: who may talk to a service. Its name is that of the
// destination, or "*" for all services.
type ServiceIntentions struct {
	Header
	// Sources has each source once; the order says nothing. After [Normalize] none is nil.
	Sources []*SourceIntention `json:",omitempty"`
	// JWT is what requests to the service must carry, whoever sends them.
	JWT *JWTRequirement `json:",omitempty"`
}

// IntentionAction is what becomes of a connection or a request.
type IntentionAction string

// The actions of an intention or a permission.
const (
	IntentionAllow IntentionAction = "allow"
	IntentionDeny  IntentionAction = "deny"
)

// SourceConsul is the only type of a source: a service that Consul knows.
const SourceConsul = "consul"

// WildcardName stands for all services, as the source or the destination of an intention.
const WildcardName = "*"

// SourceIntention says what one source, or "*" for all, may do at the destination: either by an Action for
// all it sends, or by Permissions.
type SourceIntention struct {
	Name string
	// Peer is the cluster peer the source is in; empty for the own cluster.
	Peer          string `json:",omitempty"`
	Partition     string `json:",omitempty"`
	Namespace     string `json:",omitempty"`
	SamenessGroup string `json:",omitempty"`
	// Action is empty when there are Permissions.
	Action IntentionAction `json:",omitempty"`
	// Permissions are tried in order: the first that matches a request decides, and without a match the
	// default does. After [Normalize] none is nil.
	Permissions []*IntentionPermission `json:",omitempty"`
	// Precedence is Consul's: of two intentions about one connection the higher decides. [Normalize]
	// sets it.
	Precedence int `json:",omitempty"`
	// Type is [SourceConsul], and [Normalize] sets it.
	Type        string `json:",omitempty"`
	Description string `json:",omitempty"`

	// What Consul keeps of intentions that were written by its older interface. It decides nothing.
	LegacyID         string            `json:",omitempty"`
	LegacyMeta       map[string]string `json:",omitempty"`
	LegacyCreateTime string            `json:",omitempty"`
	LegacyUpdateTime string            `json:",omitempty"`
}

// IntentionPermission is what becomes of the requests that match.
type IntentionPermission struct {
	Action IntentionAction `json:",omitempty"`
	HTTP   *IntentionHTTP  `json:",omitempty"`
	JWT    *JWTRequirement `json:",omitempty"`
}

// IntentionHTTP says which HTTP requests a permission is about; all that is set must hold.
type IntentionHTTP struct {
	PathExact  string            `json:",omitempty"`
	PathPrefix string            `json:",omitempty"`
	PathRegex  string            `json:",omitempty"`
	Header     []IntentionHeader `json:",omitempty"`
	Methods    []string          `json:",omitempty"`
}

// IntentionHeader matches one request header by exactly one matcher.
type IntentionHeader struct {
	Name     string `json:",omitempty"`
	Present  bool   `json:",omitempty"`
	Exact    string `json:",omitempty"`
	Prefix   string `json:",omitempty"`
	Suffix   string `json:",omitempty"`
	Contains string `json:",omitempty"`
	Regex    string `json:",omitempty"`
	// Invert turns the outcome of the matcher round.
	Invert     bool `json:",omitempty"`
	IgnoreCase bool `json:",omitempty"`
}

// JWTRequirement wants a token of one of the providers, which are jwt-provider entries.
type JWTRequirement struct {
	Providers []*JWTProvider `json:",omitempty"`
}

// JWTProvider is a provider, and what the claims of its tokens must be.
type JWTProvider struct {
	Name         string      `json:",omitempty"`
	VerifyClaims []*JWTClaim `json:",omitempty"`
}

// JWTClaim is a claim and its value.
type JWTClaim struct {
	Path  []string `json:",omitempty"`
	Value string   `json:",omitempty"`
}

// The precedence of intentions, by whether the names of destination and source are exact.
const (
	precedenceExact          = 9
	precedenceAnySource      = 8
	precedenceAnyDestination = 6
	precedenceAnyToAny       = 5
)

func precedence(destination, source string) int {
	switch {
	case destination != WildcardName && source != WildcardName:
		return precedenceExact
	case destination != WildcardName:
		return precedenceAnySource
	case source != WildcardName:
		return precedenceAnyDestination
	}
	return precedenceAnyToAny
}

func (e *ServiceIntentions) normal() *ServiceIntentions {
	c := *e
	c.Sources = make([]*SourceIntention, 0, len(e.Sources))
	for _, s := range e.Sources {
		if s != nil {
			c.Sources = append(c.Sources, s.normal(e.Name))
		}
	}
	slices.SortStableFunc(c.Sources, func(a, b *SourceIntention) int { return cmp.Compare(b.Precedence, a.Precedence) })
	return &c
}

// normal leaves what decides nothing out, but for what Consul refuses of it.
func (s *SourceIntention) normal(destination string) *SourceIntention {
	c := *s
	c.Precedence = precedence(destination, s.Name)
	if c.Type == "" {
		c.Type = SourceConsul
	}
	c.LegacyID, c.LegacyCreateTime, c.LegacyUpdateTime = "", "", ""
	c.Permissions = nil
	for _, p := range s.Permissions {
		if p != nil {
			c.Permissions = append(c.Permissions, p.normal())
		}
	}
	return &c
}

func (p *IntentionPermission) normal() *IntentionPermission {
	if p.HTTP == nil || len(p.HTTP.Methods) == 0 {
		return p
	}
	c, h := *p, *p.HTTP
	h.Methods = upper(h.Methods)
	c.HTTP = &h
	return &c
}
