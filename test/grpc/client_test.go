//go:build e2e

package grpc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	credsxds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// client is an application with gRPC of some language.
type client interface {
	// call calls a method of a name n times, each for as long as it is given, with headers k=v, and counts who answers.
	// What fails counts by its code, in capitals.
	call(t *testing.T, name, method string, n int, each time.Duration, headers ...string) map[string]int
}

// languages start a client of each language with a bootstrap. One of the mesh takes its credentials from xDS.
var languages = map[string]func(t *testing.T, bootstrap []byte, mesh bool) client{
	"go": startGo,
	"node": func(t *testing.T, bootstrap []byte, mesh bool) client {
		return startProcess(t, bootstrap, mesh, "node", "client.js")
	},
	"java": func(t *testing.T, bootstrap []byte, mesh bool) client {
		return startProcess(t, bootstrap, mesh, "java", "-cp", "target/classes:lib/*", "Client")
	},
}

// inGo is a client in this process.
type inGo struct {
	bootstrap []byte
	options   []grpcgo.DialOption
	channels  map[string]*testenv.GRPCClient
}

func startGo(t *testing.T, bootstrap []byte, mesh bool) client {
	c := &inGo{bootstrap: bootstrap, channels: map[string]*testenv.GRPCClient{}}
	if mesh {
		creds, err := credsxds.NewClientCredentials(credsxds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
		if err != nil {
			t.Fatal(err)
		}
		c.options = append(c.options, grpcgo.WithTransportCredentials(creds))
	}
	return c
}

func (c *inGo) call(t *testing.T, name, method string, n int, each time.Duration, headers ...string) map[string]int {
	t.Helper()
	if c.channels[name] == nil {
		c.channels[name] = testenv.DialXDS(t, c.bootstrap, name, c.options...)
	}
	got := map[string]int{}
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), each)
		for _, h := range headers {
			k, v, _ := strings.Cut(h, "=")
			ctx = metadata.AppendToOutgoingContext(ctx, k, v)
		}
		who, err := c.channels[name].Call(ctx, method)
		cancel()
		if err != nil {
			t.Logf("%s%s: %v", name, method, err)
			who = codeName(err)
		}
		got[who]++
	}
	return got
}

// codeName spells a code as other languages do.
func codeName(err error) string {
	var out strings.Builder
	for i, r := range status.Code(err).String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(r)
	}
	return strings.ToUpper(out.String())
}

// process is a client that is told what to do by lines.
type process struct {
	in  io.Writer
	out *bufio.Scanner
	err *locked
}

func startProcess(t *testing.T, bootstrap []byte, mesh bool, program string, args ...string) client {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = filepath.Join(root, ".tools", "grpc-"+program)
	cmd.Env = append(os.Environ(), "GRPC_XDS_BOOTSTRAP_CONFIG="+string(bootstrap))
	if mesh {
		cmd.Env = append(cmd.Env, "MESH=1")
	}
	p := &process{err: &locked{}}
	cmd.Stderr = p.err
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: make grpc-clients gets the clients", err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", program, p.err)
		}
	})
	return p
}

func (p *process) call(t *testing.T, name, method string, n int, each time.Duration, headers ...string) map[string]int {
	t.Helper()
	words := append([]string{name, method, strconv.Itoa(n), strconv.FormatInt(each.Milliseconds(), 10)}, headers...)
	if _, err := fmt.Fprintln(p.in, strings.Join(words, "\t")); err != nil {
		t.Fatalf("%v\n%s", err, p.err)
	}
	if !p.out.Scan() {
		t.Fatalf("the client has ended: %v\n%s", p.out.Err(), p.err)
	}
	got := map[string]int{}
	for _, field := range strings.Fields(p.out.Text()) {
		who, count, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("the client says %q", p.out.Text())
		}
		got[who] = n
	}
	return got
}

// locked is what a process has said.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
