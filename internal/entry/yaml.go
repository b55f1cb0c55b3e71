package entry

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

func parseYAML(src []byte) (docs []node, err error) {
	defer recovered("YAML", &err)
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				line, _ := strconv.Atoi(m[1]) // digits, by the expression
				return nil, syntaxf(line, "not YAML: %s", m[2])
			}
			return nil, syntaxf(1, "not YAML: %v", err)
		}
		n, err := fromYAML(&doc, 0)
		if err != nil {
			return nil, err
		}
		if n.value != nil {
			docs = append(docs, n)
		}
	}
}

func fromYAML(y *yaml.Node, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, syntaxf(y.Line, "values nest deeper than %d", maxDepth)
	}
	n := node{line: y.Line}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 1 {
			return fromYAML(y.Content[0], depth)
		}
		return n, nil
	case yaml.AliasNode:
		return node{}, syntaxf(y.Line, "anchors and aliases are not supported: write the value out")
	case yaml.SequenceNode:
		l := make(list, 0, len(y.Content))
		for _, c := range y.Content {
			item, err := fromYAML(c, depth+1)
			if err != nil {
				return node{}, err
			}
			l = append(l, item)
		}
		n.value = l
	case yaml.MappingNode:
		o := &object{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			v, err := fromYAML(y.Content[i+1], depth+1)
			if err != nil {
				return node{}, err
			}
			key := y.Content[i]
			if key.Kind != yaml.ScalarNode {
				return node{}, syntaxf(key.Line, "a key must be text")
			}
			o.fields = append(o.fields, field{key: key.Value, line: key.Line, value: v})
		}
		n.value = o
	case yaml.ScalarNode:
		var err error
		n.value, err = yamlScalar(y)
		return n, err
	}
	return n, nil
}

// yamlScalar leaves to the library the many ways in which YAML writes booleans and numbers.
func yamlScalar(y *yaml.Node) (any, error) {
	switch y.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		if err := y.Decode(&b); err == nil {
			return b, nil
		}
	case "!!int":
		var i int64
		if err := y.Decode(&i); err == nil {
			return number(strconv.FormatInt(i, 10)), nil
		}
		fallthrough // above the integers there are floats
	case "!!float":
		var f float64
		if err := y.Decode(&f); err == nil {
			return numberOf(y.Line, strconv.FormatFloat(f, 'g', -1, 64))
		}
	}
	return y.Value, nil
}
