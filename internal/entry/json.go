package entry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sort"
)

// jsonParser reads JSON with positions. It is the standard library's tokenizer and not YAML's, which
// takes neither tabs nor pairs of surrogates.
type jsonParser struct {
	dec   *json.Decoder
	lines []int64 // offsets of line ends
}

func parseJSON(src []byte) ([]node, error) {
	p := &jsonParser{dec: json.NewDecoder(bytes.NewReader(src))}
	p.dec.UseNumber()
	for i, c := range src {
		if c == '\n' {
			p.lines = append(p.lines, int64(i))
		}
	}
	var docs []node
	for {
		tok, err := p.dec.Token()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, p.wrong(err)
		}
		n, err := p.value(tok, 0)
		if err != nil {
			return nil, err
		}
		docs = append(docs, n)
	}
}

func (p *jsonParser) line() int {
	offset := p.dec.InputOffset()
	return 1 + sort.Search(len(p.lines), func(i int) bool { return p.lines[i] >= offset })
}

func (p *jsonParser) wrong(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return syntaxf(1+len(p.lines), "the JSON ends too early")
	}
	return syntaxf(p.line(), "not JSON: %v", err)
}

func (p *jsonParser) value(tok json.Token, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, syntaxf(p.line(), "values nest deeper than %d", maxDepth)
	}
	n := node{line: p.line()}
	switch v := tok.(type) {
	case nil:
	case string, bool:
		n.value = v
	case json.Number:
		var err error
		n.value, err = numberOf(n.line, v.String())
		return n, err
	case json.Delim:
		var err error
		if v == '[' {
			n.value, err = p.list(depth)
		} else {
			n.value, err = p.object(depth)
		}
		return n, err
	}
	return n, nil
}

func (p *jsonParser) list(depth int) (list, error) {
	l := list{}
	for {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, p.wrong(err)
		}
		if tok == json.Delim(']') {
			return l, nil
		}
		n, err := p.value(tok, depth+1)
		if err != nil {
			return nil, err
		}
		l = append(l, n)
	}
}

func (p *jsonParser) object(depth int) (*object, error) {
	o := &object{}
	for {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, p.wrong(err)
		}
		if tok == json.Delim('}') {
			return o, nil
		}
		key, ok := tok.(string)
		if !ok {
			return nil, syntaxf(p.line(), "a key must be a string")
		}
		f := field{key: key, line: p.line()}
		if tok, err = p.dec.Token(); err != nil {
			return nil, p.wrong(err)
		}
		if f.value, err = p.value(tok, depth+1); err != nil {
			return nil, err
		}
		o.fields = append(o.fields, f)
	}
}
