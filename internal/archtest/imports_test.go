package archtest

import (
	"slices"
	"strings"
	"testing"
)

const module = "github.com/catenary-mesh/catenary"

// layer says which of the project's packages a package may import.
type layer struct {
	pkg string
	may []string
	why string
}

// layers has one row for each package, each below those it imports: calls go towards the sources of
// what is known, and never back. A new package places itself by adding its row.
func layers() []layer {
	data := []string{"chain", "internal/facts"}
	products := append(slices.Clone(data), "snapshot")
	server := append(slices.Clone(products), "xds/envoy", "xds/session", "internal/bootstrap", "internal/identity")
	return []layer{
		{"chain", nil, "the compiler is a library on its own"},
		{"chain/explain", []string{"chain"}, "an explanation is made of a chain and its entries, by the same rule as the chain"},
		{"internal/entry", []string{"chain", "internal/facts"}, "decoding knows the types it fills and nothing of where the text came from"},
		{"internal/facts", []string{"chain"}, "facts are what everything is made from; they know neither sources nor products"},
		{"internal/facts/factstest", data, "the suite of sources looks only at the store"},
		{"internal/proto/subscribe", nil, "generated code is a protocol and nothing else"},
		{"internal/proto/destination", nil, "generated code is a protocol and nothing else"},
		{"internal/proto/conduit", nil, "generated code is a protocol and nothing else"},
		{"internal/support", []string{"chain"}, "what becomes of a field is known by its type alone"},
		{"internal/filesource", append(slices.Clone(data), "internal/entry"), "a source writes facts; it meets products only through them"},
		{"internal/identity", []string{"internal/facts"}, "what a token may read is a fact; who serves it, and whom it asks, is not its affair"},
		{"consulwatch", append(slices.Clone(data), "internal/entry", "internal/identity", "internal/proto/subscribe"), "a source writes facts; it meets products only through them"},
		{"snapshot", data, "a product is a function of facts, whoever brought them and whoever gets it"},
		{"destination", append(slices.Clone(products), "internal/proto/destination", "internal/proto/conduit"), "a protocol beside xds over the same products, which knows none of the other's words"},
		{"hds", data, "health discovery is a source: duties come from facts and verdicts go to them"},
		{"hds/server", append(slices.Clone(products), "hds", "xds", "internal/identity"), "the server joins the pure parts with facts and streams; who is admitted is decided as for xDS"},
		{"xds/envoy", append(slices.Clone(products), "xds/session", "internal/evict"), "translation takes a product and gives resources as sessions send them; it looks nothing up"},
		{"xds/session", nil, "a session is protocol alone: names and versions, not what they mean"},
		{"xds", server, "the server joins products, translation and sessions"},
		{"internal/grpcserver", nil, "what is served registers itself: the server knows no protocol but gRPC"},
		{"internal/evict", nil, "rules in, a configuration out: who may enter, and how it gets to Envoy, are others' affair"},
		{"internal/bootstrap", nil, "what a client says of itself is a contract of its own"},
		{"internal/certdir", nil, "it writes files and knows nothing of whose they are or where they came from"},
		{"internal/metrics", nil, "others declare what they report, and metrics implements it, so that Prometheus stays in one place"},
		{"internal/journey", append(slices.Clone(products), "chain/explain"), "where a request goes follows from facts and plans, whoever asks and whoever is served"},
		{"internal/admin", append(slices.Clone(products), "chain/explain", "internal/journey", "xds", "hds/server", "internal/render"), "the HTTP side only reads, and nothing waits for it"},
		{"internal/drift", nil, "what was sent and what runs are both JSON: a field that nobody here knows is compared too"},
		{"internal/render", nil, "writers know nothing of what the values mean"},
		{"internal/demo", []string{"examples", "internal/admin", "internal/bootstrap"}, "the demo is a user of the program: it meets the server over its ports"},
		{"internal/archtest", nil, "rules have no code"},
		{"internal/scenario", nil, "scenarios are files, and their tests have no code to share"},
		{"internal/testenv", nil, "the peers at the outer ends are real, so the program is not part of them"},
		{"test/grpc", nil, "applications of three languages meet the server over its port"},
		{"test/load/wire", nil, "the load generator reads bytes, so that it is light and measures every server alike"},
		{"test/load/h2", nil, "one call of the load generator, without I/O"},
		{"test/load/catalog", []string{"test/load/wire"}, "a load test's catalog knows nothing of who measures what"},
		{"test/load/fleet", []string{"test/load/wire", "test/load/h2"}, "the load generator is a client: it meets the server over its port"},
		{"test/load/seed", []string{"test/load/catalog"}, "a command line over the catalog"},
		{"test/load/xdsload", []string{"test/load/catalog", "test/load/fleet"}, "a command line over the fleet"},
		{"test/load/bench", []string{"test/load/catalog", "test/load/fleet"}, "a benchmark is a user of the programs it compares"},
		{"examples", nil, "examples are files"},
		{"cmd/catenary", []string{anything}, "the wiring knows everything, and nothing knows the wiring"},
	}
}

const anything = "*"

// confined are the modules outside that only some packages may import.
func confined() []layer {
	return []layer{
		{"github.com/hashicorp/consul/api", []string{"consulwatch", "internal/testenv"}, "Consul's client stays behind narrow interfaces, so that Consul can be replaced in a test and by files"},
		{"github.com/envoyproxy/go-control-plane", []string{"xds", "xds/envoy", "xds/session", "hds", "hds/server", "internal/testenv"}, "Envoy's words stay in xds and hds, so that products can serve other clients too"},
		{"github.com/prometheus", []string{"internal/metrics"}, "others report through small interfaces"},
		{"github.com/hashicorp/go-memdb", []string{"internal/facts"}, "how facts are kept is the store's own affair"},
		{"github.com/spf13/cobra", []string{"cmd/catenary"}, "the command line is the outermost layer"},
		{"google.golang.org/grpc", []string{"xds", "hds/server", "destination", "cmd/catenary", "consulwatch", "internal/proto/subscribe", "internal/proto/destination", "internal/proto/conduit", "internal/grpcserver", "internal/testenv"}, "gRPC is I/O, and belongs to the packages that do I/O"},
	}
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	rows := map[string]layer{}
	for _, l := range layers() {
		rows[l.pkg] = l
	}
	for _, p := range packages(t) {
		row, ok := rows[p.name]
		if !ok {
			t.Errorf("%s has no row in layers: add one that says what it may import of the project, and why", p.name)
			continue
		}
		for _, imported := range p.imports() {
			name, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.Contains(row.may, name) && !slices.Contains(row.may, anything) {
				t.Errorf("%s imports %s, and may import %s: %s", p.name, name, list(row.may), row.why)
			}
		}
	}
}

func TestWhatIsOutsideStaysWhereItBelongs(t *testing.T) {
	for _, p := range packages(t) {
		for _, c := range confined() {
			for _, imported := range p.imports() {
				if (imported == c.pkg || strings.HasPrefix(imported, c.pkg+"/")) && !slices.Contains(c.may, p.name) {
					t.Errorf("%s imports %s, which only %s may: %s", p.name, imported, list(c.may), c.why)
				}
			}
		}
	}
}

// libraryNeeds are all the modules that the compiler may need: whoever uses it as a library gets them too.
func libraryNeeds() []string {
	return []string{"github.com/hashicorp/go-bexpr", "github.com/mitchellh/hashstructure"}
}

func TestTheCompilerIsALibraryWithFewNeeds(t *testing.T) {
	for _, p := range packages(t) {
		if p.name != "chain" && p.name != "chain/explain" {
			continue
		}
		for _, imported := range p.imports() {
			domain, _, _ := strings.Cut(imported, "/")
			ours := strings.HasPrefix(imported, module+"/")
			if strings.Contains(domain, ".") && !ours && !slices.Contains(libraryNeeds(), imported) {
				t.Errorf("%s imports %s: beside the standard library it may need only %s, which every user of the library gets too",
					p.name, imported, list(libraryNeeds()))
			}
		}
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
