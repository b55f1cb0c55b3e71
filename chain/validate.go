package chain

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// The limits of an entry's Meta.
const (
	maxMetaPairs = 64
	maxMetaKey   = 128
	maxMetaValue = 512
)

// Validate finds all that is wrong with an entry on its own, without looking at others: an error is
// what Consul's Community Edition refuses to store, a warning what it stores but hardly anyone means.
// The entry must not be nil and should have passed [Normalize]. The order of the problems is fixed.
func Validate(e Entry) []Problem {
	f := &findings{entry: e}
	f.header(e.Head())
	switch e := e.(type) {
	case *ProxyDefaults:
		f.proxyDefaults(e)
	case *ServiceDefaults:
		f.serviceDefaults(e)
	case *ServiceRouter:
		f.router(e)
	case *ServiceSplitter:
		f.splitter(e)
	case *ServiceResolver:
		f.resolver(e)
	case *ServiceIntentions:
		f.intentions(e)
	case *Mesh:
		f.mesh(e)
	}
	return f.problems
}

// findings collects the problems of one entry.
type findings struct {
	entry    Entry
	problems []Problem
}

func (f *findings) add(severity, code, field, message string) {
	f.problems = append(f.problems, Problem{
		Code: code, Severity: severity, Field: field, Message: message,
		Entry: ref(f.entry), Origin: f.entry.Head().Origin,
	})
}

func (f *findings) fault(code, field, format string, args ...any) {
	f.add(SeverityError, code, field, fmt.Sprintf(format, args...))
}

func (f *findings) warn(code, field, format string, args ...any) {
	f.add(SeverityWarning, code, field, fmt.Sprintf(format, args...))
}

func (f *findings) header(h *Header) {
	if h.Name == "" {
		f.fault(CodeNoName, "Name", "the entry has no name; write the name of the service it is for")
	}
	if len(h.Meta) > maxMetaPairs {
		f.fault(CodeMeta, "Meta", "%d pairs are too many; at most %d are allowed", len(h.Meta), maxMetaPairs)
	}
	for _, key := range slices.Sorted(maps.Keys(h.Meta)) {
		if utf8.RuneCountInString(key) > maxMetaKey {
			f.fault(CodeMeta, "Meta", "the key %.20q... is longer than %d characters", key, maxMetaKey)
		}
		if utf8.RuneCountInString(h.Meta[key]) > maxMetaValue {
			f.fault(CodeMeta, keyed("Meta", key), "the value is longer than %d characters", maxMetaValue)
		}
	}
}

// enterprise refuses fields that only Consul Enterprise acts on; names and values alternate.
func (f *findings) enterprise(path string, namesAndValues ...string) {
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			f.fault(CodeEnterprise, join(path, namesAndValues[i]),
				"%s needs Consul Enterprise; leave it out", namesAndValues[i])
		}
	}
}

// oneOf refuses a value that is neither empty nor listed.
func (f *findings) oneOf(field, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		f.fault(CodeUnknownValue, field, "%q is not known; use one of %q, or leave it out", value, allowed)
	}
}

// meshGateway warns of a mode that Consul stores without a word.
func (f *findings) meshGateway(field string, mode MeshGatewayMode) {
	switch mode {
	case MeshGatewayDefault, MeshGatewayNone, MeshGatewayLocal, MeshGatewayRemote:
	default:
		f.warn(CodeNoEffect, field, "%q is no mode of a mesh gateway and has no effect; use none, local or remote", mode)
	}
}

// proxyMode warns of a mode that Consul stores without a word.
func (f *findings) proxyMode(mode string) {
	if mode != "" && mode != "transparent" && mode != "direct" {
		f.warn(CodeNoEffect, "Mode", "%q is no mode of a proxy and has no effect; use transparent or direct", mode)
	}
}

// join, at and keyed write the paths of fields: A.B, A[1] and A["k"].
func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func at(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index) }

func keyed(path, key string) string { return fmt.Sprintf("%s[%q]", path, key) }
