package demo

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/catenary-mesh/catenary/internal/admin"
)

// summary is what the demo knows of itself at one moment.
type summary struct {
	up       time.Duration
	counts   []count
	proxies  []admin.Proxy
	problems []admin.Problem
	// trouble says why the control plane does not answer; empty when it does.
	trouble string
	// envoy says why Envoy does not run; empty while it does.
	envoy  string
	places places
}

// String is the whole summary.
func (s summary) String() string {
	return s.state() + s.help()
}

// state is the part of the summary that changes.
func (s summary) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Catenary demo: web calls api and stock through Envoy. Up %s.\n\n", s.up.Truncate(time.Second))
	s.writeCounts(&b)
	s.writeProxies(&b)
	for _, p := range s.problems {
		fmt.Fprintf(&b, "  Problem: %s\n", p)
	}
	return b.String()
}

// help is the part of the summary that stays.
func (s summary) help() string {
	var b strings.Builder
	s.writePlaces(&b)
	s.writeTries(&b)
	return b.String()
}

func (s summary) writeCounts(b *strings.Builder) {
	if s.envoy != "" {
		fmt.Fprintf(b, "  No requests are sent: %s.\n\n", s.envoy)
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  UPSTREAM\tANSWERED BY\tLAST 10 S\tIN ALL")
	for _, c := range s.counts {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", c.upstream, c.who, share(c.recent, c.recentAll), share(c.total, c.all))
	}
	if len(s.counts) == 0 {
		fmt.Fprintln(table, "  (no answers yet)")
	}
	_ = table.Flush() // a Builder takes everything
	b.WriteByte('\n')
}

func share(n, of int) string {
	if of == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(of))
}

func (s summary) writeProxies(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  PROXY\tSTATE\tPROTOCOL")
	for _, p := range s.proxies {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", p.ID, strings.TrimSpace(p.State+" "+p.Reason), p.Protocol)
	}
	switch {
	case s.trouble != "":
		fmt.Fprintf(table, "  (%s)\n", s.trouble)
	case len(s.proxies) == 0:
		fmt.Fprintln(table, "  (none is connected)")
	}
	_ = table.Flush() // as above
	b.WriteByte('\n')
}

func (s summary) writePlaces(b *strings.Builder) {
	p := s.places
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if s.envoy == "" {
		fmt.Fprintf(table, "  Envoy, for api\thttp://%s/\n", p.api)
		fmt.Fprintf(table, "  Envoy, for stock\thttp://%s/\n", p.stock)
		fmt.Fprintf(table, "  Envoy's admin\thttp://%s/\n", p.envoyAdmin)
	}
	fmt.Fprintf(table, "  Catenary's admin\thttp://%s/api/v1/proxies\n", p.admin)
	fmt.Fprintf(table, "  Catenary's xDS\t%s\n", p.grpc)
	fmt.Fprintf(table, "  The shop's files\t%s\n", p.dir)
	_ = table.Flush() // as above
	b.WriteByte('\n')
}

// writeTries prints commands that can be copied as they are.
func (s summary) writeTries(b *strings.Builder) {
	p := s.places
	fmt.Fprintf(b, `  Try in a second terminal:
   1. give version 2 half of the requests, and watch:
        sed -i.old 's/Weight = 90/Weight = 50/; s/Weight = 10/Weight = 50/' %[1]s/api.hcl
   2. let the only instance of stock fail its check, and stock-backup takes over:
        sed -i.old 's/"passing"/"critical"/' %[1]s/stock-instance.hcl
   3. see what Catenary thinks:
        %[2]s proxies --admin-addr %[3]s
        %[2]s dump api --from %[1]s

  Ctrl-C ends all of it.
`, p.dir, p.program, p.admin)
}
