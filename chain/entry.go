package chain

import "strings"

// Entry is one config entry. Entries are immutable once they are handed to anyone: the compiler
// and every product share them.
type Entry interface {
	// Head returns what all kinds have in common.
	Head() *Header
	// Kind returns the entry's kind.
	Kind() Kind
}

// Header is what all config entries have in common.
type Header struct {
	// Name is the service the entry is about, "global" for proxy-defaults, "mesh" for mesh. Look-ups
	// ignore case.
	Name string
	// Meta is the user's own key-value data.
	Meta map[string]string `json:",omitempty"`
	// ModifyIndex is Consul's Raft index of the last write; 0 for entries read from files.
	ModifyIndex uint64 `json:"-"`
	// Origin says where the entry was read, such as "shop.hcl:12" or "consul". It takes no part in
	// equality: two entries that differ only in Origin are the same entry.
	Origin string `json:"-"`
}

// Head implements [Entry].
func (h *Header) Head() *Header { return h }

// Kind implements [Entry].
func (*ProxyDefaults) Kind() Kind { return KindProxyDefaults }

// Kind implements [Entry].
func (*ServiceDefaults) Kind() Kind { return KindServiceDefaults }

// Kind implements [Entry].
func (*ServiceRouter) Kind() Kind { return KindServiceRouter }

// Kind implements [Entry].
func (*ServiceSplitter) Kind() Kind { return KindServiceSplitter }

// Kind implements [Entry].
func (*ServiceResolver) Kind() Kind { return KindServiceResolver }

// Kind implements [Entry].
func (*ServiceIntentions) Kind() Kind { return KindServiceIntentions }

// Kind implements [Entry].
func (*Mesh) Kind() Kind { return KindMesh }

// Entries is where the compiler looks entries up.
type Entries interface {
	// Entry returns the entry of that kind and name, ignoring the case of the name, or nil.
	Entry(kind Kind, name string) Entry
}

// EntrySet is an [Entries] held in a map. The zero value is empty and ready to use.
type EntrySet struct {
	byKind map[Kind]map[string]Entry
}

// NewEntrySet returns a set that holds the entries. Of two with one kind and name the later wins.
func NewEntrySet(entries ...Entry) *EntrySet {
	s := &EntrySet{}
	for _, e := range entries {
		s.Put(e)
	}
	return s
}

// Put adds or replaces an entry.
func (s *EntrySet) Put(e Entry) {
	if s.byKind == nil {
		s.byKind = make(map[Kind]map[string]Entry)
	}
	if s.byKind[e.Kind()] == nil {
		s.byKind[e.Kind()] = make(map[string]Entry)
	}
	s.byKind[e.Kind()][strings.ToLower(e.Head().Name)] = e
}

// Entry implements [Entries].
func (s *EntrySet) Entry(kind Kind, name string) Entry {
	if e, ok := s.byKind[kind][strings.ToLower(name)]; ok {
		return e
	}
	return nil
}
