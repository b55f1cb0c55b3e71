package filesource_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/filesource"
)

func TestWhatIsDefinedTwiceIsReportedWithBothPlaces(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.hcl"), filepath.Join(dir, "b.yaml")
	write(t, a, defaults("http")+"\n")
	write(t, b, "kind: service-defaults\nname: API\n---\nservices:\n- {name: x}\n- {name: y}\n- {name: z, id: X}\n- {name: x, node: other}\n")
	_, problems, err := filesource.Load(dir)
	must(t, err)
	want := []string{
		b + ":1: service-defaults/API: is defined a second time, the first is at " + a + ":1",
		b + ":7: service/X: is defined a second time, the first is at " + b + ":5",
	}
	if len(problems) != len(want) {
		t.Fatalf("%v", problems)
	}
	for i, p := range problems {
		if !strings.HasPrefix(p.String(), want[i]) || p.Severity != chain.SeverityError || p.Code != filesource.CodeDuplicate {
			t.Errorf("want %s\ngot  %s", want[i], p)
		}
	}
	if _, problems, _ := filesource.Load(a, b); len(problems) != len(want) {
		t.Errorf("of two paths: %v", problems)
	}
}

func TestOnlyFilesOfTheDirectoryItselfAreRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "api.HCL"), defaults("http"))
	for _, other := range []string{"readme.md", ".hidden.hcl", "api.hcl~", filepath.Join("below", "b.hcl")} {
		write(t, filepath.Join(dir, other), "not valid")
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.hcl"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "directory.hcl"), 0o700))
	must(t, os.Symlink("nowhere", filepath.Join(dir, ".#api.hcl"))) // an editor's lock
	set, problems, err := filesource.Load(dir)
	if err != nil || len(problems) != 0 || len(set.Entries) != 1 {
		t.Errorf("%d entries, %v, %v", len(set.Entries), problems, err)
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a link to nowhere": {
			func(path string) error { return os.Symlink("nowhere", path) },
			"the link to nowhere leads to no file (no such file or directory)",
		},
		"a link to itself": {
			func(path string) error { return os.Symlink("b.hcl", path) },
			"the link to b.hcl leads to no file (too many levels of symbolic links)",
		},
		"more than fits": {
			func(path string) error { return os.WriteFile(path, make([]byte, 16<<20+1), 0o600) },
			"larger than 16 MiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.hcl"), defaults("http"))
			b := filepath.Join(dir, "b.hcl")
			must(t, c.make(b))
			_, _, err := filesource.Load(dir)
			if want := "read " + b + ": " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func TestADirectoryWithoutFilesIsWorthAWarning(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	write(t, filepath.Join(empty, "readme.md"), "nothing to read")
	write(t, filepath.Join(full, "a.hcl"), defaults("http"))
	_, problems, err := filesource.Load(full, empty)
	must(t, err)
	const want = ": the directory has no file to read: want one whose name ends in .hcl, .json, .yaml, .yml (CAT1912)"
	if len(problems) != 1 || problems[0].String() != empty+want || filesource.HasErrors(problems) {
		t.Errorf("%v", problems)
	}
	if err := filesource.Nothing(problems); err == nil || err.Error() != empty+want {
		t.Error(err)
	}
	if err := filesource.Nothing(nil); err != nil {
		t.Error(err)
	}
}

func TestSidecarsGetPortsThatAreFree(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.hcl"), `services = [
		{ name = "a" port = 21001 connect { sidecar_service {} } },
		{ name = "b" connect { sidecar_service {} } },
		{ name = "c" connect { sidecar_service { port = 30000 } } },
		{ name = "d" node = "other" connect { sidecar_service {} } }]`)
	write(t, filepath.Join(dir, "b.hcl"), `service { name = "e" connect { sidecar_service {} } }`)
	set, problems, err := filesource.Load(dir)
	must(t, err)
	got := map[string]int{}
	for _, in := range set.Instances {
		got[in.Service.ID] = in.Service.Port
	}
	for id, want := range map[string]int{"a": 21001, "a-sidecar-proxy": 21000, "b-sidecar-proxy": 21002, "c-sidecar-proxy": 30000, "d-sidecar-proxy": 21000, "e-sidecar-proxy": 21003} {
		if got[id] != want {
			t.Errorf("%s has port %d, want %d; problems %v", id, got[id], want, problems)
		}
	}
}

func TestACommitMakesASetAllThereIs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.hcl")
	write(t, file, defaults("http")+"\n")
	write(t, filepath.Join(dir, "b.hcl"), `services = [
		{ name = "Web" port = 1 connect { sidecar_service {} } }, { name = "web" id = "web-2" port = 2 connect { native = true } }]`)
	set, _, err := filesource.Load(dir)
	must(t, err)
	store := facts.New()
	filesource.Commit(store, filesource.World{Datacenter: "dc1"}, set)
	v := store.View()
	for topic, want := range map[facts.Topic]string{
		facts.Health("dc1", "web"): "Web web-2", facts.Connect("dc1", "WEB"): "web-2 Web-sidecar-proxy",
		facts.Proxies("dc1", "web"): "Web-sidecar-proxy", facts.Health("dc1", "Web-sidecar-proxy"): "Web-sidecar-proxy",
	} {
		if got := ids(v, topic); got != want {
			t.Errorf("%s: %q, want %q", topic, got, want)
		}
	}
	if ready, reason := v.Ready("dc1"); !ready {
		t.Error(reason)
	}
	filesource.Commit(store, filesource.World{Datacenter: "dc1"}, filesource.Set{})
	v = store.View()
	if got := ids(v, facts.Health("dc1", "web")) + strings.Join(v.AllServices("dc1"), " "); got != "" {
		t.Errorf("%q stayed", got)
	}
	if _, state := v.Entry(chain.KindServiceDefaults, "api"); state != facts.Absent {
		t.Errorf("the entry is %s", state)
	}
}

func ids(v facts.View, topic facts.Topic) string {
	var list []string
	instances, _ := v.Instances(topic)
	for _, in := range instances {
		list = append(list, in.Service.ID)
	}
	return strings.Join(list, " ")
}
