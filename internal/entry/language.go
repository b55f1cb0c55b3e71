package entry

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Extensions are the endings of the names of files that are decoded.
func Extensions() []string { return []string{".hcl", ".json", ".yaml", ".yml"} }

// parse reads a file in the language that its name ends in, or else that it looks like.
func parse(name string, src []byte) ([]node, error) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")) // the mark that Windows begins text with
	switch {
	case len(src) > maxSize:
		return nil, syntaxf(1, "the file is larger than %d MiB: split it", maxSize>>20)
	case !utf8.Valid(src):
		return nil, syntaxf(1, "the file is not UTF-8 text")
	case len(bytes.TrimSpace(src)) == 0:
		// Many programs empty a file before they write it, so this is no wish to take all back.
		return nil, &syntaxError{line: 1, code: CodeEmpty, message: "the file is empty: delete it, or comment out what was in it"}
	}
	switch language(name, src) {
	case "json":
		return parseJSON(src)
	case "yaml":
		return parseYAML(src)
	}
	return parseHCL(src)
}

var (
	comment   = regexp.MustCompile(`^(?s:\s+|#[^\n]*|//[^\n]*|/\*.*?\*/)`)
	yamlStart = regexp.MustCompile(`^(---|- |%YAML|["']?[\w-]+["']?\s*:(\s|$))`)
)

// language is json, yaml or hcl. A text without a name, such as the standard input, is told by how it
// begins.
func language(name string, src []byte) string {
	for m := comment.Find(src); len(m) > 0; m = comment.Find(src) {
		src = src[len(m):]
	}
	ext := strings.ToLower(filepath.Ext(name))
	switch {
	case ext == ".json", ext == ".yaml":
		return ext[1:]
	case ext == ".yml":
		return "yaml"
	case bytes.HasPrefix(src, []byte("{")), bytes.HasPrefix(src, []byte("[")):
		// HCL has a form that is JSON, and neither begins a file in its other form.
		return "json"
	case ext != ".hcl" && yamlStart.Match(src):
		return "yaml"
	}
	return "hcl"
}
