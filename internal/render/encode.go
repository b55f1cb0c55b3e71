package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// JSON writes the value as JSON, indented by four spaces as Consul's own API does with ?pretty, and
// with < > and & as they are.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	return enc.Encode(v)
}

// YAML writes the value as YAML with the names, the order and the omissions of its JSON.
func YAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// yaml.v3 reads JSON, but not exactly: it takes some characters in strings for line breaks.
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	doc, err := node(dec)
	if err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return enc.Close()
}

// node reads the next JSON value as a YAML node.
func node(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return collection(dec, v)
	case string:
		return text(v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}, nil
	}
}

// collection reads the rest of a JSON object or array. In YAML too a mapping's content is its keys and
// values by turns.
func collection(dec *json.Decoder, begin json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if begin == '{' {
		n.Kind = yaml.MappingNode
	}
	for dec.More() {
		child, err := node(dec)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	_, err := dec.Token()
	return n, err
}

// text returns a string as a node: plain where every YAML reader takes it for that string, as lines
// where it has several, and quoted otherwise. yaml.v3 knows what other readers would take for a
// number or a truth value, such as no, 012 or 1:30; that << merges mappings it forgets, and the lines
// of a string that begins with space it gets wrong.
func text(s string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	out, err := yaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	switch {
	case s == "" || s == "<<" || unicode.IsSpace([]rune(s)[0]) || strings.ContainsAny(string(out[:1]), `"'`):
		n.Style = yaml.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		n.Style = yaml.LiteralStyle
	}
	return n, nil
}
