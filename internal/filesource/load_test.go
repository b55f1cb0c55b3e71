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
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.hcl")))
	set, problems, err := filesource.Load(dir)
	if err != nil || len(problems) != 0 || len(set.Entries) != 1 {
		t.Errorf("%d entries, %v, %v", len(set.Entries), problems, err)
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
	filesource.Commit(store, "dc1", set)
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
	filesource.Commit(store, "dc1", filesource.Set{})
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
