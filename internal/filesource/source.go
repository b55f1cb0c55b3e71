// Package filesource follows a directory of files in Consul's own formats: config entries and service
// definitions in HCL 1, JSON or YAML. What a file says is true and all there is; a change replaces
// everything at once; a file that cannot be read keeps what was last good.
package filesource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

const (
	// settle is how long changes gather: an editor writes a file in several steps.
	settle = 50 * time.Millisecond
	// patience is how long they gather at most: where something always changes, nothing ever settles.
	patience = time.Second
	// recheck is how often the path is read again all the same: some file systems do not notify.
	recheck = 30 * time.Second
)

// Metrics counts what the source does. Its methods are called by one goroutine.
type Metrics interface {
	// SourceProblems is how many problems the files have now.
	SourceProblems(n int)
	// SourceFailed is called when the path cannot be read.
	SourceFailed(source string)
}

// Config is what a source needs. All fields are required.
type Config struct {
	// Path is a file or a directory.
	Path    string
	World   World
	Logger  hclog.Logger
	Metrics Metrics
}

// Source is a path that is followed.
type Source struct {
	cfg Config

	mu       sync.Mutex // guards problems
	problems []chain.Problem

	// of the goroutine in Run
	trouble string
}

// New returns a source that follows its path once Run runs.
func New(cfg Config) *Source { return &Source{cfg: cfg} }

// Problems returns what is wrong with the files now. While one is an error, the last good files are
// served.
func (s *Source) Problems() []chain.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Run commits the path to the store, and again whenever it changes, until ctx ends.
func (s *Source) Run(ctx context.Context, store *facts.Store) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", s.cfg.Path, err)
	}
	defer watcher.Close()
	for {
		// The watch is set before the path is read: what changes after that rings.
		p := placesOf(s.cfg.Path)
		s.watch(watcher, p)
		s.load(store)
		if !s.changed(ctx, watcher, p) {
			return nil
		}
	}
}

// watch follows the directories, and no other ones.
func (s *Source) watch(w *fsnotify.Watcher, p places) {
	for _, dir := range w.WatchList() {
		if _, ok := p[dir]; !ok {
			_ = w.Remove(dir) // it may be gone already
		}
	}
	for dir := range p {
		if err := w.Add(dir); err != nil {
			s.cfg.Logger.Debug("a directory cannot be watched; it is read every "+recheck.String(), "path", dir, "error", err)
		}
	}
}

// changed waits until something may have changed; false when ctx has ended.
func (s *Source) changed(ctx context.Context, w *fsnotify.Watcher, p places) bool {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	var latest <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-latest:
			return true
		case e, open := <-w.Events:
			if !open {
				return false
			}
			if !p.concern(e.Name) {
				continue
			}
			timer.Reset(settle)
			if latest == nil {
				latest = time.After(patience)
			}
		case err := <-w.Errors:
			s.cfg.Logger.Warn("watching the files failed for a moment; they are read again", "path", s.cfg.Path, "error", err)
			timer.Reset(settle)
		}
	}
}

// load reads the path and commits it, unless something is wrong with it.
func (s *Source) load(store *facts.Store) {
	set, problems, err := Load(s.cfg.Path)
	if err != nil {
		s.cfg.Metrics.SourceFailed("files")
		problems = []chain.Problem{{Code: CodeUnreadable, Severity: chain.SeverityError, Origin: s.cfg.Path, Message: err.Error()}}
	}
	s.say(problems)
	s.mu.Lock()
	s.problems = problems
	s.mu.Unlock()
	s.cfg.Metrics.SourceProblems(len(problems))
	if HasErrors(problems) {
		if reason := first(problems); reason != "" {
			s.fail(store, reason)
		}
		return
	}
	Commit(store, s.cfg.World, set)
}

// fail tells why nothing is known, where nothing is.
func (s *Source) fail(store *facts.Store, reason string) {
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Fail(facts.Entries(kind), reason)
		}
		tx.Fail(facts.Services(s.cfg.World.Datacenter), reason)
	})
}

func first(problems []chain.Problem) string {
	for _, p := range problems {
		if p.IsError() {
			return p.String()
		}
	}
	return ""
}

// say logs a set of problems once, not at every reading.
func (s *Source) say(problems []chain.Problem) {
	now := fmt.Sprint(problems)
	if now == s.trouble || len(problems) == 0 && s.trouble == "" {
		return
	}
	s.trouble = now
	if len(problems) == 0 {
		s.trouble = ""
		s.cfg.Logger.Info("the files are good again", "path", s.cfg.Path)
	}
	for _, p := range problems {
		if p.IsError() {
			s.cfg.Logger.Error("the files cannot be used; the last good ones stay in force", "problem", p.String())
		} else {
			s.cfg.Logger.Warn("something in the files is worth a look", "problem", p.String())
		}
	}
}
