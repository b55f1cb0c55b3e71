package grpcserver

import "sync/atomic"

// pool counts how many there are of something, up to a maximum.
type pool struct {
	max int64
	// reason is what a refusal counts as, and full what it says, after the number there may be.
	reason, full string
	// moved is told of each that comes or goes, if anyone is.
	moved func(delta int)

	n atomic.Int64
}

// take reports whether one more may be there, which is then given back.
func (p *pool) take() bool {
	if p.n.Add(1) > p.max {
		p.n.Add(-1)
		return false
	}
	if p.moved != nil {
		p.moved(1)
	}
	return true
}

func (p *pool) give() {
	p.n.Add(-1)
	if p.moved != nil {
		p.moved(-1)
	}
}
