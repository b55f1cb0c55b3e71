package xds

import (
	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// reported is what metrics and log were told.
type reported struct {
	counts   snapshot.Counts
	chains   int // there were
	problems map[snapshot.ChainKey]string
}

// report counts and logs what an update did: a problem once, not at every retry.
func (p *publisher) report() {
	was, now := p.reported.counts, p.cache.Counts()
	p.reported.counts = now
	for range now.Plans - was.Plans {
		p.cfg.Metrics.PlanRun()
	}
	for kind, n := range now.Products {
		for range n - was.Products[kind] {
			p.cfg.Metrics.ProductMade(kind)
		}
	}
	// A problem comes with a chain that is compiled, and goes with one or with its last user.
	chains := p.cache.ChainCount()
	if now.Chains != was.Chains || chains != p.reported.chains {
		p.reportProblems()
	}
	p.reported.chains = chains
}

func (p *publisher) reportProblems() {
	now := map[snapshot.ChainKey]string{}
	for key, state := range p.cache.Chains() {
		text := firstError(state.Problems)
		if text == "" {
			continue
		}
		now[key] = text
		if p.reported.problems[key] != text {
			p.cfg.Logger.Warn("a discovery chain does not compile", "service", key.Service,
				"datacenter", key.Datacenter, "last_good_in_force", state.LastGood, "problem", text)
		}
	}
	for key := range p.reported.problems {
		if _, still := now[key]; !still {
			p.cfg.Logger.Info("a discovery chain compiles again, or is not used any more",
				"service", key.Service, "datacenter", key.Datacenter)
		}
	}
	p.reported.problems = now
	p.cfg.Metrics.Problems(len(now))
}

func firstError(problems []chain.Problem) string {
	for i := range problems {
		if problems[i].IsError() {
			return problems[i].Message
		}
	}
	return ""
}
