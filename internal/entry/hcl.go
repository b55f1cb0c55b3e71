package entry

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/scanner"
	"github.com/hashicorp/hcl/hcl/token"
)

// parseHCL reads HCL 1. Its parser panics on some malformed inputs, which is an error of the input
// here.
func parseHCL(src []byte) (docs []node, err error) {
	defer recovered("HCL", &err)
	if err := checkTokens(src); err != nil {
		return nil, err
	}
	file, err := parser.Parse(src)
	if err != nil {
		if pos, ok := errors.AsType[*parser.PosError](err); ok {
			return nil, syntaxf(pos.Pos.Line, "not HCL: %v", pos.Err)
		}
		return nil, syntaxf(1, "not HCL: %v", err)
	}
	root, ok := file.Node.(*ast.ObjectList)
	if !ok {
		return nil, syntaxf(1, "not HCL: a file is a list of keys and blocks")
	}
	if len(root.Items) == 0 {
		return nil, nil
	}
	o, err := fromObjectList(root, 0)
	if err != nil {
		return nil, err
	}
	return []node{{line: root.Pos().Line, value: o}}, nil
}

// checkTokens refuses what the parser does not: it recurses, and a stack that overflows ends the
// program; and where a file ends in the middle of its last line, the parser drops that line.
func checkTokens(src []byte) error {
	s := scanner.New(src)
	s.Error = func(token.Pos, string) {} // the parser will say it; without a function it is printed
	depth, last := 0, token.EOF
	for range len(src) + 1 {
		tok := s.Scan()
		switch tok.Type {
		case token.EOF:
			if last == token.ASSIGN {
				return syntaxf(tok.Pos.Line, "not HCL: the file ends where a value is expected")
			}
			return nil
		case token.COMMENT:
			continue
		case token.LBRACE, token.LBRACK:
			depth++
		case token.RBRACE, token.RBRACK:
			depth--
		default:
		}
		if depth > maxDepth {
			return syntaxf(tok.Pos.Line, "values nest deeper than %d", maxDepth)
		}
		last = tok.Type
	}
	return nil
}

// fromObjectList makes a map. Blocks of one name are a list, in their order; a block with labels is a
// map of maps.
func fromObjectList(l *ast.ObjectList, depth int) (*object, error) {
	if depth > maxDepth {
		return nil, syntaxf(l.Pos().Line, "values nest deeper than %d", maxDepth)
	}
	o := &object{}
	for _, item := range l.Items {
		f, err := fromItem(item, depth)
		if err != nil {
			return nil, err
		}
		if i := repeated(o, item, f.key); i >= 0 {
			o.fields[i].value = appendBlock(o.fields[i].value, f.value)
			continue
		}
		o.fields = append(o.fields, f)
	}
	return o, nil
}

// repeated finds an earlier block of the same name.
func repeated(o *object, item *ast.ObjectItem, key string) int {
	if item.Assign.IsValid() {
		return -1
	}
	for i := range o.fields {
		switch o.fields[i].value.value.(type) {
		case *object, list:
			if o.fields[i].key == key {
				return i
			}
		}
	}
	return -1
}

func appendBlock(to, block node) node {
	if l, ok := to.value.(list); ok {
		to.value = append(l, block)
		return to
	}
	return node{line: to.line, value: list{to, block}}
}

func fromItem(item *ast.ObjectItem, depth int) (field, error) {
	if len(item.Keys) == 0 {
		return field{}, syntaxf(item.Pos().Line, "a value without a key")
	}
	v, err := fromHCL(item.Val, depth+1)
	if err != nil {
		return field{}, err
	}
	for i := len(item.Keys) - 1; i > 0; i-- {
		key, err := keyOf(item.Keys[i])
		if err != nil {
			return field{}, err
		}
		line := item.Keys[i].Pos().Line
		v = node{line: line, value: &object{fields: []field{{key: key, line: line, value: v}}}}
	}
	key, err := keyOf(item.Keys[0])
	return field{key: key, line: item.Keys[0].Pos().Line, value: v}, err
}

func keyOf(k *ast.ObjectKey) (string, error) {
	v, err := valueOf(k.Token)
	key, ok := v.(string)
	if err == nil && !ok {
		return "", syntaxf(k.Pos().Line, "a key must be a name or a string")
	}
	return key, err
}

func fromHCL(n ast.Node, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, syntaxf(n.Pos().Line, "values nest deeper than %d", maxDepth)
	}
	switch v := n.(type) {
	case *ast.ObjectType:
		o, err := fromObjectList(v.List, depth)
		return node{line: v.Pos().Line, value: o}, err
	case *ast.ListType:
		l := make(list, 0, len(v.List))
		for _, e := range v.List {
			item, err := fromHCL(e, depth+1)
			if err != nil {
				return node{}, err
			}
			l = append(l, item)
		}
		return node{line: v.Pos().Line, value: l}, nil
	case *ast.LiteralType:
		return literal(v)
	}
	return node{}, syntaxf(n.Pos().Line, "not HCL: an unexpected %T", n)
}

func literal(v *ast.LiteralType) (node, error) {
	n := node{line: v.Pos().Line}
	value, err := valueOf(v.Token)
	switch x := value.(type) {
	case int64:
		n.value = number(strconv.FormatInt(x, 10))
	case float64:
		n.value, err = numberOf(n.line, strconv.FormatFloat(x, 'g', -1, 64))
	default:
		n.value = value
	}
	return n, err
}

// valueOf is what a token stands for. The library panics where a token looks right and means nothing,
// such as an escape that there is not or a number out of range.
func valueOf(t token.Token) (v any, err error) {
	defer func() {
		if recover() != nil {
			v, err = nil, syntaxf(t.Pos.Line, "not HCL: %.80s is not a value", t.Text)
		}
	}()
	v = t.Value()
	if text, ok := v.(string); ok && !utf8.ValidString(text) { // by an escape such as \xff
		return nil, syntaxf(t.Pos.Line, "%.80s is not UTF-8 text", t.Text)
	}
	return v, nil
}
