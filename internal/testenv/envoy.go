package testenv

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// EnvoyOption changes how [StartEnvoy] starts Envoy.
type EnvoyOption func(*Envoy)

// WithEnvoyArgs adds arguments to Envoy's command line.
func WithEnvoyArgs(args ...string) EnvoyOption {
	return func(e *Envoy) { e.extra = append(e.extra, args...) }
}

// EnvoyVersion is one of the Envoys that `make tools` brings.
type EnvoyVersion string

// The ends of the range of Envoys that are supported.
const (
	NewestEnvoy EnvoyVersion = "envoy"
	OldestEnvoy EnvoyVersion = "envoy-oldest"
)

// WithDefaultDrain leaves the time of draining as Envoy has it: 10 minutes, and not the second of other tests.
func WithDefaultDrain() EnvoyOption {
	return func(e *Envoy) { e.drain = nil }
}

// WithWorkers has Envoy serve by several threads, and not by one.
func WithWorkers(n int) EnvoyOption {
	return func(e *Envoy) { e.workers = n }
}

// WithEnvoyVersion starts another Envoy than [NewestEnvoy].
func WithEnvoyVersion(v EnvoyVersion) EnvoyOption {
	return func(e *Envoy) { e.version = v }
}

// Envoy is a running Envoy.
type Envoy struct {
	t       testing.TB
	dir     string
	version EnvoyVersion
	drain   []string
	workers int
	extra   []string

	mu      sync.Mutex
	process *process
	admin   string
}

// StartEnvoy starts Envoy with a bootstrap in JSON or YAML, which must have an admin address; its
// port may be 0. It returns when the admin API answers, which is before Envoy has its listeners: see
// [Envoy.WaitReady]. Envoy ends with the test, whose failure shows its log.
func StartEnvoy(t testing.TB, bootstrap []byte, opts ...EnvoyOption) *Envoy {
	t.Helper()
	e := &Envoy{t: t, dir: t.TempDir(), version: NewestEnvoy, drain: []string{"--drain-time-s", "1"}, workers: 1}
	for _, o := range opts {
		o(e)
	}
	if err := os.WriteFile(e.file("bootstrap.yaml"), bootstrap, 0o600); err != nil {
		t.Fatalf("testenv: envoy: %v", err)
	}
	t.Cleanup(func() {
		e.halt(true)
		showLog(t, "envoy", e.file("envoy.log"))
	})
	e.Restart()
	return e
}

// Restart starts Envoy after [Envoy.Stop], or stops and starts it.
func (e *Envoy) Restart() {
	e.t.Helper()
	e.halt(false)
	admin := e.file("admin-address")
	_ = os.Remove(admin)
	args := append([]string{
		"-c", e.file("bootstrap.yaml"), "--use-dynamic-base-id", "--disable-hot-restart", "--concurrency", strconv.Itoa(e.workers), "-l", "warning",
		"--admin-address-path", admin,
	}, append(e.drain, e.extra...)...)
	p, err := start("envoy", e.file("envoy.log"), exec.Command(tool(e.t, string(e.version)), args...))
	if err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	e.process = p
	e.mu.Unlock()
	err = p.await(func() error {
		raw, err := os.ReadFile(admin)
		if err == nil && len(raw) == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("testenv: envoy has not written its admin address: %w", err)
		}
		e.mu.Lock()
		e.admin = string(raw)
		e.mu.Unlock()
		_, err = e.Admin("/server_info")
		return err
	})
	if err == nil {
		err = p.alive()
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// Stop ends Envoy and returns when it is gone.
func (e *Envoy) Stop() { e.halt(false) }

// Kill ends Envoy without asking it, as a machine that fails would.
func (e *Envoy) Kill() { e.halt(true) }

// Pause stops Envoy's process where it is, and Resume has it go on: its connections stay.
func (e *Envoy) Pause() { e.signal(syscall.SIGSTOP) }

// Resume ends [Envoy.Pause].
func (e *Envoy) Resume() { e.signal(syscall.SIGCONT) }

func (e *Envoy) signal(s os.Signal) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.process.cmd.Process.Signal(s); err != nil {
		e.t.Fatal(err)
	}
}

func (e *Envoy) halt(kill bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process != nil {
		e.process.stop(kill)
		e.process = nil
	}
}

func (e *Envoy) file(name string) string { return filepath.Join(e.dir, name) }

// AdminAddr returns host:port of the admin API.
func (e *Envoy) AdminAddr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.admin
}

// Admin gets a path of the admin API.
func (e *Envoy) Admin(path string) (string, error) {
	status, body, err := Get("http://"+e.AdminAddr()+path, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("testenv: envoy %s: status %d: %s", path, status, strings.TrimSpace(body))
	}
	return body, err
}

// must is Admin for what cannot fail while Envoy runs.
func (e *Envoy) must(path string) string {
	e.t.Helper()
	body, err := e.Admin(path)
	if err != nil {
		e.t.Fatal(err)
	}
	return body
}

// WaitReady waits until Envoy has loaded its first configuration and serves.
func (e *Envoy) WaitReady() {
	e.t.Helper()
	Eventually(e.t, startTimeout, func() error {
		_, err := e.Admin("/ready")
		return err
	})
}

// ConfigDump returns /config_dump?include_eds as Envoy writes it.
func (e *Envoy) ConfigDump() json.RawMessage {
	e.t.Helper()
	return json.RawMessage(e.must("/config_dump?include_eds"))
}

// ClusterStatus is a cluster of [Envoy.Clusters].
type ClusterStatus struct {
	Name  string       `json:"name"`
	Hosts []HostStatus `json:"host_statuses"`
}

// HostStatus is an endpoint of a cluster. EDSHealth is HEALTHY, UNHEALTHY, DRAINING ...
type HostStatus struct {
	Address struct {
		Socket struct {
			Address string `json:"address"`
			Port    int    `json:"port_value"`
		} `json:"socket_address"`
	} `json:"address"`
	Weight int `json:"weight"`
	Health struct {
		EDS string `json:"eds_health_status"`
	} `json:"health_status"`
	Priority int `json:"priority"`
}

// Clusters returns what Envoy knows of its clusters, by name.
func (e *Envoy) Clusters() map[string]ClusterStatus {
	e.t.Helper()
	var answer struct {
		Clusters []ClusterStatus `json:"cluster_statuses"`
	}
	if err := json.Unmarshal([]byte(e.must("/clusters?format=json")), &answer); err != nil {
		e.t.Fatalf("testenv: envoy's clusters: %v", err)
	}
	byName := make(map[string]ClusterStatus, len(answer.Clusters))
	for _, c := range answer.Clusters {
		byName[c.Name] = c
	}
	return byName
}

// Stats returns Envoy's counters and gauges.
func (e *Envoy) Stats() map[string]int64 {
	e.t.Helper()
	stats := map[string]int64{}
	for line := range strings.Lines(e.must("/stats")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			stats[name] = n
		}
	}
	return stats
}
