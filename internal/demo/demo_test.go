package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/internal/admin"
)

// janitorVariable makes the test binary run as the janitor.
const janitorVariable = "CATENARY_TEST_JANITOR"

func TestMain(m *testing.M) {
	if os.Getenv(janitorVariable) != "" {
		if err := Janitor(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestJanitorRemovesWhenItsInputEnds(t *testing.T) {
	t.Setenv(janitorVariable, "1")
	dir, err := startJanitor([]string{os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir.path, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir.path); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestJanitorThatCannotSpeakLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	out, in := io.Pipe()
	_ = out.Close()
	if err := Janitor(strings.NewReader(""), in); err == nil {
		t.Error("no error")
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestPortsMoveInServiceDefinitionsOnly(t *testing.T) {
	text := "  port    = 9101\n  weight = 9101 # port = 9101\nport = 9102\n"
	got := string(movePorts([]byte(text), map[int]int{9101: 40001}))
	if want := "  port    = 40001\n  weight = 9101 # port = 9101\nport = 9102\n"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

func TestEveryInstanceOfTheShopHasABackend(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	moved := map[int]int{}
	for i, in := range instances() {
		moved[in.port] = 40000 + i
	}
	if err := writeShop(dir, moved); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.hcl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	ports := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(name) == "port" {
				ports++
				if !strings.HasPrefix(strings.TrimSpace(value), "4000") {
					t.Errorf("%s: no backend for %s", file, line)
				}
			}
		}
	}
	if ports != len(instances()) {
		t.Errorf("%d ports in the files, %d backends", ports, len(instances()))
	}
}

func TestBackendsSayWhoTheyAre(t *testing.T) {
	b, err := startBackends(ports{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, in := range instances() {
		who, ok := ask(t.Context(), client, fmt.Sprintf("http://%s:%d/", host, b.moved()[in.port]))
		if !ok || who != in.label {
			t.Errorf("%s: %q %v", in.id, who, ok)
		}
	}
}

func TestTallyForgetsWhatIsOld(t *testing.T) {
	var ta tally
	start := time.Unix(1000, 0)
	ta.add(start, "api", "v2")
	for i := range 9 {
		ta.add(start.Add(time.Duration(i)*time.Second+5*time.Second), "api", "v1")
	}
	ta.add(start, "stock", "stock")
	got := ta.counts(start.Add(13 * time.Second))
	want := []count{
		{answer{"api", "v1"}, 9, 9, 9, 10},
		{answer{"api", "v2"}, 0, 9, 1, 10},
		{answer{"stock", "stock"}, 0, 0, 1, 1},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v; want %+v", got[i], want[i])
		}
	}
}

func TestSummaryTells(t *testing.T) {
	s := summary{
		up:      61500 * time.Millisecond,
		counts:  []count{{answer{"api", "v1"}, 90, 100, 900, 1000}},
		proxies: []admin.Proxy{{ID: "web-proxy", State: "SYNCED", Protocol: "delta"}},
		places: places{
			program: "bin/catenary", dir: "/tmp/x/shop", grpc: "127.0.0.1:1", admin: "127.0.0.1:2",
			envoyAdmin: "127.0.0.1:3", api: "127.0.0.1:4", stock: "127.0.0.1:5",
		},
	}
	s.problems = append(s.problems, admin.Problem{Chain: "api"})
	s.problems[0].Message, s.problems[0].Origin = "no such subset", "api.hcl:3"
	wants := []string{
		"Up 1m1s.", "90 (90 %)", "900 (90 %)", "web-proxy   SYNCED   delta", "Problem: api.hcl:3: no such subset",
		"http://127.0.0.1:3/", "http://127.0.0.1:4/", "http://127.0.0.1:2/api/v1/proxies", "cd /tmp/x/shop\n",
		"bin/catenary proxies --admin-addr 127.0.0.1:2",
	}
	for _, want := range wants {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	if lines := strings.Count(s.String(), "\n"); lines > 23 {
		t.Errorf("%d lines do not fit on a terminal of 24", lines)
	}
	s.envoy, s.trouble, s.proxies = "there is no Envoy", "no answer", nil
	for _, want := range []string{"No requests are sent: there is no Envoy\n", "(no answer)"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	if strings.Contains(s.String(), "127.0.0.1:3") {
		t.Error("an Envoy that is not there has an address")
	}
}

func TestTerminalIsRedrawnAndPipeIsAppendedTo(t *testing.T) {
	var live, pipe strings.Builder
	(&screen{out: &live, live: true}).print(summary{})
	appended := &screen{out: &pipe}
	appended.print(summary{})
	appended.print(summary{})
	if !strings.HasPrefix(live.String(), home) || !strings.Contains(live.String(), clearLine+"\n") {
		t.Errorf("live: %q", live.String())
	}
	if strings.Contains(pipe.String(), "\x1b") || strings.Count(pipe.String(), "second terminal") != 1 {
		t.Errorf("pipe: %q", pipe.String())
	}
}

func TestDemoEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dies := time.Now().Add(5500 * time.Millisecond)
		parent := func() int {
			if time.Now().After(dies) {
				return 1
			}
			return 7
		}
		ended := false
		endWithParent(t.Context(), parent, func() { ended = true })
		if late := time.Since(dies); !ended || late < 0 || late > time.Second {
			t.Errorf("ended: %v, %v after the parent", ended, late)
		}
	})
}

func TestDemoWatchesItsParentNoLongerThanItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		endWithParent(ctx, func() int { return 7 }, func() { t.Error("ended without a reason") })
	})
}

func TestTailKeepsTheLastLine(t *testing.T) {
	var ta tail
	if got := ta.last(); got != "" {
		t.Errorf("empty: %q", got)
	}
	w := bufio.NewWriterSize(&ta, 16)
	_, _ = w.WriteString("one\nthe second is longer\nthe last\n")
	_ = w.Flush()
	if got := ta.last(); got != "(the last)" {
		t.Errorf("%q", got)
	}
}

func TestTakenPortsAreAvoided(t *testing.T) {
	p := ports{preferred: true}
	first, err := p.listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := p.listen(portOf(first.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.Addr().String() == second.Addr().String() {
		t.Error("one port for two")
	}
}

func TestOnlyOneOfTwoDemosHasThePreferredPorts(t *testing.T) {
	first, l1, err := choosePorts()
	if err != nil {
		t.Fatal(err)
	}
	defer l1.Close()
	second, l2, err := choosePorts()
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	if second.preferred {
		t.Errorf("preferred: %v and %v", first.preferred, second.preferred)
	}
	var a, b places
	for at, p := range map[*places]ports{&a: first, &b: second} {
		release, err := p.reserve(at)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	if a.api == b.api || a.envoyAdmin == b.envoyAdmin || a.stock == b.stock || a.api == a.stock {
		t.Errorf("shared: %+v %+v", a, b)
	}
}

func TestEnvoyThatCannotBeHad(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, path := range []string{"", filepath.Join(t.TempDir(), "envoy")} {
		if found, err := findEnvoy(path); err == nil {
			t.Errorf("%q: found %s", path, found)
		}
	}
}
