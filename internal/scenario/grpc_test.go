package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/tools/txtar"
	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/internal/entry"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// A real gRPC client that asks for a service of a scenario takes all that it is sent, whatever the entries say.
func TestGRPCClientsRefuseNothing(t *testing.T) {
	eachScenario(t, func(t *testing.T, _ string, ar *txtar.Archive) {
		refusesNothing(t, readWorld(t, ar))
	})
	paths, err := filepath.Glob("../../chain/testdata/scenario/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios of chains: %v", err)
	}
	for _, path := range paths {
		t.Run("chain/"+strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			refusesNothing(t, chainWorld(t, ar))
		})
	}
}

// chainWorld is what a scenario of the compiler starts from, with no instances.
func chainWorld(t *testing.T, ar *txtar.Archive) (w world) {
	t.Helper()
	data, ok := find(ar, "entries.json")
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); !ok || err != nil {
		t.Fatal(err)
	}
	for _, one := range raw {
		w.entries = append(w.entries, entry.Decode("entry.json", one).Entries...)
	}
	return w
}

func (w world) services() []string {
	names := []string{"web"}
	for _, e := range w.entries {
		names = append(names, e.Head().Name)
	}
	for _, in := range w.instances {
		names = append(names, in.Service.Service)
	}
	for _, u := range w.client.Upstreams {
		names = append(names, u.Service)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "*" })
	slices.Sort(names)
	return slices.Compact(names)
}

// certificates are those of mesh clients, which refuse what names a provider that they do not have. Nobody is
// called, and so nobody reads them.
var certificates = map[string]any{"certificate_providers": map[string]any{"default": map[string]any{
	"plugin_name": "file_watcher",
	"config":      map[string]any{"certificate_file": "leaf.pem", "private_key_file": "key.pem", "ca_certificate_file": "roots.pem"},
}}}

func refusesNothing(t *testing.T, w world) {
	t.Helper()
	server, addr := serve(t, w.store())
	var ids []string
	for _, service := range w.services() {
		for _, mesh := range []bool{false, true} {
			node := map[string]any{
				"id":       fmt.Sprintf("%s mesh=%v", service, mesh),
				"metadata": map[string]any{"catenary": map[string]any{"service": "web", "mesh": mesh}},
			}
			ids = append(ids, node["id"].(string))
			testenv.DialXDS(t, testenv.GRPCBootstrap(t, addr, node, certificates), service).Connect()
		}
	}
	testenv.Eventually(t, 20*time.Second, func() error {
		for _, id := range ids {
			if err := taken(server.Proxies(), id); err != nil {
				return err
			}
		}
		return nil
	})
}

// taken reports whether a client has all that there is for it, and has taken it.
func taken(list []xds.ProxyStatus, id string) error {
	i := slices.IndexFunc(list, func(p xds.ProxyStatus) bool { return p.ID == id })
	if i < 0 {
		return fmt.Errorf("%s is not connected", id)
	}
	p := list[i]
	has := map[string]xds.TypeStatus{}
	for _, typ := range p.Types {
		has[typ.Type] = typ
		if typ.Nacks > 0 {
			return fmt.Errorf("%s refused %s: %s", id, typ.Type, typ.Nack.Message)
		}
	}
	want := []string{"listener", "route", "cluster", "endpoint"}
	switch {
	case len(p.Problems) > 0:
		want = want[:2]
	case len(p.Pending) > 0:
		return nil
	}
	for _, typ := range want {
		if s := has[typ]; s.Acked == "" || s.Acked != s.Sent {
			return fmt.Errorf("%s has not taken a %s: %+v", id, typ, s)
		}
	}
	return nil
}

func serve(t *testing.T, store *facts.Store) (*xds.Server, string) {
	t.Helper()
	server := xds.NewServer(xds.Config{
		Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
		Datacenter: config().Datacenter, TrustDomain: config().TrustDomain,
	})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(xds.ServerOptions()...)
	server.Register(g)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- g.Serve(lis) }()
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		g.Stop()
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return server, lis.Addr().String()
}
