package filesource_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/facts/factstest"
	"github.com/catenary-mesh/catenary/internal/filesource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFilesAreASource(t *testing.T) {
	factstest.Run(t, func(t *testing.T) factstest.Harness { return newHarness(t) })
}

// harness is a source that follows a directory of its own, with a file for each entry and instance.
type harness struct {
	dir    string
	store  *facts.Store
	source *filesource.Source
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	h := &harness{dir: t.TempDir(), store: facts.New()}
	h.source = filesource.New(filesource.Config{
		Path: h.dir, World: filesource.World{Datacenter: h.Datacenter()}, Logger: hclog.NewNullLogger(), Metrics: noMetrics{},
	})
	return h
}

type noMetrics struct{}

func (noMetrics) SourceProblems(int)  {}
func (noMetrics) SourceFailed(string) {}

func (h *harness) Store() *facts.Store { return h.store }

func (*harness) Datacenter() string { return "dc1" }

func (h *harness) Start(t testing.TB) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.source.Run(ctx, h.store) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Errorf("the source ended with: %v", err)
		}
	})
}

func (h *harness) PutEntry(t testing.TB, text string) {
	t.Helper()
	var key struct{ Kind, Name string }
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		t.Fatal(err)
	}
	if key.Kind == string(chain.KindMesh) {
		key.Name = chain.MeshName
	}
	replace(t, h.entryFile(chain.Kind(key.Kind), key.Name), text)
}

func (h *harness) DeleteEntry(t testing.TB, kind chain.Kind, name string) {
	t.Helper()
	remove(t, h.entryFile(kind, name))
}

func (h *harness) Register(t testing.TB, s factstest.ServiceSpec) {
	t.Helper()
	definition := map[string]any{
		"name": s.Name, "id": s.ID, "address": s.Address, "port": s.Port, "tags": s.Tags, "meta": s.Meta,
		"weights": map[string]int{"passing": s.Weights.Passing, "warning": s.Weights.Warning},
		"check":   map[string]any{"ttl": "1h", "status": s.Status},
	}
	if s.Proxy != nil {
		var upstreams []map[string]any
		for _, u := range s.Proxy.Upstreams {
			upstreams = append(upstreams, map[string]any{
				"destination_name": u.DestinationName, "local_bind_port": u.LocalBindPort,
			})
		}
		definition["kind"] = "connect-proxy"
		definition["proxy"] = map[string]any{
			"destination_service_name": s.Proxy.DestinationServiceName,
			"destination_service_id":   s.Proxy.DestinationServiceID,
			"local_service_port":       s.Proxy.LocalServicePort,
			"upstreams":                upstreams,
		}
	}
	text, err := json.Marshal(map[string]any{"service": definition})
	if err != nil {
		t.Fatal(err)
	}
	replace(t, h.instanceFile(s.ID), string(text))
}

func (h *harness) Deregister(t testing.TB, id string) {
	t.Helper()
	remove(t, h.instanceFile(id))
}

func (h *harness) entryFile(kind chain.Kind, name string) string {
	return filepath.Join(h.dir, string(kind)+"_"+strings.ToLower(name)+".json")
}

func (h *harness) instanceFile(id string) string {
	return filepath.Join(h.dir, "instance_"+id+".json")
}

// replace writes a file as editors do: another one takes its place.
func replace(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".tmp", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}
