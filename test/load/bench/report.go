package main

import (
	"fmt"
	"strings"
	"time"
)

// report is what was measured of a scenario.
type report struct {
	scenario scenario
	servers  []server
	run      runConfig
	about    about
	begin    time.Time
	rounds   []round
}

// valid are the rounds that count.
func (r report) valid() (rounds []round) {
	for _, x := range r.rounds {
		if x.void == "" {
			rounds = append(rounds, x)
		}
	}
	return rounds
}

// section is the report as a part of the document.
func (r report) section() string {
	var b strings.Builder
	size := r.scenario.size
	fmt.Fprintf(&b, "## %d streams, %d upstreams each\n\n", size.Sidecars, size.Upstreams)
	fmt.Fprintf(&b, "%s\n%d services of %d instances; %d sidecars of %d services. %d of %d rounds count, of %d flips each after %d to warm up.\n",
		r.about.text(r.begin), size.Services, size.Instances, size.Sidecars, r.apps(), len(r.valid()), len(r.rounds), r.run.flips, r.run.warmup)
	fmt.Fprintf(&b, "Load average (1, 5, 15 min) at the begin of each round: %s.\n\n", r.loads())
	for i, x := range r.rounds {
		if x.void != "" {
			fmt.Fprintf(&b, "Round %d is **void**: %s.\n\n", i+1, x.void)
		}
	}
	if len(r.valid()) == 0 {
		b.WriteString("No round counts, so there are no figures.\n")
		return b.String()
	}
	r.table(&b)
	r.wins(&b)
	return b.String()
}

func (r report) apps() int {
	if r.run.apps == 0 {
		return r.scenario.size.Sidecars
	}
	return min(r.run.apps, r.scenario.size.Sidecars)
}

func (r report) loads() string {
	var list []string
	for _, x := range r.rounds {
		list = append(list, x.load)
	}
	return strings.Join(list, "; ")
}

// others are the servers that catenary is compared with, and ours is catenary, if it was measured: the
// first of its columns.
func (r report) others() (others []server, ours *server) {
	for _, s := range r.servers {
		switch {
		case !s.catenary:
			others = append(others, s)
		case ours == nil:
			ours = &s
		}
	}
	return others, ours
}

func (r report) table(b *strings.Builder) {
	others, ours := r.others()
	b.WriteString("| figure |")
	for _, s := range r.servers {
		fmt.Fprintf(b, " %s |", s.title)
	}
	compared := ours != nil && len(others) > 0
	if compared {
		fmt.Fprintf(b, " ÷ %s |", ours.title)
	}
	columns := 1 + len(r.servers)
	if compared {
		columns++
	}
	b.WriteString("\n|" + strings.Repeat("---|", columns) + "\n")
	for _, f := range figures() {
		fmt.Fprintf(b, "| %s |", withUnit(f))
		for _, s := range r.servers {
			fmt.Fprintf(b, " %s |", f.spread(r.valid(), s).cell())
		}
		if compared {
			fmt.Fprintf(b, " %s |", r.ratios(f, others, *ours))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func withUnit(f figure) string {
	if f.unit == "" {
		return f.name
	}
	return f.name + ", " + f.unit
}

func (r report) ratios(f figure, others []server, ours server) string {
	if f.context {
		return ""
	}
	var list []string
	for _, s := range others {
		list = append(list, times(f.spread(r.valid(), s), f.spread(r.valid(), ours)))
	}
	return strings.Join(list, "; ")
}

// wins says where Consul is better.
func (r report) wins(b *strings.Builder) {
	others, ours := r.others()
	if ours == nil || len(others) == 0 {
		return
	}
	b.WriteString("**Where Consul wins here.** ")
	var won []string
	for _, f := range figures() {
		own := f.spread(r.valid(), *ours)
		text, better := withUnit(f), false
		for _, s := range others {
			theirs := f.spread(r.valid(), s)
			better = better || theirs.p50 < own.p50 && number(theirs.p50) != number(own.p50)
			text += fmt.Sprintf("; %s %s", s.title, number(theirs.p50))
		}
		if better && !f.context {
			won = append(won, fmt.Sprintf("- %s; %s %s\n", text, ours.title, number(own.p50)))
		}
	}
	if len(won) == 0 {
		b.WriteString("In no figure of this table; see above for what the table does not show.\n")
		return
	}
	b.WriteString("In these figures:\n\n" + strings.Join(won, ""))
}
