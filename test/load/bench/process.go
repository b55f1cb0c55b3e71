package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 5 * time.Second
	shownLog     = 4 << 10
)

// process is a server that was started.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start starts a program that logs to a file in a directory. With a token it has that in its environment. The
// caller stops it.
func start(dir, name, token, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = command(context.Background(), program, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if token != "" {
		p.cmd.Env = append(p.cmd.Env, "CONSUL_HTTP_TOKEN="+token)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// command is a child that ends with this process, gets no signals from the terminal, and sees no Consul
// but those it is told of.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = apart()
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "CONSUL_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return cmd
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end, makes it end if it does not, and returns when it has.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// await waits until the process answers all URLs with 200, and one of them with more than an empty JSON
// string.
func (p *process) await(ctx context.Context, urls ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		var last error
		for _, url := range urls {
			if last = answers(ctx, url); last != nil {
				break
			}
		}
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended:\n%s", p.name, p.endOfLog())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w\n%s", p.name, last, p.endOfLog())
		case <-ticker.C:
		}
	}
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// A Consul without a leader answers an empty string in quotes.
	if resp.StatusCode != http.StatusOK || resp.ContentLength == int64(len(`""`)) {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

func (p *process) endOfLog() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-shownLog):])
}

// freePorts returns ports of 127.0.0.1 that nobody listens at. They are below those that Linux gives to
// outgoing connections, one of which could sit on one before it is used.
func freePorts(n int) ([]int, error) {
	const first, count, tries = 12000, 20000, 1000
	var ports []int
	taken := map[int]bool{}
	for range tries {
		port := first + rand.IntN(count)
		if taken[port] || !bindable(port) {
			continue
		}
		taken[port] = true
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("%d free ports were not found between %d and %d", n, first, first+count)
}

func bindable(port int) bool {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
