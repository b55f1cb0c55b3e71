package facts

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// successor returns the instance to keep when next follows prev, which lies before it in time unless a
// part of next has the lower index, and whether its content differs from prev's. It is prev itself when
// nothing differs, so that what is equal stays one.
func successor(prev, next *Instance, reset bool) (in *Instance, differs bool) {
	if !reset && older(prev, next) {
		next = newest(prev, next)
	}
	switch {
	case !sameInstance(prev, next):
		return next, true
	case !sameIndexes(prev, next):
		return next, false
	}
	return prev, false
}

// older reports whether a part of next has a lower index than in prev.
func older(prev, next *Instance) bool {
	if next.Node.ModifyIndex < prev.Node.ModifyIndex || next.Service.ModifyIndex < prev.Service.ModifyIndex {
		return true
	}
	for i := range next.Checks {
		for j := range prev.Checks {
			if sameCheckOlder(&next.Checks[i], &prev.Checks[j]) {
				return true
			}
		}
	}
	return false
}

// sameCheckOlder reports whether a is an older state of the check b.
func sameCheckOlder(a, b *Check) bool { return a.CheckID == b.CheckID && a.ModifyIndex < b.ModifyIndex }

// newest returns next with every part that is older than prev's replaced by prev's. A check that next
// does not have is gone, not old.
func newest(prev, next *Instance) *Instance {
	c := *next
	if c.Node.ModifyIndex < prev.Node.ModifyIndex {
		c.Node = prev.Node
	}
	if c.Service.ModifyIndex < prev.Service.ModifyIndex {
		c.Service = prev.Service
	}
	c.Checks = slices.Clone(next.Checks)
	for i := range c.Checks {
		for j := range prev.Checks {
			if sameCheckOlder(&c.Checks[i], &prev.Checks[j]) {
				c.Checks[i] = prev.Checks[j]
			}
		}
	}
	return &c
}

// newestIndex is the highest index of any part of the instance that is its own: a node and its checks
// go on without it.
func (in *Instance) newestIndex() uint64 {
	newest := in.Service.ModifyIndex
	for i := range in.Checks {
		if in.Checks[i].ServiceID != "" {
			newest = max(newest, in.Checks[i].ModifyIndex)
		}
	}
	return newest
}

// sortChecks returns the instance with its checks ordered by ID, so that their order is not content.
func sortChecks(in *Instance) *Instance {
	byID := func(a, b Check) int { return strings.Compare(a.CheckID, b.CheckID) }
	if slices.IsSortedFunc(in.Checks, byID) {
		return in
	}
	c := *in
	c.Checks = slices.SortedFunc(slices.Values(in.Checks), byID)
	return &c
}

func sameIndexes(a, b *Instance) bool {
	return a.Node.ModifyIndex == b.Node.ModifyIndex && a.Service.ModifyIndex == b.Service.ModifyIndex &&
		slices.EqualFunc(a.Checks, b.Checks, func(a, b Check) bool { return a.ModifyIndex == b.ModifyIndex })
}

// sameInstance compares by content, not by indexes. It is written out because a reading compares every
// instance, and reflection takes ten times as long.
func sameInstance(a, b *Instance) bool {
	return sameNode(&a.Node, &b.Node) && sameService(&a.Service, &b.Service) &&
		slices.EqualFunc(a.Checks, b.Checks, sameCheck)
}

func sameNode(a, b *Node) bool {
	return a.ID == b.ID && a.Node == b.Node && a.Address == b.Address && a.Datacenter == b.Datacenter &&
		maps.Equal(a.TaggedAddresses, b.TaggedAddresses) && maps.Equal(a.Meta, b.Meta) &&
		sameLocality(a.Locality, b.Locality)
}

func sameService(a, b *Service) bool {
	return a.Kind == b.Kind && a.ID == b.ID && a.Service == b.Service && slices.Equal(a.Tags, b.Tags) &&
		a.Address == b.Address && a.Port == b.Port && maps.Equal(a.TaggedAddresses, b.TaggedAddresses) &&
		maps.Equal(a.Meta, b.Meta) && a.Weights == b.Weights && a.EnableTagOverride == b.EnableTagOverride &&
		a.Connect == b.Connect && sameLocality(a.Locality, b.Locality) && reflect.DeepEqual(a.Proxy, b.Proxy)
}

func sameLocality(a, b *Locality) bool { return a == b || a != nil && b != nil && *a == *b }

func sameCheck(a, b Check) bool {
	return a.Node == b.Node && a.CheckID == b.CheckID && a.Name == b.Name && a.Status == b.Status &&
		a.Notes == b.Notes && a.ServiceID == b.ServiceID && a.ServiceName == b.ServiceName &&
		slices.Equal(a.ServiceTags, b.ServiceTags) && a.Type == b.Type &&
		(a.Definition == b.Definition || reflect.DeepEqual(a.Definition, b.Definition))
}
