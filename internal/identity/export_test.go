package identity

// Known is how many tokens are remembered, beside the anonymous one.
func (v *Verdicts) Known() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := len(v.bearers)
	if v.bearers[Token{}.digest()] != nil {
		n--
	}
	return n
}

// VerdictsOf is how many verdicts are remembered of a token.
func VerdictsOf(v *Verdicts, secret string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.bearer(NewToken(secret)).verdicts)
}
