package render

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the forms, as -o takes them.
const (
	FormatTable   = "table"
	FormatText    = "text"
	FormatJSON    = "json"
	FormatYAML    = "yaml"
	FormatTree    = "tree"
	FormatDot     = "dot"
	FormatMermaid = "mermaid"
)

// Format is a command line flag whose value is one of a list of forms. It implements pflag.Value;
// make one with [NewFormat].
type Format struct {
	chosen  string
	allowed []string
}

// NewFormat returns a flag that accepts the first form, which is its default, and the others.
func NewFormat(first string, others ...string) *Format {
	return &Format{chosen: first, allowed: append([]string{first}, others...)}
}

// String returns the chosen form.
func (f *Format) String() string { return f.chosen }

// Set chooses a form.
func (f *Format) Set(form string) error {
	if !slices.Contains(f.allowed, form) {
		return fmt.Errorf("must be one of: %s", strings.Join(f.allowed, ", "))
	}
	f.chosen = form
	return nil
}

// Type lists the forms, so that a command's help shows them.
func (f *Format) Type() string { return strings.Join(f.allowed, "|") }

// Allowed returns the forms, the default first, for shell completion. The caller owns the slice.
func (f *Format) Allowed() []string { return slices.Clone(f.allowed) }
