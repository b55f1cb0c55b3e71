package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/catenary-mesh/catenary/internal/admin"
)

// screen prints summaries.
type screen struct {
	out io.Writer
	// live is set when out is a terminal: the summary is then redrawn in its place.
	live   bool
	places places
	admin  *admin.Client
	tally  *tally
	envoy  *envoy // nil when there is none

	helped bool
}

// How often a summary is printed: each second where it is redrawn, else less often, as each adds to
// what is there already.
const (
	redrawEvery = time.Second
	printEvery  = 5 * time.Second
)

// run prints a summary now and then until the context ends.
func (s *screen) run(ctx context.Context) {
	started := time.Now()
	every := printEvery
	if s.live {
		every = redrawEvery
		fmt.Fprint(s.out, clearScreen)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s.print(s.look(ctx, time.Since(started)))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *screen) look(ctx context.Context, up time.Duration) summary {
	now := summary{up: up, places: s.places, counts: s.tally.counts(time.Now()), envoy: "there is no Envoy"}
	if s.envoy != nil {
		now.envoy = s.envoy.trouble()
	}
	ctx, cancel := context.WithTimeout(ctx, redrawEvery)
	defer cancel()
	var err error
	if now.proxies, err = s.admin.Proxies(ctx, ""); err != nil {
		now.trouble = err.Error()
		return now
	}
	if now.problems, err = s.admin.Problems(ctx); err != nil {
		now.trouble = err.Error()
	}
	return now
}

// What a terminal understands.
const (
	clearScreen = "\x1b[2J"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

func (s *screen) print(now summary) {
	text := now.String()
	switch {
	case s.live:
		text = home + strings.ReplaceAll(text, "\n", clearLine+"\n") + clearBelow
	case s.helped:
		text = now.state()
	default:
		text += "\n"
	}
	s.helped = true
	_, _ = io.WriteString(s.out, text) // whoever does not read it does not want it
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
