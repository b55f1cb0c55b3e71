package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/metrics"
)

func TestThousandsOfWatchesAreAFewLines(t *testing.T) {
	m := metrics.New("1.2.3")
	m.Watches(func() []metrics.Watch {
		list := []metrics.Watch{
			{Topic: "entries/mesh", Mode: "streaming", State: "current", Server: "10.0.0.1:8300", Index: 7, Age: -1},
			{Topic: "roots", Mode: "retrying", State: "failing", Age: 3 * time.Second},
		}
		for i := range 5000 {
			list = append(list, metrics.Watch{
				Topic: "health", Mode: "streaming", State: "current", Server: "10.0.0.1:8300",
				Index: uint64(i), Age: time.Duration(i) * time.Second, Needs: 2,
			})
		}
		return list
	})
	got := page(t, m)
	for _, want := range []string{
		`catenary_source_watches{mode="streaming",state="current",topic="entries/mesh"} 1`,
		`catenary_source_watches{mode="streaming",state="current",topic="health"} 5000`,
		`catenary_source_watches{mode="retrying",state="failing",topic="roots"} 1`,
		`catenary_source_watch_age_seconds{mode="streaming",topic="health"} 4999`,
		`catenary_source_watch_age_seconds{mode="retrying",topic="roots"} 3`,
		`catenary_source_watch_index{topic="health"} 4999`,
		`catenary_source_watch_needs{topic="health"} 10000`,
		`catenary_source_server_watches{server="10.0.0.1:8300"} 5001`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(got, `catenary_source_watch_age_seconds{mode="streaming",topic="entries/mesh"}`) {
		t.Error("what was never heard of has an age")
	}
	lines := 0
	for line := range strings.SplitSeq(got, "\n") {
		if strings.HasPrefix(line, "catenary_source_watch") || strings.HasPrefix(line, "catenary_source_server") {
			lines++
		}
	}
	if lines > 13 {
		t.Errorf("%s", fmt.Sprint(lines, " lines:\n", got))
	}
}
