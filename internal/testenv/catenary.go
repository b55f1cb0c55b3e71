package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// buildOnce builds the program once per test binary.
var buildOnce = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := depend(root); err != nil {
		return "", fmt.Errorf("testenv: the sources of catenary: %w", err)
	}
	program := filepath.Join(root, ".tools", "catenary"+strings.ReplaceAll(raceFlag, "=", ""))
	// Test binaries that start together find it built by the first, and do not all link it.
	lock, err := os.OpenFile(program+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("testenv: build catenary: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("testenv: build catenary: lock %s: %w", lock.Name(), err)
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", raceFlag, "-o", program, "./cmd/catenary")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("testenv: build catenary: %w\n%s", err, out)
	}
	return program, nil
})

// depend reads the directories of the program's packages, by which the go command knows that a result depends on
// them: it keeps results of tests, and does not see what another process compiles.
func depend(root string) error {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.Dir}}", "./cmd/catenary")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for dir := range strings.Lines(string(out)) {
		if dir = strings.TrimSpace(dir); strings.HasPrefix(dir, root+string(filepath.Separator)) {
			if _, err := os.ReadDir(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// Race reports whether the tests, and with them the program, are built with the race detector: then both take
// several times as long.
func Race() bool { return raceFlag == "-race=true" }

// Program returns the path of the catenary binary, built from the tree under test.
func Program(t testing.TB) string {
	t.Helper()
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Result is how a run of the command line ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs a verb of catenary to its end, in an environment without Consul's variables but for those
// given.
func Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	cmd := exec.Command(Program(t), args...)
	cmd.Env = append(cleanEnv(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("testenv: catenary %v: %v", args, err)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// cleanEnv is the environment without what points at a Consul.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "CONSUL_") {
			env = append(env, kv)
		}
	}
	// A program with the race detector otherwise waits a second before it ends.
	return append(env, "GORACE=atexit_sleep_ms=0")
}

// Catenary is a running `catenary serve`.
type Catenary struct {
	// GRPCAddr and AdminAddr are host:port.
	GRPCAddr, AdminAddr string

	t    testing.TB
	log  string
	env  []string
	args []string

	mu      sync.Mutex
	process *process
}

// StartCatenary starts `catenary serve` on free ports and returns when its admin API answers, which is
// before it is ready. It ends with the test, whose failure shows its log.
func StartCatenary(t testing.TB, env []string, args ...string) *Catenary {
	t.Helper()
	c := &Catenary{
		GRPCAddr:  fmt.Sprintf("127.0.0.1:%d", FreePort(t)),
		AdminAddr: fmt.Sprintf("127.0.0.1:%d", FreePort(t)),
		t:         t, log: filepath.Join(t.TempDir(), "catenary.log"),
		env: append(cleanEnv(), env...),
	}
	c.args = append([]string{"serve", "--grpc-addr", c.GRPCAddr, "--admin-addr", c.AdminAddr}, args...)
	t.Cleanup(func() {
		c.Stop()
		showLog(t, "catenary", c.log)
	})
	c.Restart()
	return c
}

// Restart starts catenary on the same ports after [Catenary.Stop], or stops and starts it.
func (c *Catenary) Restart() {
	c.t.Helper()
	c.Stop()
	cmd := exec.Command(Program(c.t), c.args...)
	cmd.Env = c.env
	p, err := start("catenary", c.log, cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.process = p
	c.mu.Unlock()
	err = p.await(func() error {
		_, _, err := Get("http://"+c.AdminAddr+"/healthz", nil)
		return err
	})
	if err == nil {
		err = p.alive()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Hangup sends catenary the signal to read its token and certificates again.
func (c *Catenary) Hangup() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.process.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		c.t.Fatal(err)
	}
}

// Stop asks catenary to end, and returns when it is gone.
func (c *Catenary) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.stop(false)
		c.process = nil
	}
}

// Log returns what catenary has logged so far.
func (c *Catenary) Log() string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

// Ready returns an error that says why catenary is not ready, or nil.
func (c *Catenary) Ready() error {
	code, body, err := Get("http://"+c.AdminAddr+"/readyz", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("not ready: %d %s", code, strings.TrimSpace(body))
	}
	return err
}

// API gets a path of the admin API and decodes its JSON.
func (c *Catenary) API(path string, into any) error {
	resp, err := http.Get("http://" + c.AdminAddr + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, resp.Status, raw)
	}
	return json.Unmarshal(raw, into)
}

// Metrics returns the value of every sample of /metrics, by name with labels as Prometheus prints it.
func (c *Catenary) Metrics() map[string]float64 {
	c.t.Helper()
	_, body, err := Get("http://"+c.AdminAddr+"/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	samples := map[string]float64{}
	for line := range strings.SplitSeq(body, "\n") {
		name, value, ok := cutLast(line, " ")
		var f float64
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(value, &f); err == nil {
			samples[name] = f
		}
	}
	return samples
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
