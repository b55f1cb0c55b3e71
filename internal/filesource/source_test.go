package filesource_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/filesource"
)

// followed is a source under test that follows a path.
type followed struct {
	harness
	t   *testing.T
	sub *facts.Subscription
	// reads receives the number of problems at each reading.
	reads chan int
	log   *lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// SourceProblems implements filesource.Metrics.
func (f *followed) SourceProblems(n int) { f.reads <- n }

// SourceFailed implements filesource.Metrics.
func (*followed) SourceFailed(string) {}

func follow(t *testing.T, path string) *followed {
	t.Helper()
	f := &followed{t: t, reads: make(chan int, 1000), log: &lockedBuffer{}}
	f.store = facts.New()
	f.sub = f.store.Subscribe()
	f.source = filesource.New(filesource.Config{
		Path: path, World: filesource.World{Datacenter: "dc1"}, Metrics: f, Logger: hclog.New(&hclog.LoggerOptions{Output: f.log}),
	})
	f.Start(t)
	t.Cleanup(f.sub.Close)
	return f
}

const within = 20 * time.Second

// protocol waits until service-defaults of api have a protocol; without one they must be absent.
func (f *followed) protocol(want string) {
	f.t.Helper()
	deadline := time.After(within)
	for {
		got := ""
		e, state := f.store.View().Entry(chain.KindServiceDefaults, "api")
		if e != nil {
			got = e.(*chain.ServiceDefaults).Protocol
		}
		if got == want && (want != "" || state == facts.Absent) {
			return
		}
		select {
		case <-f.sub.Bell():
		case <-deadline:
			f.t.Fatalf("the protocol is %q (%s), want %q; problems %v", got, state, want, f.source.Problems())
		}
	}
}

// problem waits for a reading after which the only problem has the text.
func (f *followed) problem(text string) {
	f.t.Helper()
	deadline := time.After(within)
	for {
		p := f.source.Problems()
		if len(p) == 1 && strings.Contains(p[0].String(), text) {
			return
		}
		select {
		case <-f.reads:
		case <-deadline:
			f.t.Fatalf("want a problem with %q, got %v", text, p)
		}
	}
}

func defaults(protocol string) string {
	return fmt.Sprintf("Kind = \"service-defaults\"\nName = \"api\"\nProtocol = %q\n", protocol)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// link makes a link where another may be, at once, as Kubernetes does.
func link(t testing.TB, to, name string) {
	t.Helper()
	must(t, os.Symlink(to, name+".new"))
	must(t, os.Rename(name+".new", name))
}

func TestABrokenFileKeepsWhatWasLastGood(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "api.hcl")
	write(t, file, defaults("http"))
	f := follow(t, dir)
	f.protocol("http")
	write(t, file, "Kind = \"service-defaults\"\nName = \"api\"\nProtocl = \"tcp\"\n")
	f.problem(file + ":3: service-defaults/api: Protocl: unknown key")
	f.protocol("http")
	write(t, file, "")
	f.problem("the file is empty")
	f.protocol("http")
	write(t, file, defaults("grpc"))
	f.protocol("grpc")
	if got := f.source.Problems(); len(got) != 0 {
		t.Errorf("problems %v", got)
	}
}

func TestNothingIsKnownWhileTheFirstFilesAreBroken(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "api.hcl")
	write(t, file, "Kind = ")
	f := follow(t, dir)
	deadline := time.After(within)
	for {
		ready, reason := f.store.View().Ready("dc1")
		if !ready && strings.Contains(reason, "api.hcl:1") {
			break
		}
		select {
		case <-f.sub.Bell():
		case <-deadline:
			t.Fatalf("ready %t: %s", ready, reason)
		}
	}
	if _, state := f.store.View().Entry(chain.KindServiceDefaults, "api"); state != facts.Unknown {
		t.Errorf("the entry is %s", state)
	}
	write(t, file, defaults("http"))
	f.protocol("http")
}

func TestAProblemIsLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.hcl"), "Kind = ")
	f := follow(t, dir)
	f.problem("a.hcl:1")
	for _, protocol := range []string{"tcp", "http", "grpc"} {
		write(t, filepath.Join(dir, "b.hcl"), defaults(protocol))
		<-f.reads
	}
	write(t, filepath.Join(dir, "a.hcl"), "Kind = \"x\"")
	f.problem("unknown kind")
	if got := strings.Count(f.log.String(), "a.hcl:1"); got != 2 {
		t.Errorf("%d lines:\n%s", got, f.log)
	}
}

func TestChangesAreSeenHoweverTheyAreMade(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, dir string) (path string, change func()){
		"written in place": func(t *testing.T, dir string) (string, func()) {
			write(t, filepath.Join(dir, "api.hcl"), defaults("http"))
			return dir, func() { write(t, filepath.Join(dir, "api.hcl"), defaults("grpc")) }
		},
		"a single file replaced": func(t *testing.T, dir string) (string, func()) {
			file := filepath.Join(dir, "api.hcl")
			write(t, file, defaults("http"))
			return file, func() { replace(t, file, defaults("grpc")) }
		},
		"a file moved away and written anew": func(t *testing.T, dir string) (string, func()) {
			file := filepath.Join(dir, "api.hcl")
			write(t, file, defaults("http"))
			return file, func() {
				must(t, os.Rename(file, file+"~"))
				write(t, file, defaults("grpc"))
			}
		},
		"a directory replaced": func(t *testing.T, dir string) (string, func()) {
			write(t, filepath.Join(dir, "shop", "api.hcl"), defaults("http"))
			write(t, filepath.Join(dir, "next", "api.hcl"), defaults("grpc"))
			return filepath.Join(dir, "shop"), func() {
				must(t, os.Rename(filepath.Join(dir, "shop"), filepath.Join(dir, "old")))
				must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "shop")))
			}
		},
		"a link to a directory swapped": func(t *testing.T, dir string) (string, func()) {
			write(t, filepath.Join(dir, "v1", "shop", "api.hcl"), defaults("http"))
			write(t, filepath.Join(dir, "v2", "shop", "api.hcl"), defaults("grpc"))
			link(t, "v1", filepath.Join(dir, "current"))
			return filepath.Join(dir, "current", "shop"), func() { link(t, "v2", filepath.Join(dir, "current")) }
		},
		"a ConfigMap swapped": func(t *testing.T, dir string) (string, func()) {
			write(t, filepath.Join(dir, "..1", "api.hcl"), defaults("http"))
			write(t, filepath.Join(dir, "..2", "api.hcl"), defaults("grpc"))
			link(t, "..1", filepath.Join(dir, "..data"))
			link(t, filepath.Join("..data", "api.hcl"), filepath.Join(dir, "api.hcl"))
			return dir, func() { link(t, "..2", filepath.Join(dir, "..data")) }
		},
		"the file behind a link written": func(t *testing.T, dir string) (string, func()) {
			file := filepath.Join(dir, "elsewhere", "api.txt")
			write(t, file, defaults("http"))
			write(t, filepath.Join(dir, "shop", "other.hcl"), "# nothing")
			link(t, filepath.Join("..", "elsewhere", "api.txt"), filepath.Join(dir, "shop", "api.hcl"))
			return filepath.Join(dir, "shop"), func() { write(t, file, defaults("grpc")) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			path, change := test(t, dir)
			f := follow(t, path)
			f.protocol("http")
			change()
			f.protocol("grpc")
			// A second change of the same kind shows that what is watched has followed.
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				path = filepath.Join(path, "api.hcl")
			}
			replace(t, path, defaults("http2"))
			f.protocol("http2")
		})
	}
}

func TestADirectoryThatGoesKeepsWhatWasLastGood(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	write(t, filepath.Join(dir, "api.hcl"), defaults("http"))
	f := follow(t, dir)
	f.protocol("http")
	must(t, os.RemoveAll(dir))
	f.problem("no such file")
	f.protocol("http")
	write(t, filepath.Join(dir, "api.hcl"), defaults("grpc"))
	f.protocol("grpc")
	must(t, os.Remove(filepath.Join(dir, "api.hcl")))
	f.protocol("")
}

func TestALinkThatLosesItsFileKeepsWhatWasLastGood(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	file, target := filepath.Join(dir, "api.hcl"), filepath.Join(away, "target")
	write(t, target, defaults("http"))
	link(t, target, file)
	f := follow(t, dir)
	f.protocol("http")
	must(t, os.Remove(target))
	f.problem(file + ": the link to " + target + " leads to no file")
	f.protocol("http")
	write(t, target, defaults("grpc"))
	f.protocol("grpc")
	must(t, os.Remove(file))
	f.protocol("")
}

func TestNeighboursDoNotDelayAChange(t *testing.T) {
	parent := t.TempDir()
	file := filepath.Join(parent, "api.hcl")
	write(t, file, defaults("http"))
	f := follow(t, file)
	f.protocol("http")
	<-f.reads
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(parent, "noise.hcl"), []byte(fmt.Sprint(i)), 0o600)
			}
		}
	}()
	replace(t, file, defaults("grpc"))
	f.protocol("grpc")
	close(stop)
	<-stopped
	if n := len(f.reads); n > 3 {
		t.Errorf("the neighbour's changes led to %d readings", n)
	}
}
