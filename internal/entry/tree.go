package entry

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/catenary-mesh/catenary/chain"
)

const (
	// maxDepth bounds how deep values may nest.
	maxDepth = 64
	// maxSize bounds a file: the parsers need many times its size.
	maxSize = 16 << 20
)

// node is a value of any of the three languages, with the line it begins at. value is one of
// nil, string, bool, number, *object or list.
type node struct {
	line  int
	value any
}

// number is a number as JSON has it, whole ones without fraction and exponent.
type number string

// numberOf reads a number in decimal.
func numberOf(line int, s string) (number, error) {
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number(s), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", syntaxf(line, "%.40s is not a number that can be used", s)
	}
	return number(strconv.FormatFloat(f, 'f', -1, 64)), nil
}

// list is a list of values.
type list []node

// object is a map in the order it is written; the languages allow a key to come twice.
type object struct{ fields []field }

type field struct {
	key   string
	line  int
	value node
}

// kind says what a node is, for people.
func (n node) kind() string {
	switch n.value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case number:
		return "a number"
	case list:
		return "a list"
	}
	return "a map"
}

// syntaxError is a text that does not follow its language.
type syntaxError struct {
	line    int
	code    string
	message string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.message) }

func syntaxf(line int, format string, args ...any) error {
	return &syntaxError{line: max(line, 1), code: CodeSyntax, message: fmt.Sprintf(format, args...)}
}

// recovered makes an error of the panic of a parser that is not ours.
func recovered(language string, err *error) {
	if r := recover(); r != nil {
		*err = syntaxf(1, "not %s: the parser gave up: %v", language, r)
	}
}

// The codes of the problems that the decoder finds. docs/codes.md says what to do about each.
const (
	CodeSyntax      = "CAT1901"
	CodeUnknownKey  = "CAT1903"
	CodeType        = "CAT1904"
	CodeTwice       = "CAT1905"
	CodeKind        = "CAT1906"
	CodeIgnoredKind = "CAT1907"
	CodeNeither     = "CAT1908"
	CodeService     = "CAT1909"
	CodeEmpty       = "CAT1910"
)

// at is the origin of a line of a file.
func at(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }

// sink gathers problems of one file.
type sink struct {
	file string
	// lenient makes unknown keys warnings: what Consul itself sends may be newer than we are.
	lenient  bool
	problems []chain.Problem
}

// hasError reports whether an error was added after so many problems.
func (s *sink) hasError(before int) bool {
	return slices.ContainsFunc(s.problems[before:], chain.Problem.IsError)
}

func (s *sink) add(severity, code string, line int, entry, field, message string) {
	s.problems = append(s.problems, chain.Problem{
		Code: code, Severity: severity, Entry: entry, Origin: at(s.file, line), Field: field, Message: message,
	})
}
