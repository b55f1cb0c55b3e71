package destination

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// world is a source of facts that knows everything, unless a test has it otherwise.
type world struct {
	t     testing.TB
	store *facts.Store
	names []string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: facts.New()}
	w.entries()
	w.services()
	w.virtual(nil)
	return w
}

// virtual sets which services have which virtual IPs by hand. All in the tests are said to have been asked about.
func (w *world) virtual(manual map[string]string) {
	all := facts.Virtual{Services: map[string]facts.ServiceIPs{}}
	for _, name := range []string{"api", "web", "other", "spare", "ext"} {
		all.Services[name] = facts.ServiceIPs{}
	}
	for name, ip := range manual {
		all.Services[name] = facts.ServiceIPs{Manual: []netip.Addr{netip.MustParseAddr(ip)}}
	}
	w.store.Commit(func(tx *facts.Tx) { tx.VirtualIPs("dc1", all) })
}

var sure = facts.Reading{Confirmed: true}

// entries replaces all entries. Services speak http unless one says otherwise.
func (w *world) entries(list ...chain.Entry) {
	byKind := map[chain.Kind][]chain.Entry{}
	list = append(list, &chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, Config: map[string]any{"protocol": "http"}})
	for _, e := range list {
		byKind[e.Kind()] = append(byKind[e.Kind()], chain.Normalize(e))
	}
	w.store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, byKind[kind], sure)
		}
	})
}

func (w *world) services(names ...string) {
	w.names = names
	w.store.Commit(func(tx *facts.Tx) { tx.Services("dc1", names, sure) })
}

// service sets all instances of a service, and what takes mesh traffic for it.
func (w *world) service(name string, plain, mesh []*facts.Instance) {
	w.store.Commit(func(tx *facts.Tx) {
		tx.Instances(facts.Health("dc1", name), plain, sure)
		tx.Instances(facts.Connect("dc1", name), mesh, sure)
	})
}

// instance is one on node n<i> with the address 10.0.0.<i>.
func instance(service string, i int) *facts.Instance {
	return &facts.Instance{
		Node:    facts.Node{Node: fmt.Sprintf("n%d", i), Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Datacenter: "dc1"},
		Service: facts.Service{Service: service, ID: fmt.Sprintf("%s-%d", service, i), Port: 8080},
	}
}

func sidecar(service string, i int) *facts.Instance {
	in := instance(service+"-sidecar-proxy", i)
	in.Service.Kind, in.Service.Port = "connect-proxy", 20000
	in.Service.Proxy = &facts.Proxy{DestinationServiceName: service, DestinationServiceID: fmt.Sprintf("%s-%d", service, i)}
	return in
}

func critical(in *facts.Instance) *facts.Instance {
	c := *in
	c.Checks = []facts.Check{{CheckID: "c", Status: facts.StatusCritical}}
	return &c
}

func list(in ...*facts.Instance) []*facts.Instance { return in }

func place1() Place { return Place{Datacenter: "dc1", TrustDomain: "x.consul"} }

// resolved is what a name comes to, in words.
func (w *world) resolved(path string, last *chain.Chain) (string, Resolution) {
	w.t.Helper()
	name, err := names().Parse(path)
	if err != nil {
		w.t.Fatal(err)
	}
	r := place1().Resolve(w.store.View(), name, "", last)
	text := map[State]string{Unknown: "unknown", NoService: "no service", NoEndpoints: "no endpoints", Some: "some:"}[r.State]
	for _, e := range r.Set.endpoints() {
		text += " " + e.Addr.String()
		if e.Identity != "" {
			text += "=" + e.Identity + "@" + e.ServerName
		}
	}
	return text, r
}

func instanceAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(instance("", i).Node.Address), 8080)
}
