package fleet

import (
	"math"
	"slices"
	"time"
)

// Dist describes durations, in milliseconds.
type Dist struct {
	N    int     `json:"n"`
	Min  float64 `json:"min_ms"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
	Mean float64 `json:"mean_ms"`
}

// NewDist describes durations, which it sorts. Of none it is the zero value.
func NewDist(d []time.Duration) Dist {
	if len(d) == 0 {
		return Dist{}
	}
	slices.Sort(d)
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	n := len(d)
	return Dist{
		N: n, Min: millis(d[0]), P50: millis(percentile(d, 50)), P99: millis(percentile(d, 99)),
		Max: millis(d[n-1]), Mean: millis(sum / time.Duration(n)),
	}
}

// percentile is the least of the sorted durations that p percent are not above.
func percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
