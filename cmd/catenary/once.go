package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

// onceTimeout is how long a source may take to be read once.
const onceTimeout = 10 * time.Second

// reading is the facts of a source that was read once.
type reading struct {
	facts.View
	place
}

// wants says what a verb needs beyond what is always read, and why the facts do not suffice yet; empty
// when they do.
type wants func(reading) (needs []facts.Topic, missing string)

// once reads the source once. Where a verb's wants stay unmet it gets what there is.
func (f *sourceFlags) once(cmd *cobra.Command, want wants) (reading, error) {
	if f.from != "" {
		return f.readFiles(cmd.ErrOrStderr())
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "catenary", Level: hclog.Warn, Output: cmd.ErrOrStderr()})
	// How the following goes is of no interest where there will be no more of it: what is not well in the
	// end is said below.
	f.consulMode = string(consulwatch.FollowPoll) // what is read once needs no events
	src, err := f.openConsul(log, hclog.NewNullLogger(), metrics.New(version))
	if err != nil {
		return reading{}, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), onceTimeout)
	defer cancel()
	if err := src.reach(ctx); err != nil {
		return reading{}, unreachable(err)
	}
	store := facts.New()
	ended := make(chan error, 1)
	go func() { ended <- src.run(ctx, store) }()
	r, err := await(ctx, store, src, want)
	sayProblems(cmd.ErrOrStderr(), src.problems(), err)
	cancel()
	return r, errors.Join(err, <-ended)
}

// sayProblems prints what is not well with a source; beside an error, which is one of the others, only
// what may be hidden.
func sayProblems(talk io.Writer, problems []chain.Problem, err error) {
	for _, p := range problems {
		if err == nil || p.Code == consulwatch.CodeHidden {
			fmt.Fprintf(talk, "catenary: %s\n", p)
		}
	}
}

// await returns when the wants are met, or the context ends.
func await(ctx context.Context, store *facts.Store, src source, want wants) (reading, error) {
	where, err := src.place(ctx)
	if err != nil {
		return reading{}, err
	}
	sub := store.Subscribe()
	defer sub.Close()
	for {
		view, _ := sub.Drain()
		r := reading{view, where}
		ready, why := view.Ready(where.datacenter)
		if ready {
			needs, missing := want(r)
			if missing == "" {
				return r, nil
			}
			store.Need("once", needs...)
		}
		select {
		case <-sub.Bell():
		case <-ctx.Done():
			if ready {
				return r, nil
			}
			return reading{}, unreachable(fmt.Errorf("%s is not read within %s: %s", src.name, onceTimeout, lastReason(store, where, why)))
		}
	}
}

// lastReason is why the facts are not there: a failure that came after the last change wakes nobody.
func lastReason(store *facts.Store, where place, reason string) string {
	if ready, why := store.View().Ready(where.datacenter); !ready {
		return why
	}
	return reason
}

// onlyEntries are the wants of a verb that needs no instances.
func onlyEntries(reading) ([]facts.Topic, string) { return nil, "" }
