package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPercentilesAreValuesThatWereMeasured(t *testing.T) {
	ms := func(n ...int) (d []time.Duration) {
		for _, x := range n {
			d = append(d, time.Duration(x)*time.Millisecond)
		}
		return d
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = time.Duration(i+1) * time.Millisecond
	}
	for name, c := range map[string]struct {
		in   []time.Duration
		want Dist
	}{
		"none":    {nil, Dist{}},
		"one":     {ms(7), Dist{N: 1, Min: 7, P50: 7, P99: 7, Max: 7, Mean: 7}},
		"two":     {ms(4, 2), Dist{N: 2, Min: 2, P50: 2, P99: 4, Max: 4, Mean: 3}},
		"three":   {ms(3, 1, 2), Dist{N: 3, Min: 1, P50: 2, P99: 3, Max: 3, Mean: 2}},
		"hundred": {hundred, Dist{N: 100, Min: 1, P50: 50, P99: 99, Max: 100, Mean: 50.5}},
	} {
		if got := NewDist(c.in); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestNamesOfClustersAreThoseOfTheirServices(t *testing.T) {
	for name, want := range map[string]string{
		"svc-1": "svc-1",
		"svc-1.default.dc1.internal.11111111-2222.consul":        "svc-1",
		"7f1e2a~svc-1.default.dc1.internal.11111111-2222.consul": "svc-1",
		"": "",
	} {
		if got := serviceOf(name); got != want {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
		for _, service := range []string{"svc-1", "svc", "svc-10"} {
			if got := isOf([]byte(name), []byte(service)); got != (service == want) {
				t.Errorf("that %s is of %s: %v", name, service, got)
			}
		}
	}
}

func TestDifferencesNameTheStreamAndTheEndpoint(t *testing.T) {
	a := map[string][]string{"same": {"x"}, "other": {"x", "y"}, "alone": {"z"}, "twice": {"x", "x"}}
	b := map[string][]string{"same": {"x"}, "other": {"x"}, "twice": {"x"}, "empty": {}}
	got := strings.Join(Differences(a, b, 10), "\n")
	want := strings.Join([]string{
		"alone: 1 and 0 endpoints: only the first has z",
		"other: 2 and 1 endpoints: only the first has y",
		"twice: 2 and 1 endpoints: one has some twice",
	}, "\n")
	if got != want {
		t.Errorf("the differences are\n%s\nwant\n%s", got, want)
	}
	if d := Differences(a, b, 1); len(d) != 1 {
		t.Errorf("of at most one there are %v", d)
	}
	if d := Differences(b, map[string][]string{"same": {"x"}, "other": {"x"}, "twice": {"y"}, "empty": nil}, 9); !slices.Equal(d, []string{
		"twice: 1 and 1 endpoints: only the first has x",
	}) {
		t.Errorf("%q", d)
	}
}

func TestUsageIsReadPastTheNameOfTheProgram(t *testing.T) {
	stat := "42 (a) b (c) S 1 42 42 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 9 0 100 999 25 18446744073709551615 0 0"
	got, err := parseStat([]byte(stat))
	if err != nil || got.cpu != 2*time.Second || got.rss < 25*4 {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "no parenthesis at all", strings.Replace(stat, "150", "x", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestAStreamThatMissesAFlipIsCounted(t *testing.T) {
	awaited := []*stream{{index: 0}, {index: 1}, {index: 2}}
	f := newFlip(Endpoint{Service: "a", Address: "h", Port: 1}, true, 4, awaited)
	f.seen[0].Store(int64(3 * time.Millisecond))
	f.seen[2].Store(int64(5 * time.Millisecond))
	var times flipTimes
	times.add(f, awaited)
	r := times.result(1)
	if r.Missed != 1 || r.Any.N != 2 || r.First.Max != 3 || r.Last.Max != 5 {
		t.Errorf("%+v", r)
	}
	if !(&Result{Flips: r}).Failed() {
		t.Error("that is no failure")
	}
}

func TestOnlyAwaitedStreamsEndAFlip(t *testing.T) {
	f := newFlip(Endpoint{Service: "a", Address: "h", Port: 1}, false, 3, []*stream{{index: 1}})
	f.begin = time.Now()
	f.see(0, []byte("a.dc1"), nil)
	f.see(1, []byte("b.dc1"), nil)
	select {
	case <-f.done:
		t.Fatal("another stream, or another service, ended it")
	default:
	}
	f.see(1, []byte("a.dc1"), nil)
	<-f.done
}
