package oracle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// chainPrefix is what a question's refusal says more than a write's.
const chainPrefix = "failed to compile discovery chain: "

// likeness says how two chains are equal.
type likeness int

const (
	different likeness = iota
	nearly             // but for the weights of three and more levels of splitters
	respelled          // after JSON is normalised
	same
)

// answer is what Consul said to a question.
type answer struct {
	chain   []byte
	refusal string
}

// compare compiles the question's chain and says how it differs from Consul's, if it does.
func compare(q question, set *chain.EntrySet, theirs answer, trustDomain string) (likeness, string) {
	req := q.request(trustDomain)
	if theirs.chain != nil {
		var ips struct{ AutoVirtualIPs, ManualVirtualIPs []string }
		if err := json.Unmarshal(theirs.chain, &ips); err != nil {
			return different, fmt.Sprintf("Consul's chain cannot be read: %v", err)
		}
		req.AutoVirtualIPs, req.ManualVirtualIPs = ips.AutoVirtualIPs, ips.ManualVirtualIPs
	}
	c, problems := chain.Compile(req, set)
	switch {
	case c == nil && theirs.chain != nil:
		return different, fmt.Sprintf("Consul has a chain; here %v", problems)
	case c != nil && theirs.chain == nil:
		return different, fmt.Sprintf("Consul has no chain: %s; here there is one", theirs.refusal)
	case c == nil && chainPrefix+problems[0].Message != theirs.refusal:
		return different, fmt.Sprintf("Consul says %q; here %q", theirs.refusal, problems[0].Message)
	case c == nil:
		return same, ""
	}
	ours, err := json.Marshal(c)
	if err != nil {
		return different, fmt.Sprintf("the chain cannot be printed: %v", err)
	}
	if what := reprint(theirs.chain); what != "" {
		return different, what
	}
	return alike(ours, theirs.chain, set)
}

// reprint reads Consul's chain into our types and prints it again, which must lose nothing.
func reprint(theirs []byte) string {
	var c chain.Chain
	if err := json.Unmarshal(theirs, &c); err != nil {
		return fmt.Sprintf("Consul's chain cannot be read: %v", err)
	}
	again, err := json.Marshal(&c)
	if err != nil {
		return fmt.Sprintf("Consul's chain cannot be printed: %v", err)
	}
	if !bytes.Equal(again, theirs) {
		return "Consul's chain read and printed again differs: " + excerpt(again, theirs)
	}
	return ""
}

func alike(ours, theirs []byte, set *chain.EntrySet) (likeness, string) {
	if bytes.Equal(ours, theirs) {
		return same, ""
	}
	var a, b any
	if err := json.Unmarshal(ours, &a); err != nil {
		return different, err.Error()
	}
	if err := json.Unmarshal(theirs, &b); err != nil {
		return different, err.Error()
	}
	if reflect.DeepEqual(a, b) {
		return respelled, ""
	}
	if isDeep(set, a) && nearlyEqual(a, b) {
		return nearly, ""
	}
	return different, excerpt(ours, theirs)
}

// excerpt shows where two texts begin to differ.
func excerpt(ours, theirs []byte) string {
	i := 0
	for i < len(ours) && i < len(theirs) && ours[i] == theirs[i] {
		i++
	}
	cut := func(b []byte) []byte { return b[max(0, i-160):min(len(b), i+160)] }
	return fmt.Sprintf("\nConsul ...%s...\nhere   ...%s...", cut(theirs), cut(ours))
}

// tolerance is how far a weight may be off after three and more levels, each of which rounds to 0.01.
const tolerance = 0.04

// nearlyEqual compares what JSON decodes to; an effective weight may be off a little, and is left out
// when 0.
func nearlyEqual(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !nearlyEqual(a[i], b[i]) {
				return false
			}
		}
		return true
	case object:
		b, ok := b.(object)
		return ok && nearlyEqualFields(a, b)
	}
	return reflect.DeepEqual(a, b)
}

func nearlyEqualFields(a, b object) bool {
	if a["NextNode"] != nil && b["NextNode"] != nil {
		x, _ := a["Weight"].(float64)
		y, _ := b["Weight"].(float64)
		if math.Abs(x-y) > tolerance {
			return false
		}
	} else if !reflect.DeepEqual(a["Weight"], b["Weight"]) {
		return false
	}
	for _, pair := range [][2]object{{a, b}, {b, a}} {
		for key, value := range pair[0] {
			if key == "Weight" {
				continue
			}
			other, ok := pair[1][key]
			if !ok || !nearlyEqual(value, other) {
				return false
			}
		}
	}
	return true
}

// isDeep reports whether three or more levels of splitters are below a splitter of the chain.
func isDeep(set *chain.EntrySet, compiled any) bool {
	nodes, _ := compiled.(object)["Nodes"].(object)
	for key := range nodes {
		name, ok := strings.CutPrefix(key, chain.NodeSplitter+":")
		if !ok {
			continue
		}
		if service := strings.TrimSuffix(name, ".default.default"); levels(set, service, 3) >= 3 {
			return true
		}
	}
	return false
}

// levels counts the splitters from one down to the deepest below it, up to a limit.
func levels(set *chain.EntrySet, service string, limit int) int {
	s, _ := set.Entry(chain.KindServiceSplitter, service).(*chain.ServiceSplitter)
	if s == nil || limit == 0 {
		return 0
	}
	deepest := 0
	for _, leg := range s.Splits {
		if leg.Service != "" && leg.Service != service && leg.ServiceSubset == "" {
			deepest = max(deepest, levels(set, leg.Service, limit-1))
		}
	}
	return deepest + 1
}
