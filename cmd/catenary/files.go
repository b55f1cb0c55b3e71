package main

import (
	"context"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/filesource"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

// openFiles returns the source that follows --from. That the path can be read is checked at once; what
// is wrong in the files is for the log, and may be put right while the server runs.
func (f *sourceFlags) openFiles(log hclog.Logger, counts *metrics.Metrics) (source, error) {
	where := f.fixed()
	world, err := f.world()
	if err != nil {
		return source{}, err
	}
	set, problems, err := filesource.Load(f.from)
	if err != nil {
		return source{}, err
	}
	src := source{
		name:  "files at " + f.from,
		place: func(context.Context) (place, error) { return where, nil },
	}
	if f.from != filesource.Stdin {
		files := filesource.New(filesource.Config{
			Path: f.from, World: world, Logger: log, Metrics: counts,
		})
		src.run, src.problems = files.Run, files.Problems
		return src, nil
	}
	// What was read from stdin cannot change.
	if filesource.HasErrors(problems) {
		return source{}, finding(fmt.Errorf("stdin: %s", firstError(problems)))
	}
	src.problems = func() []chain.Problem { return problems }
	counts.SourceProblems(len(problems))
	src.run = func(ctx context.Context, store *facts.Store) error {
		filesource.Commit(store, world, set)
		<-ctx.Done()
		return nil
	}
	return src, nil
}

// readFiles reads --from once. What is wrong with the files goes to talk.
func (f *sourceFlags) readFiles(talk io.Writer) (reading, error) {
	world, err := f.world()
	if err != nil {
		return reading{}, err
	}
	set, problems, err := filesource.Load(f.from)
	if err != nil {
		return reading{}, err
	}
	if err := filesource.Nothing(problems); err != nil {
		return reading{}, err
	}
	for _, p := range problems {
		fmt.Fprintf(talk, "catenary: %s\n", p)
	}
	if filesource.HasErrors(problems) {
		return reading{}, found()
	}
	store := facts.New()
	filesource.Commit(store, world, set)
	return reading{store.View(), f.fixed()}, nil
}

// world is what the flags say and files do not.
func (f *sourceFlags) world() (filesource.World, error) {
	switch f.intentions {
	case "", "allow", "deny":
		return filesource.World{Datacenter: f.fixed().datacenter, DenyByDefault: f.intentions == "deny"}, nil
	}
	return filesource.World{}, fmt.Errorf("--default-intention-policy is %q: want allow or deny", f.intentions)
}

func firstError(problems []chain.Problem) string {
	for _, p := range problems {
		if p.IsError() {
			return p.String()
		}
	}
	return ""
}
