package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// generator makes the entries and questions of one group of services. The same seed makes the same.
type generator struct {
	*rand.Rand
	// suffix keeps the group's names apart from those of all others.
	suffix string
	names  []string
	// protocol is what most of the group speaks: with a free choice for each, hardly a chain compiles.
	protocol string
	// shouting is how often a name is written in upper case where another entry or a question has it.
	shouting float64
	// strange is how often an entry takes over fields of one of odd.
	strange float64
	odd     map[chain.Kind][]object
	// modifiers are the maps that every header modifier of the group has: see headers.
	modifiers []string
}

// newGenerator returns the generator of one group.
func newGenerator(seed, group uint64, odd map[chain.Kind][]object) *generator {
	g := &generator{
		Rand:   rand.New(rand.NewPCG(seed, group)),
		suffix: fmt.Sprintf("-g%d", group),
		odd:    odd,
	}
	for _, letter := range []string{"a", "b", "c", "d", "e", "f"}[:3+g.IntN(4)] {
		g.names = append(g.names, letter+g.suffix)
	}
	g.protocol = pick(g, "http", "http", "http", "http2", "grpc", "tcp")
	g.shouting = pick(g, 0, 0, 0, 0.2)
	g.strange = pick(g, 0, 0, 0.1)
	g.modifiers = pick(g, []string{"Add", "Set"}, []string{"Add"}, []string{"Set"}, nil)
	return g
}

// odds is true with this probability.
func (g *generator) odds(p float64) bool { return g.Float64() < p }

// pick returns one of the values.
func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// maybe sets a field with a probability.
func (g *generator) maybe(p float64, o object, key string, value func() any) {
	if g.odds(p) {
		o[key] = value()
	}
}

// own is the name of a service of the group as its own entries have it.
func (g *generator) own() string { return g.names[g.IntN(len(g.names))] }

// other is a name as an entry refers to it.
func (g *generator) other() any {
	name := g.own()
	if g.odds(g.shouting) {
		return strings.ToUpper(name)
	}
	return name
}

func (g *generator) subset() any { return pick(g, "v1", "v1", "v2", "v2", "v3") }

func (g *generator) datacenter() any { return pick(g, "dc1", "dc2", "dc2", "dc3", "DC1") }

func (g *generator) peer() any { return pick(g, "east", "west") }

// duration is text or a number of nanoseconds.
func (g *generator) duration() any {
	return pick[any](g, "1s", "3s", "5s", "7s", "250ms", "0s", "1m30s", 2500000000, "1ns")
}

// headers are the modifiers of one side of a leg or route. Consul crashes when it merges two that are
// not empty, of which one has Add, or Set, and the other has not: all of a group therefore have the
// same of these maps.
func (g *generator) headers() any {
	m := object{}
	if g.odds(0.1) {
		return m
	}
	for _, key := range g.modifiers {
		m[key] = object{pick(g, "x", "X", "y", "z"): pick(g, "1", "2", "<3", "4&")}
	}
	if len(m) == 0 || g.odds(0.5) {
		m["Remove"] = pick(g, []string{"r1"}, []string{"r2", "r1"}, []string{"r3", "r1", "r1"})
	}
	return m
}

// entry is any entry of the group, of a kind drawn by how much it adds to a chain.
func (g *generator) entry() object {
	return g.of(pick(g,
		chain.KindServiceDefaults, chain.KindServiceRouter, chain.KindServiceRouter,
		chain.KindServiceSplitter, chain.KindServiceSplitter, chain.KindServiceSplitter,
		chain.KindServiceResolver, chain.KindServiceResolver, chain.KindServiceResolver, chain.KindServiceResolver,
	), g.own())
}

// of makes an entry of a kind with a name.
func (g *generator) of(kind chain.Kind, name string) object {
	var doc object
	switch kind {
	case chain.KindProxyDefaults:
		doc = g.proxyDefaults()
	case chain.KindServiceDefaults:
		doc = g.serviceDefaults()
	case chain.KindServiceRouter:
		doc = g.router()
	case chain.KindServiceSplitter:
		doc = g.splitter()
	case chain.KindServiceResolver:
		doc = g.resolver()
	case chain.KindServiceIntentions, chain.KindMesh: // no chain reads them
	}
	if odd := g.odd[kind]; len(odd) > 0 && g.odds(g.strange) {
		for key, value := range pick(g, odd...) {
			doc[key] = value
		}
	}
	g.maybe(0.1, doc, "Meta", func() any { return object{"owner": g.own()} })
	if g.odds(0.15) {
		doc = g.respelled(doc)
	}
	doc["Kind"], doc["Name"] = string(kind), name
	return doc
}

// question asks for a chain of the group, or of nothing.
func (g *generator) question(name string) question {
	q := question{Service: name, Datacenter: pick(g, "", "dc1", "dc1", "dc2", "DC1", "no-such")}
	if g.odds(0.05) {
		q.Service = "nothing" + g.suffix
	}
	if g.odds(g.shouting) {
		q.Service = strings.ToUpper(q.Service)
	}
	if g.odds(0.55) {
		return q
	}
	if g.odds(0.5) {
		q.Overrides.Protocol = pick(g, "http", "tcp", "grpc", "http2", "HTTP", "banana")
	}
	if g.odds(0.5) {
		q.Overrides.ConnectTimeout = pick(g, seconds(3), seconds(5), seconds(7), seconds(-1), 1)
	}
	if g.odds(0.5) {
		q.Overrides.MeshGateway = pick(g, chain.MeshGatewayLocal, chain.MeshGatewayNone, chain.MeshGatewayRemote)
	}
	return q
}
