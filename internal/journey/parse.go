package journey

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Words are a question as people write it, on a command line or in a URL.
type Words struct {
	Service, Datacenter string
	// Kind is plain or mesh; empty is plain.
	Kind string
	// Method is GET where it is empty, and Path is /. A path may have a query.
	Method, Path string
	// Headers and Query are NAME=VALUE, or NAME alone for one without a value. The host is the service where no
	// header names it.
	Headers, Query []string
	// Without is as in [Question].
	Without []string
}

// Question returns what the words ask. There is a request as soon as anything of one is given.
func (w Words) Question() (Question, error) {
	q := Question{Service: w.Service, Datacenter: strings.ToLower(w.Datacenter), Kind: snapshot.Kind(w.Kind), Without: w.Without}
	switch {
	case w.Service == "":
		return q, fmt.Errorf("the service is empty: name one")
	case q.Kind != "" && q.Kind != snapshot.Plain && q.Kind != snapshot.Mesh:
		return q, fmt.Errorf("the kind of client is %q: want %s or %s", w.Kind, snapshot.Plain, snapshot.Mesh)
	case w.Method == "" && w.Path == "" && len(w.Headers)+len(w.Query) == 0:
		return q, nil
	}
	path, query, _ := strings.Cut(cmp.Or(w.Path, "/"), "?")
	r := &explain.Request{Method: strings.ToUpper(cmp.Or(w.Method, "GET")), Host: w.Service, Path: path}
	switch {
	case !strings.HasPrefix(path, "/"):
		return q, fmt.Errorf("the path %q does not begin with a slash", w.Path)
	case strings.Contains(w.Path, "#"):
		return q, fmt.Errorf("the path %q has a #: what follows it never leaves a browser, and Envoy refuses it", w.Path)
	}
	for _, text := range w.Headers {
		p, err := pair("header", text)
		if err != nil {
			return q, err
		}
		if name := strings.ToLower(p.Name); name == "host" || name == ":authority" {
			r.Host = p.Value
			continue
		}
		r.Headers = append(r.Headers, p)
	}
	if query != "" {
		w.Query = append(strings.Split(query, "&"), w.Query...)
	}
	for _, text := range w.Query {
		p, err := pair("query parameter", text)
		if err != nil {
			return q, err
		}
		r.Query = append(r.Query, p)
	}
	q.Request = r
	return q, nil
}

func pair(what, text string) (explain.Pair, error) {
	name, value, _ := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if name == "" {
		return explain.Pair{}, fmt.Errorf("the %s %q has no name: write NAME=VALUE", what, text)
	}
	return explain.Pair{Name: name, Value: strings.TrimSpace(value)}, nil
}
