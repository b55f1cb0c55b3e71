package identity

// Grant is the admission of one stream. Its methods are safe for concurrent use.
type Grant struct {
	verdicts *Verdicts
	bearer   *bearer // nil where there are no ACLs
	question Question
	revoked  chan struct{}

	refusal *Refusal // set before revoked is closed
	ended   bool     // under the lock of verdicts
}

// Reader is the name under which the stream's rights to read are facts; empty when it may read
// everything.
func (g *Grant) Reader() string {
	if g.bearer == nil {
		return ""
	}
	return g.bearer.reader
}

// Revoked is closed when the right to be served was taken away, or could not be confirmed for too long.
func (g *Grant) Revoked() <-chan struct{} { return g.revoked }

// Err returns why the right was taken away, as a [*Refusal], or nil.
func (g *Grant) Err() error {
	select {
	case <-g.revoked:
		return g.refusal
	default:
		return nil
	}
}

// Release says that the stream is gone. It may be called more than once.
func (g *Grant) Release() {
	v := g.verdicts
	v.mu.Lock()
	defer v.mu.Unlock()
	g.ended = true
	delete(v.open, g)
	if g.bearer != nil {
		delete(g.bearer.grants, g)
	}
}

// revoke takes the right away. The caller holds the lock.
func (g *Grant) revoke(why *Refusal) {
	if g.ended {
		return
	}
	g.ended, g.refusal = true, why
	close(g.revoked)
	delete(g.verdicts.open, g)
	if g.bearer != nil {
		delete(g.bearer.grants, g)
	}
}
