// Command bench measures Consul's own xDS server and catenary side by side: it starts a Consul for each
// run, fills its catalog, starts catenary against it where that is what is measured, lets the load
// generator imitate a fleet of sidecars, holds what both servers give each of them against each other, and
// writes the result into a document. Everything that it starts ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// config is what the command line says.
type config struct {
	// The programs that take part.
	consul, catenary, generator string
	// doc is the file to write.
	doc string

	scenarios []scenario
	servers   []server
	rounds    int
	run       runConfig
	progress  io.Writer
}

// runConfig is the same for every run.
type runConfig struct {
	flips, warmup, apps int
	settle, gap         time.Duration
	reconnects          int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // the flags have said why
	}
	if err := bench(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (config, error) {
	c := config{progress: os.Stderr, scenarios: scenarios()[:1], servers: servers()[:usualServers]}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&c.consul, "consul", ".tools/consul", "Consul's program")
	flags.StringVar(&c.catenary, "catenary", "bin/catenary", "catenary's program")
	flags.StringVar(&c.generator, "generator", "bin/xdsload", "the load generator's program")
	flags.StringVar(&c.doc, "doc", "docs/benchmarks.md", "the document to write the result into")
	flags.Func("scenario", "what to measure, with commas, or all: "+names(scenarios())+"; or another size, which is printed alone", func(s string) (err error) {
		c.scenarios, err = chooseScenarios(s)
		return err
	})
	flags.Func("servers", "whom to measure, with commas: "+names(servers())+"; all is without tls", func(s string) (err error) {
		c.servers, err = chooseServers(s)
		return err
	})
	flags.IntVar(&c.rounds, "rounds", 5, "rounds, in each of which every server is measured")
	flags.IntVar(&c.run.flips, "flips", 40, "flips to measure in each round")
	flags.IntVar(&c.run.warmup, "warmup", 5, "flips before those")
	flags.IntVar(&c.run.apps, "apps", 20, "services that the sidecars belong to; 0 is one for each")
	flags.DurationVar(&c.run.settle, "settle", 4*time.Second, "quiet before the flips")
	flags.DurationVar(&c.run.gap, "gap", 500*time.Millisecond, "pause after each flip")
	flags.IntVar(&c.run.reconnects, "reconnects", 1, "mass reconnects in each run")
	return c, flags.Parse(args)
}

// bench measures all scenarios and writes the document after each.
func bench(ctx context.Context, c config) error {
	dir, err := os.MkdirTemp("", "catenary-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	about, err := describe(ctx, c)
	if err != nil {
		return err
	}
	for _, s := range c.scenarios {
		report := report{scenario: s, servers: c.servers, run: c.run, about: about, begin: time.Now()}
		for n := range c.rounds {
			r, err := c.round(ctx, dir, s, n)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", s.name, n+1, err)
			}
			report.rounds = append(report.rounds, r)
		}
		if err := c.write(report); err != nil {
			return err
		}
	}
	return nil
}

// write puts a report where it belongs. One without a round that counts is an error as well.
func (c config) write(r report) error {
	if r.scenario.other {
		fmt.Fprint(c.progress, "\n", r.section())
	} else {
		if err := update(c.doc, r); err != nil {
			return err
		}
		fmt.Fprintf(c.progress, "%s: written to %s\n", r.scenario.name, c.doc)
	}
	if len(r.valid()) == 0 {
		return fmt.Errorf("%s: no round counts", r.scenario.name)
	}
	return nil
}

// named is a row of a table that the command line chooses from.
type named interface{ key() string }

func names[T named](rows []T) string {
	var keys []string
	for _, r := range rows {
		keys = append(keys, r.key())
	}
	return strings.Join(keys, ", ")
}

// choose returns the rows that a list with commas names, in the order of the table.
func choose[T named](rows []T, list string) (chosen []T, err error) {
	if list == "all" {
		return rows, nil
	}
	wanted := map[string]bool{}
	for key := range strings.SplitSeq(list, ",") {
		wanted[strings.TrimSpace(key)] = true
	}
	for _, r := range rows {
		if wanted[r.key()] {
			chosen = append(chosen, r)
			delete(wanted, r.key())
		}
	}
	for key := range wanted {
		return nil, fmt.Errorf("%q is none of %s", key, names(rows))
	}
	return chosen, nil
}
