package session_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// source is a string of choices; when it ends all are 0.
type source struct{ data []byte }

func (s *source) next(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := int(s.data[0])
	s.data = s.data[1:]
	return b % n
}

// TestRandomStreams runs the model over many seeds.
func TestRandomStreams(t *testing.T) {
	const seeds = 1500
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		data := make([]byte, 50+rng.IntN(1500))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { newModel(t, data).run() })
		if !ok {
			return
		}
	}
}
