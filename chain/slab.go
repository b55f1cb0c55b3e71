package chain

// slab hands out zero values that are allocated together. The blocks grow, so that a chain of one node
// takes one, and a chain of hundreds takes a few.
type slab[T any] struct {
	free  []T
	block int
}

const maxBlock = 64

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.block = min(max(1, 2*s.block), maxBlock)
		s.free = make([]T, s.block)
	}
	v := &s.free[0]
	s.free = s.free[1:]
	return v
}

// pointers returns pointers to the elements, which stay where they are.
func pointers[T any](values []T) []*T {
	out := make([]*T, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}
