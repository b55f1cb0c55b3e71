package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
)

// findEnvoy returns the path of Envoy's program.
func findEnvoy(path string) (string, error) {
	if path == "" {
		found, err := exec.LookPath("envoy")
		if err != nil {
			return "", fmt.Errorf("no envoy in $PATH, and no --envoy PATH given")
		}
		return found, nil
	}
	return exec.LookPath(path)
}

// envoy is the proxy of the service web: a child process.
type envoy struct {
	path string
	file string // where its bootstrap goes
	at   stage

	mu    sync.Mutex
	ended string // why it has; empty while it has not
	log   tail
}

// run starts Envoy and returns when it has ended, which it does with the context. What goes wrong is
// for the summary: the demo goes on.
func (e *envoy) run(ctx context.Context) {
	// The kernel kills the child when the thread that started it ends: the thread must not be one that
	// the runtime ends earlier. Never unlocked, it ends with this goroutine.
	runtime.LockOSThread()
	err := e.start(ctx)
	if ctx.Err() != nil {
		return
	}
	why := "Envoy has ended"
	if err != nil {
		why += ": " + err.Error()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = strings.TrimSpace(why + " " + e.log.last())
}

func (e *envoy) start(ctx context.Context) error {
	text, err := bootstrap.Envoy(bootstrap.EnvoyConfig{
		Service: "web", GRPCAddr: e.at.grpc, AdminBind: e.at.envoyAdmin,
		Upstreams: []bootstrap.Upstream{
			{Service: "api", BindAddress: host, BindPort: portOf(e.at.api)},
			{Service: "stock", BindAddress: host, BindPort: portOf(e.at.stock)},
		},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(e.file, text, 0o600); err != nil {
		return err
	}
	// Hot restart, which the demo has no use for, leaves a file in shared memory.
	cmd := exec.CommandContext(ctx, e.path,
		"-c", e.file, "--disable-hot-restart", "--concurrency", "1", "-l", "warning")
	cmd.SysProcAttr = dieWithParent()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second
	cmd.Stderr = &e.log
	e.at.release()
	return cmd.Run()
}

// trouble says why Envoy does not run; empty while it does.
func (e *envoy) trouble() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// tail keeps the last line that was written to it.
type tail struct {
	mu   sync.Mutex
	line []byte
}

// tailSize bounds what is kept.
const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = append(t.line, p...)
	if cut := bytes.LastIndexByte(bytes.TrimRight(t.line, "\n"), '\n'); cut >= 0 {
		t.line = append(t.line[:0], t.line[cut+1:]...)
	}
	if len(t.line) > tailSize {
		t.line = t.line[:tailSize]
	}
	return len(p), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 {
		return ""
	}
	return "(" + strings.TrimSpace(string(t.line)) + ")"
}
