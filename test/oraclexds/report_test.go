package oraclexds_test

import (
	"fmt"
	"slices"
	"strings"
)

// shownCases and shownValue bound what a report shows of one difference.
const (
	shownCases = 6
	shownValue = 1500
)

// report describes differences, those that are alike in several cases as one.
func report(found []difference) string {
	groups := map[string][]string{}
	var order []string
	for _, d := range found {
		text := fmt.Sprintf("%s\n  Consul   %s\n  Catenary %s\n", d.where(), shorten(d.theirs), shorten(d.ours))
		if groups[text] == nil {
			order = append(order, text)
		}
		groups[text] = append(groups[text], d.kase)
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(groups[b]) - len(groups[a]) })
	var out strings.Builder
	for _, text := range order {
		cases := groups[text]
		more := ""
		if n := len(cases) - shownCases; n > 0 {
			cases, more = cases[:shownCases], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(&out, "%s  in %s%s\n", text, strings.Join(cases, ", "), more)
	}
	return out.String()
}

func shorten(text string) string {
	if len(text) <= shownValue {
		return text
	}
	return text[:shownValue] + " ..."
}
