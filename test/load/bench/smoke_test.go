package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/test/load/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a run with real programs that takes seconds.
func small(t *testing.T) (config, *bytes.Buffer) {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	generator := filepath.Join(t.TempDir(), "xdsload")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", generator, "./test/load/xdsload")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the generator: %v\n%s", err, out)
	}
	var progress bytes.Buffer
	return config{
		consul: filepath.Join(root, ".tools", "consul"), catenary: testenv.Program(t), generator: generator,
		doc: filepath.Join(t.TempDir(), "benchmarks.md"), rounds: 1, progress: &progress,
		scenarios: []scenario{{name: "300x10", size: catalog.Config{Services: 6, Instances: 3, Sidecars: 10, Upstreams: 4}}},
		servers:   []server{servers()[0], servers()[2]}, // Consul and catenary
		run:       runConfig{flips: 2, apps: 5, settle: 100 * time.Millisecond, gap: 10 * time.Millisecond, reconnects: 1},
	}, &progress
}

func TestARoundOfRealProgramsBecomesADocument(t *testing.T) {
	c, progress := small(t)
	if err := bench(t.Context(), c); err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	raw, err := os.ReadFile(c.doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## 10 streams, 4 upstreams each", "6 services of 3 instances; 10 sidecars of 5 services. 1 of 1 rounds count, of 2 flips each",
		"Consul v1.22.5", "| Consul | catenary | ÷ catenary |", "| messages per flip and stream | 1.00 | 1.00 | 1.00× |",
		"**Where Consul wins here.**",
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the document lacks %q:\n%s", want, raw)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "catenary-bench-*")); err != nil || len(left) > 0 {
		t.Logf("left behind, by this or another run: %v %v", left, err)
	}
}

func TestABenchThatIsEndedLeavesNothingRunning(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := small(t)
	ended := make(chan error, 1)
	c.generator = filepath.Join(t.TempDir(), "generator")
	started := filepath.Join(t.TempDir(), "started")
	script := "#!/bin/sh\necho \"$@\" >" + started + ".new && mv " + started + ".new " + started + "\nexec sleep 600\n"
	if err := os.WriteFile(c.generator, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- bench(ctx, c) }()
	var args []byte
	testenv.Eventually(t, time.Minute, func() (err error) {
		args, err = os.ReadFile(started)
		return err
	})
	cancel()
	if err := <-ended; err == nil {
		t.Error("it does not say that it was ended")
	}
	for _, arg := range strings.Fields(string(args)) {
		name, pid, ok := strings.Cut(arg, "=")
		if !ok || name != "consul" {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", arg, err)
		}
	}
}
