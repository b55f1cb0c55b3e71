package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// matcher reports whether a subset has an instance.
type matcher func(*facts.Instance) bool

// maxFilter is how many expressions the parser of filters may try before it gives one up: the library's
// own limit.
const maxFilter = 2_000_000

// filter compiles a subset's filter. An instance on which it cannot be evaluated does not match. The
// library looks fields up by reflection, which for a service of thousands of instances takes longer
// than all else; what filters are made of in practice is compiled to functions, with the same meaning.
func filter(expression string) (matcher, error) {
	ast, err := grammar.Parse("", []byte(expression), grammar.MaxExpressions(maxFilter))
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", expression, err)
	}
	if m, ok := compile(ast); ok {
		return m, nil
	}
	eval, err := bexpr.CreateEvaluator(expression)
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", expression, err)
	}
	return func(in *facts.Instance) bool {
		ok, err := eval.Evaluate(in)
		return err == nil && ok
	}, nil
}

// compile compiles an expression; ok is false when only the library can evaluate it.
func compile(expression any) (m matcher, ok bool) {
	switch e := expression.(type) {
	case *grammar.UnaryExpression:
		m, ok := compile(e.Operand)
		return func(in *facts.Instance) bool { return !m(in) }, ok && e.Operator == grammar.UnaryOpNot
	case *grammar.BinaryExpression:
		left, okLeft := compile(e.Left)
		right, okRight := compile(e.Right)
		if e.Operator == grammar.BinaryOpAnd {
			return func(in *facts.Instance) bool { return left(in) && right(in) }, okLeft && okRight
		}
		return func(in *facts.Instance) bool { return left(in) || right(in) }, okLeft && okRight
	case *grammar.MatchExpression:
		return compileMatch(e)
	}
	return nil, false
}

func compileMatch(e *grammar.MatchExpression) (matcher, bool) {
	raw := ""
	if e.Value != nil {
		raw = e.Value.Raw
	}
	if slices.Equal(e.Selector.Path, []string{"Service", "Tags"}) {
		test, ok := listTest(e.Operator, raw)
		return func(in *facts.Instance) bool { return test(in.Service.Tags) }, ok
	}
	get, known := textField(e.Selector.Path)
	test, ok := textTest(e.Operator, raw)
	absent := e.Operator.NotPresentDisposition()
	return func(in *facts.Instance) bool {
		if text, present := get(in); present {
			return test(text)
		}
		return absent
	}, known && ok
}

// textField returns how to get at a field with a text; present is false when a map has no such key.
func textField(path []string) (get func(*facts.Instance) (text string, present bool), ok bool) {
	switch {
	case len(path) == 3 && path[0] == "Service" && path[1] == "Meta":
		return func(in *facts.Instance) (string, bool) { v, ok := in.Service.Meta[path[2]]; return v, ok }, true
	case len(path) == 3 && path[0] == "Node" && path[1] == "Meta":
		return func(in *facts.Instance) (string, bool) { v, ok := in.Node.Meta[path[2]]; return v, ok }, true
	case slices.Equal(path, []string{"Service", "ID"}):
		return func(in *facts.Instance) (string, bool) { return in.Service.ID, true }, true
	case slices.Equal(path, []string{"Node", "Node"}):
		return func(in *facts.Instance) (string, bool) { return in.Node.Node, true }, true
	case slices.Equal(path, []string{"Node", "Datacenter"}):
		return func(in *facts.Instance) (string, bool) { return in.Node.Datacenter, true }, true
	}
	return nil, false
}

// textTest is what an operator asks of a text.
func textTest(op grammar.MatchOperator, raw string) (func(string) bool, bool) {
	switch op {
	case grammar.MatchEqual:
		return func(s string) bool { return s == raw }, true
	case grammar.MatchNotEqual:
		return func(s string) bool { return s != raw }, true
	case grammar.MatchIn, grammar.MatchContains:
		return func(s string) bool { return strings.Contains(s, raw) }, true
	case grammar.MatchNotIn, grammar.MatchNotContains:
		return func(s string) bool { return !strings.Contains(s, raw) }, true
	case grammar.MatchIsEmpty:
		return func(s string) bool { return s == "" }, true
	case grammar.MatchIsNotEmpty:
		return func(s string) bool { return s != "" }, true
	case grammar.MatchMatches, grammar.MatchNotMatches:
		re, err := regexp.Compile(raw)
		if err != nil {
			return nil, false
		}
		return func(s string) bool { return re.MatchString(s) == (op == grammar.MatchMatches) }, true
	default:
		return nil, false
	}
}

// listTest is what an operator asks of a list.
func listTest(op grammar.MatchOperator, raw string) (func([]string) bool, bool) {
	switch op {
	case grammar.MatchIn, grammar.MatchContains:
		return func(list []string) bool { return slices.Contains(list, raw) }, true
	case grammar.MatchNotIn, grammar.MatchNotContains:
		return func(list []string) bool { return !slices.Contains(list, raw) }, true
	case grammar.MatchIsEmpty:
		return func(list []string) bool { return len(list) == 0 }, true
	case grammar.MatchIsNotEmpty:
		return func(list []string) bool { return len(list) > 0 }, true
	default:
		return nil, false
	}
}
