package hds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// StatusRange is the HTTP statuses from First to Last, both included.
type StatusRange struct{ First, Last int }

// Envoy refuses ranges outside these, and one without a status ends it.
const (
	minStatus       = 100
	maxStatus       = 599
	maxStatusRanges = 16
)

// ParseStatuses reads statuses such as "200-299,404" and writes them in order and without overlaps, so that
// equal statuses are equal texts.
func ParseStatuses(text string) (string, error) {
	ranges, err := statusRanges(text)
	if err != nil {
		return "", err
	}
	slices.SortFunc(ranges, func(a, b StatusRange) int { return a.First - b.First })
	merged := ranges[:1]
	for _, r := range ranges[1:] {
		last := &merged[len(merged)-1]
		if r.First > last.Last+1 {
			merged = append(merged, r)
			continue
		}
		last.Last = max(last.Last, r.Last)
	}
	parts := make([]string, len(merged))
	for i, r := range merged {
		parts[i] = strconv.Itoa(r.First)
		if r.Last > r.First {
			parts[i] += "-" + strconv.Itoa(r.Last)
		}
	}
	return strings.Join(parts, ","), nil
}

func statusRanges(text string) ([]StatusRange, error) {
	if strings.Count(text, ",") >= maxStatusRanges {
		return nil, fmt.Errorf("there are more than %d ranges of statuses", maxStatusRanges)
	}
	var ranges []StatusRange
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, errFrom := status(first)
		to, errTo := status(last)
		if errFrom != nil || errTo != nil || from > to {
			return nil, fmt.Errorf("%.40q is not a status or a range of them, such as 200-299, between %d and %d", part, minStatus, maxStatus)
		}
		ranges = append(ranges, StatusRange{from, to})
	}
	return ranges, nil
}

func status(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && (n < minStatus || n > maxStatus) {
		err = strconv.ErrRange
	}
	return n, err
}
