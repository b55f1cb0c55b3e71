package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/grpcserver"
	"github.com/catenary-mesh/catenary/xds"
)

// scaleEnv holds how many endpoints the server of the benchmark has; without it there is none. profileEnv is a file
// for a profile of its CPU, until its usage is first asked for with its heap.
const (
	scaleEnv   = "CATENARY_HDS_SCALE_ENDPOINTS"
	profileEnv = "CATENARY_HDS_SCALE_PROFILE"
)

// usage is what the server has used since it started, and does now.
type usage struct {
	CPU                      time.Duration
	Mallocs, Bytes, Heap     uint64
	Checkers, Votes          int
	Reports, Specifiers      uint64
	Changes, Broken, Freezes uint64
	// Silent is how many of the broken said nothing: the others said something else than they should.
	Silent int
}

// silences counts what is logged of checkers that are broken because they are silent.
type silences struct{ n atomic.Int64 }

func (s *silences) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("it has not reported")) {
		s.n.Add(1)
	}
	return len(line), nil
}

// TestTheServerOfTheBenchmark is no test: it serves in a process of its own, whose use of CPU and memory is then
// not that of the simulation. It answers each line that it reads with its usage.
func TestTheServerOfTheBenchmark(t *testing.T) {
	var endpoints int
	if _, err := fmt.Sscan(os.Getenv(scaleEnv), &endpoints); err != nil {
		return
	}
	store := facts.New()
	store.Commit(func(tx *facts.Tx) { tx.CloseWorld() })
	catalog(store, world{
		endpoints: endpoints, per: 100, meta: map[string]string{"hds-protocol": "http", "hds-path": "/healthz"},
		address: func(i int) (string, int) { return "127.0.0.1", firstPort + i },
	})
	silent := &silences{}
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: silent})
	s := server.New(server.Config{Store: store, Logger: log, Datacenter: "dc1", TrustDomain: "catenary.local"})
	g, err := grpcserver.New(grpcserver.Config{Logger: hclog.NewNullLogger(), Metrics: uncounted{}, Options: xds.ServerOptions()})
	if err != nil {
		t.Fatal(err)
	}
	s.Register(g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Run(ctx) })
	group.Go(func() { _ = g.Run(ctx, listener) })
	defer group.Wait()
	defer cancel()

	profiled := profile(t)
	defer profiled()
	fmt.Println(listener.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "heap" {
			profiled()
			runtime.GC()
			runtime.GC() // what the first left to finalizers
		}
		raw, err := json.Marshal(used(s, silent))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(raw))
	}
}

// profile begins the profile that is asked for, if any, and returns what ends it.
func profile(t *testing.T) func() {
	name := os.Getenv(profileEnv)
	if name == "" {
		return func() {}
	}
	file, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	})
}

func used(s *server.Server, silent *silences) usage {
	f := s.Figures()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return usage{
		CPU:     time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		Mallocs: mem.Mallocs, Bytes: mem.TotalAlloc, Heap: mem.HeapAlloc,
		Checkers: f.Checkers, Votes: f.Votes, Reports: f.Reports, Specifiers: f.Specifiers,
		Changes: f.Changes, Broken: f.BrokenTotal, Freezes: f.Freezes, Silent: int(silent.n.Load()),
	}
}

// uncounted counts nothing of the gRPC server.
type uncounted struct{}

func (uncounted) GRPCConnections(int)              {}
func (uncounted) GRPCStreams(int)                  {}
func (uncounted) GRPCRefused(string, int)          {}
func (uncounted) GRPCCertificate(time.Time, error) {}

// peer is a server in another process.
type peer struct {
	t      testing.TB
	addr   string
	in     io.WriteCloser
	out    *bufio.Reader
	failed bytes.Buffer
}

func startPeer(t testing.TB, endpoints int) *peer {
	t.Helper()
	p := &peer{t: t}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTheServerOfTheBenchmark$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", scaleEnv, endpoints))
	cmd.Stderr = &p.failed
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		p.in.Close() // which ends it
		_, _ = io.Copy(io.Discard, p.out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v\n%s", err, p.failed.String())
		}
	})
	p.addr = p.line()
	return p
}

func (p *peer) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the server ended: %v\n%s", err, p.failed.String())
	}
	return line[:len(line)-1]
}

// usage asks for it, after a garbage collection with "heap".
func (p *peer) usage(how string) (u usage) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, how); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.line()), &u); err != nil {
		p.t.Fatal(err)
	}
	return u
}
