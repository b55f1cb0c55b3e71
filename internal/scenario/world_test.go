package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/entry"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

func config() snapshot.Config {
	return snapshot.Config{Datacenter: "dc1", TrustDomain: "catenary.local"}
}

// world is what a scenario starts from.
type world struct {
	entries   []chain.Entry
	instances []*facts.Instance
	client    snapshot.Client
	calls     []string
	// intentions says what holds by default between the services of a mesh: allow or deny.
	intentions string
}

func readWorld(t *testing.T, ar *txtar.Archive) world {
	t.Helper()
	var w world
	for _, f := range ar.Files {
		switch {
		case path.Dir(f.Name) == "entries", f.Name == "services.hcl":
			w.read(t, f, config().Datacenter)
		case path.Dir(f.Name) == "services":
			w.read(t, f, strings.TrimSuffix(path.Base(f.Name), ".hcl"))
		case f.Name == "client.json":
			w.client, w.intentions = readClient(t, f.Data)
		case f.Name == "calls":
			for line := range strings.Lines(string(f.Data)) {
				w.calls = append(w.calls, strings.TrimSpace(line))
			}
		case !strings.HasPrefix(f.Name, wantDir):
			t.Fatalf("%s is no part of a scenario", f.Name)
		}
	}
	return w
}

// read adds what a file in Consul's own format holds, of services those of a datacenter.
func (w *world) read(t *testing.T, f txtar.File, datacenter string) {
	t.Helper()
	file := entry.Decode(f.Name, f.Data)
	for _, p := range file.Problems {
		if p.IsError() {
			t.Errorf("%s: %s: %s", p.Origin, p.Entry, p.Message)
		}
	}
	for _, in := range file.Instances {
		in.Node.Datacenter = datacenter
	}
	w.entries = append(w.entries, file.Entries...)
	w.instances = append(w.instances, file.Instances...)
}

func readClient(t *testing.T, data []byte) (c snapshot.Client, intentions string) {
	t.Helper()
	var known struct{ ID, Service, Intentions string }
	if err := json.Unmarshal(data, &known); err != nil {
		t.Fatalf("client.json: %v", err)
	}
	if known.ID != "" {
		return snapshot.Client{ID: known.ID, Service: known.Service, Proved: true}, cmp.Or(known.Intentions, "allow")
	}
	m, err := bootstrap.ParseMetadata(data)
	if err != nil {
		t.Fatalf("client.json: %v", err)
	}
	c = snapshot.Client{ID: m.Service + "-1", Service: m.Service, Declared: true}
	for _, u := range m.Upstreams {
		c.Upstreams = append(c.Upstreams, snapshot.Upstream{
			Service: u.Service, Datacenter: u.Datacenter, BindAddress: u.BindAddress, BindPort: u.BindPort,
		})
	}
	return c, ""
}

// store is a closed world: what is not in the scenario does not exist.
func (w world) store() *facts.Store {
	byKind := map[chain.Kind][]chain.Entry{}
	for _, e := range w.entries {
		byKind[e.Kind()] = append(byKind[e.Kind()], e)
	}
	topics := map[facts.Topic][]*facts.Instance{}
	names := map[string][]string{config().Datacenter: nil}
	for _, in := range w.instances {
		names[in.Node.Datacenter] = append(names[in.Node.Datacenter], in.Service.Service)
		for _, topic := range topicsOf(in) {
			topics[topic] = append(topics[topic], in)
		}
	}
	confirmed := facts.Reading{Confirmed: true}
	s := facts.New()
	s.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, byKind[kind], confirmed)
		}
		for datacenter, list := range names {
			tx.Services(datacenter, list, confirmed)
		}
		for topic, list := range topics {
			tx.Instances(topic, list, confirmed)
		}
		if w.intentions != "" {
			tx.Roots(facts.Roots{TrustDomain: config().TrustDomain, List: []facts.Root{{ID: "root", Cert: "ROOT", Active: true}}})
			tx.Leaf(facts.LeafOf(w.client.Service), facts.Leaf{Service: w.client.Service, Serial: "1"})
			tx.DefaultIntention(w.intentions == "allow")
		}
		tx.CloseWorld()
	})
	return s
}

// topicsOf says under which topics Consul lists an instance.
func topicsOf(in *facts.Instance) []facts.Topic {
	dc := in.Node.Datacenter
	topics := []facts.Topic{facts.Health(dc, in.Service.Service)}
	if p := in.Service.Proxy; in.Service.Kind == "connect-proxy" && p != nil {
		topics = append(topics,
			facts.Connect(dc, p.DestinationServiceName), facts.Proxies(dc, p.DestinationServiceName))
	}
	if in.Service.Connect.Native {
		topics = append(topics, facts.Connect(dc, in.Service.Service))
	}
	if in.Service.Kind == "mesh-gateway" {
		topics = append(topics, facts.Gateways(dc))
	}
	return topics
}

// doors says where the client's own service finds each upstream: SERVICE or SERVICE@DATACENTER.
func (w world) doors() map[string]string {
	doors := map[string]string{}
	add := func(service, dc string, b snapshot.Bind) {
		if dc != "" {
			service += "@" + dc
		}
		b.Address = cmp.Or(b.Address, "127.0.0.1")
		doors[service] = b.String()
	}
	for _, u := range w.client.Upstreams {
		add(u.Service, u.Datacenter, snapshot.Bind{Address: u.BindAddress, Port: u.BindPort})
	}
	for _, in := range w.instances {
		if in.Service.Proxy == nil || in.Service.ID != w.client.ID {
			continue
		}
		for _, u := range in.Service.Proxy.Upstreams {
			add(u.DestinationName, u.Datacenter, snapshot.Bind{
				Address: u.LocalBindAddress, Port: u.LocalBindPort, SocketPath: u.LocalBindSocketPath,
			})
		}
	}
	return doors
}

// names says which instance is at an address.
func (w world) names() map[string]string {
	names := map[string]string{}
	for _, in := range w.instances {
		address := in.Service.Address
		if address == "" {
			address = in.Node.Address
		}
		names[net.JoinHostPort(address, fmt.Sprint(in.Service.Port))] = in.Service.ID
		if wan, ok := in.Service.TaggedAddresses["wan"]; ok {
			names[net.JoinHostPort(wan.Address, fmt.Sprint(wan.Port))] = in.Service.ID
		}
	}
	return names
}
