package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout bounds how long a child may take until it serves.
	startTimeout = 30 * time.Second
	// stopTimeout is what a child gets between being asked to end and being killed.
	stopTimeout = 5 * time.Second
	// shownLog is how much of a child's log a failed test shows.
	shownLog = 8 << 10
)

// process is a child whose output goes to a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a command; its output is appended to the file. The caller stops it.
func start(name, log string, cmd *exec.Cmd) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("testenv: %s: no log file: %w", name, err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = diesWithParent()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("testenv: %s does not start: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// stop ends the process, at once when kill is set, and waits for its end. It may be called again.
func (p *process) stop(kill bool) {
	if !kill {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(stopTimeout)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// await polls until ready, and returns early when the process has ended.
func (p *process) await(ready func() error) error {
	return poll(startTimeout, func() error {
		select {
		case <-p.done:
			return nil // the check below says so
		default:
			return ready()
		}
	})
}

// alive returns an error that says so when the process has ended.
func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("testenv: %s has ended: %v", p.name, p.cmd.ProcessState)
	default:
		return nil
	}
}

// showLog logs the end of a log file when the test has failed.
func showLog(t testing.TB, name, log string) {
	if !t.Failed() {
		return
	}
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Logf("%s: its log is not readable: %v", name, err)
		return
	}
	if len(raw) > shownLog {
		raw = raw[len(raw)-shownLog:]
	}
	t.Logf("the end of the log of %s:\n%s", name, raw)
}

// Root returns the root directory of the repository.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("testenv: the source of the tests is not known")
	}
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("testenv: no go.mod above %s", file)
		}
	}
}

// tool returns the first of the paths in .tools that exists, and fails the test if none does.
func tool(t testing.TB, paths ...string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		full := filepath.Join(root, ".tools", p)
		if _, err := os.Stat(full); err == nil {
			return full
		}
	}
	t.Fatalf("testenv: neither of .tools/{%s} is there: run `make tools` in %s first", strings.Join(paths, ","), root)
	return ""
}
