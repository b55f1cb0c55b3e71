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
		fmt.Fprintf(b, "  No requests are sent: %s\n\n", s.envoy)
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
	if s.envoy == "" {
		fmt.Fprintf(b, "  Envoy      http://%s/ for api, http://%s/ for stock\n", p.api, p.stock)
		fmt.Fprintf(b, "             http://%s/ for its admin pages\n", p.envoyAdmin)
	}
	fmt.Fprintf(b, "  Catenary   http://%s/api/v1/proxies, xDS at %s\n\n", p.admin, p.grpc)
}

// writeTries prints commands that can be copied as they are. All of a summary fits on a small terminal.
func (s summary) writeTries(b *strings.Builder) {
	p := s.places
	fmt.Fprintf(b, `  Try in a second terminal:  cd %[1]s
   1. give v2 half:        sed -i.old 's/ 90,/ 50,/; s/ 10,/ 50,/' api.hcl
   2. fail stock's check:  sed -i.old 's/passing/critical/' stock-instance.hcl
   3. look at the proxy:   %[2]s proxies --admin-addr %[3]s
  Ctrl-C ends all of it.
`, p.dir, p.program, p.admin)
}
