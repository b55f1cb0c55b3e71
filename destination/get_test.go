package destination

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	conduitpb "github.com/catenary-mesh/catenary/internal/proto/conduit"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

func endpoint(addr string) Endpoint {
	return Endpoint{Addr: netip.MustParseAddrPort(addr), Weight: 1, Instance: "i-" + addr, Node: "n1"}
}

func poolOf(service string, list ...Endpoint) *Pool {
	return Encoder{}.Encode(NewSet(Labels{Service: service, Datacenter: "dc1"}, list), nil)
}

// text is steps as a reader likes them.
func text(t *testing.T, steps []Step) string {
	t.Helper()
	var words []string
	for _, s := range steps {
		u := decodeStep(t, s)
		switch {
		case u.GetAdd() != nil:
			words = append(words, "add"+addresses(u.GetAdd().GetAddrs()))
		case u.GetRemove() != nil:
			word := "remove"
			for _, a := range u.GetRemove().GetAddrs() {
				word += " " + addrOf(a).String()
			}
			words = append(words, word)
		case u.GetNoEndpoints() != nil:
			words = append(words, fmt.Sprintf("none exists=%v", u.GetNoEndpoints().GetExists()))
		}
	}
	return strings.Join(words, "; ")
}

func decodeStep(t *testing.T, s Step) *pb.Update {
	t.Helper()
	u := &pb.Update{}
	if err := proto.Unmarshal(s, u); err != nil {
		t.Fatal(err)
	}
	return u
}

func addresses(list []*pb.WeightedAddr) string {
	var words strings.Builder
	for _, w := range list {
		words.WriteString(" " + addrOf(w.GetAddr()).String())
	}
	return words.String()
}

func addrOf(a *pb.TcpAddress) netip.AddrPort {
	if v6 := a.GetIp().GetIpv6(); v6 != nil {
		var octets [16]byte
		for i := range 8 {
			octets[i], octets[8+i] = byte(v6.GetFirst()>>(56-8*i)), byte(v6.GetLast()>>(56-8*i))
		}
		return netip.AddrPortFrom(netip.AddrFrom16(octets), uint16(a.GetPort()))
	}
	v4 := a.GetIp().GetIpv4()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)}), uint16(a.GetPort()))
}

func TestEveryChangeIsTold(t *testing.T) {
	a, b, c := endpoint("10.0.0.1:80"), endpoint("10.0.0.2:80"), endpoint("[2001:db8::1]:80")
	heavy := a
	heavy.Weight = 9
	type now struct {
		state State
		pool  *Pool
		want  string
	}
	some := func(want string, p *Pool) now { return now{Some, p, want} }
	for name, story := range map[string][]now{
		"whole first, then differences": {
			some("add 10.0.0.1:80 10.0.0.2:80", poolOf("api", b, a)),
			some("", poolOf("api", a, b)),
			some("add [2001:db8::1]:80; remove 10.0.0.1:80", poolOf("api", b, c)),
			some("remove 10.0.0.2:80", poolOf("api", c)),
		},
		"an endpoint that changed is added again": {
			some("add 10.0.0.1:80 10.0.0.2:80", poolOf("api", a, b)),
			some("add 10.0.0.1:80", poolOf("api", heavy, b)),
		},
		"nothing is said of what is not known": {
			{Unknown, nil, ""},
			some("add 10.0.0.1:80", poolOf("api", a)),
			{Unknown, nil, ""},
			some("add 10.0.0.2:80", poolOf("api", a, b)),
		},
		"a name that does not exist, then does": {
			{NoService, nil, "none exists=false"},
			{NoService, nil, ""},
			{NoEndpoints, nil, "none exists=true"},
			{NoEndpoints, nil, ""},
			some("add 10.0.0.1:80", poolOf("api", a)),
		},
		"the last one goes, then the service": {
			some("add 10.0.0.1:80", poolOf("api", a)),
			{NoEndpoints, nil, "none exists=true"},
			{NoService, nil, "none exists=false"},
			some("add 10.0.0.1:80", poolOf("api", a)),
			{NoService, nil, "none exists=false"},
		},
		"failover adds before it removes": {
			some("add 10.0.0.1:80", poolOf("api", a)),
			some("add 10.0.0.2:80; remove 10.0.0.1:80", poolOf("spare", b)),
		},
		"labels of all": {
			some("add 10.0.0.1:80 10.0.0.2:80", poolOf("api", a, b)),
			some("add 10.0.0.1:80 10.0.0.2:80", poolOf("spare", a, b)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var g Get
			for i, n := range story {
				if got := text(t, g.Next(n.state, n.pool)); got != n.want {
					t.Errorf("step %d: got %q, want %q", i, got, n.want)
				}
			}
		})
	}
}

func TestABeatChangesNothingAndIsNeverFirst(t *testing.T) {
	var g Get
	if steps := g.Beat(); len(steps) != 0 {
		t.Error("a stream that was told nothing is sent a beat: its first message would be taken for the whole")
	}
	g.Next(NoEndpoints, nil)
	steps := g.Beat()
	if len(steps) != 1 || decodeStep(t, steps[0]).GetAdd() == nil || len(decodeStep(t, steps[0]).GetAdd().GetAddrs()) != 0 {
		t.Errorf("got %v, want an add of no endpoints", steps)
	}
	if state, _ := g.Told(); state != NoEndpoints {
		t.Errorf("a beat made the state %v", state)
	}
}

func TestEndpointsAsLinkerdAndConduitHaveThem(t *testing.T) {
	http2, err := ParseHTTP2("keepalive=10s,timeout=3s,while-idle")
	if err != nil {
		t.Fatal(err)
	}
	mesh := Endpoint{
		Addr: netip.MustParseAddrPort("[::ffff:10.0.0.1]:80"), Weight: 3, Instance: "api-1", Node: "n1", Zone: "a", Region: "r",
		Identity: "spiffe://x/ns/default/dc/dc1/svc/api", ServerName: "api.default.dc1.internal.x", Opaque: true,
	}
	plain := mesh
	plain.Addr, plain.Identity, plain.ServerName, plain.Opaque, plain.Zone = netip.MustParseAddrPort("10.0.0.2:80"), "", "", false, ""
	halfway := plain
	halfway.Addr, halfway.Identity = netip.MustParseAddrPort("10.0.0.3:80"), mesh.Identity
	s := NewSet(Labels{Service: "api", Datacenter: "dc1"}, []Endpoint{mesh, plain, halfway})
	e := Encoder{Origin: ParseToken(`{"nodeName":"n1"}`), HTTP2: http2}.For(s)
	first := e.Weighted(&s.Endpoints[0])
	if first.GetAddr().GetIp().GetIpv4() != 0x0a000001 || first.GetWeight() != 30_000 {
		t.Errorf("got address %v and weight %d", first.GetAddr(), first.GetWeight())
	}
	if first.GetTlsIdentity().GetUriLikeIdentity().GetUri() != mesh.Identity || first.GetTlsIdentity().GetServerName().GetName() != mesh.ServerName {
		t.Errorf("got identity %v", first.GetTlsIdentity())
	}
	if first.GetProtocolHint().GetOpaque() == nil || first.GetProtocolHint().GetOpaqueTransport() != nil || !first.GetHttp2().GetKeepAlive().GetWhileIdle() {
		t.Errorf("got hint %v and http2 %v", first.GetProtocolHint(), first.GetHttp2())
	}
	want := map[string]string{"instance": "api-1", "node": "n1", "zone": "a", "zone_locality": "local"}
	if !maps.Equal(first.GetMetricLabels(), want) {
		t.Errorf("got labels %v, want %v", first.GetMetricLabels(), want)
	}
	for i := 1; i < 3; i++ {
		w := e.Weighted(&s.Endpoints[i])
		if w.GetTlsIdentity() != nil || w.GetHttp2() != nil || w.GetProtocolHint() != nil || w.GetMetricLabels()["zone_locality"] != "unknown" {
			t.Errorf("a plain endpoint is %v", w)
		}
	}
	old := &conduitpb.Update{}
	e.Conduit = true
	var g Get
	if err := proto.Unmarshal(g.Next(Some, e.Encode(s, nil))[0], old); err != nil {
		t.Fatal(err)
	}
	for _, w := range old.GetAdd().GetAddrs() {
		if len(w.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("Conduit gets fields it does not know: %v", w)
		}
	}
	if labels := old.GetAdd().GetMetricLabels(); labels["service"] != "api" || labels["namespace"] != "default" || labels["datacenter"] != "dc1" {
		t.Errorf("the set has labels %v", labels)
	}
}

func TestZonesAreToldAsSeenFromTheProxy(t *testing.T) {
	near, far, none := endpoint("10.0.0.1:80"), endpoint("10.0.0.2:80"), endpoint("10.0.0.3:80")
	near.Zone, near.Region, far.Zone, far.Region = "a", "r", "b", "r"
	none.Node = "n3"
	s := NewSet(Labels{}, []Endpoint{near, far, none})
	far.Node = "n2"
	for token, want := range map[string]string{
		"":                          "unknown unknown unknown",
		`{"zone":"a"}`:              "local remote unknown",
		`{"zone":"a","region":"r"}`: "local remote unknown",
		`{"zone":"a","region":"q"}`: "remote remote unknown",
		`{"zone":"c"}`:              "remote remote unknown",
		`{"nodeName":"N1"}`:         "local remote unknown",
		`{"nodeName":"n3"}`:         "unknown unknown unknown",
		`{"nodeName":"who"}`:        "unknown unknown unknown",
	} {
		e := Encoder{Origin: ParseToken(token)}.For(s)
		var got []string
		for i := range s.Endpoints {
			got = append(got, e.Weighted(&s.Endpoints[i]).GetMetricLabels()["zone_locality"])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", token, got, want)
		}
	}
	bare := NewSet(Labels{}, []Endpoint{{Addr: near.Addr, Zone: "a"}, {Addr: far.Addr, Zone: "a", Region: "r"}})
	for _, region := range []string{"x", "y"} {
		if got := (Encoder{Origin: Origin{Zone: "a", Region: region}}).For(bare); got.Origin.Region != elsewhere || locality(got.Origin, &bare.Endpoints[0]) != "local" || locality(got.Origin, &bare.Endpoints[1]) != "remote" {
			t.Errorf("of a region that is nobody's: %+v", got)
		}
	}
	one, other := Encoder{Origin: Origin{Zone: "x"}}.For(s), Encoder{Origin: Origin{Zone: "y", Node: "n"}}.For(s)
	if one != other {
		t.Errorf("two proxies that get the same have different encoders: %+v, %+v", one, other)
	}
}

// client applies steps by the rules that the protocol sets for clients.
type client struct {
	fresh bool // nothing was heard on this connection
	state State
	has   map[netip.AddrPort]*pb.WeightedAddr
}

func (c *client) apply(t *testing.T, u *pb.Update) {
	switch {
	case u.GetAdd() != nil:
		if c.fresh {
			c.has = map[netip.AddrPort]*pb.WeightedAddr{}
		}
		for _, w := range u.GetAdd().GetAddrs() {
			c.has[addrOf(w.GetAddr())] = w
			c.state = Some
		}
	case u.GetRemove() != nil:
		if c.fresh {
			t.Fatal("the first message is a remove")
		}
		for _, a := range u.GetRemove().GetAddrs() {
			delete(c.has, addrOf(a))
		}
		if len(c.has) == 0 {
			t.Fatal("a remove leaves nothing, where it should be said that there is nothing")
		}
	default:
		c.state, c.has = NoService, map[netip.AddrPort]*pb.WeightedAddr{}
		if u.GetNoEndpoints().GetExists() {
			c.state = NoEndpoints
		}
	}
	c.fresh = false
}

func TestAClientThatAppliesEveryStepHasWhatThereIs(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var g Get
		c := &client{fresh: true, has: map[netip.AddrPort]*pb.WeightedAddr{}}
		state, pool := Unknown, (*Pool)(nil)
		for range 60 {
			switch random.IntN(8) {
			case 0:
				g, c.fresh = Get{}, true // it reconnects, and keeps what it has until it hears
			case 1:
				if state != Unknown {
					state, pool = NoService, nil
				}
			case 2:
				state, pool = NoEndpoints, nil
			case 3:
				for _, s := range g.Beat() {
					c.apply(t, decodeStep(t, s))
				}
			default:
				state, pool = Some, randomPool(random, pool)
			}
			if random.IntN(4) == 0 {
				continue // it is slow, and finds only the latest
			}
			steps := g.Next(state, pool)
			for i, s := range steps {
				c.apply(t, decodeStep(t, s))
				if state == Some && c.state != Some {
					t.Fatalf("seed %d: step %d of %s takes the client by way of nothing", seed, i, text(t, steps))
				}
			}
			check(t, c, state, pool)
		}
	}
}

func randomPool(random *rand.Rand, before *Pool) *Pool {
	var list []Endpoint
	for i := range 1 + random.IntN(6) {
		ep := endpoint(fmt.Sprintf("10.0.0.%d:80", 1+random.IntN(8)))
		ep.Weight = 1 + uint32(random.IntN(2))
		if i%3 == 2 {
			ep.Addr = netip.MustParseAddrPort(fmt.Sprintf("[2001:db8::%d]:80", 1+random.IntN(3)))
		}
		list = append(list, ep)
	}
	return Encoder{}.Encode(NewSet(Labels{Service: []string{"api", "spare"}[random.IntN(2)]}, list), before)
}

func check(t *testing.T, c *client, state State, pool *Pool) {
	t.Helper()
	if state == Unknown {
		return
	}
	if c.state != state {
		t.Fatalf("the client has state %d, and there is %d", c.state, state)
	}
	if state != Some {
		return
	}
	if len(c.has) != len(pool.set.Endpoints) {
		t.Fatalf("the client has %d endpoints of %d", len(c.has), len(pool.set.Endpoints))
	}
	for i := range pool.set.Endpoints {
		ep := &pool.set.Endpoints[i]
		if got := c.has[ep.Addr]; !proto.Equal(got, Encoder{}.Weighted(ep)) {
			t.Fatalf("the client has %v for %+v", got, ep)
		}
	}
}

func TestHTTP2Parameters(t *testing.T) {
	for _, bad := range []string{"x", "keepalive=10s", "timeout=3s", "keepalive=0s,timeout=1s", "keepalive=10s,timeout=x", "connection-window=5", "while-idle=perhaps", "max-frame-size=-1", "max-frame-size=99999999999"} {
		if p, err := ParseHTTP2(bad); err == nil {
			t.Errorf("%s: got %v", bad, p)
		}
	}
	if p, err := ParseHTTP2(""); p != nil || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
	p, err := ParseHTTP2("connection-window=65535, stream-window=65535,max-frame-size=16384,adaptive=false,max-send-buffer=1,max-reset-streams=2")
	if err != nil || p.GetFlowControl().GetInitialStreamWindowSize() != 65535 || p.GetInternals().GetMaxFrameSize() != 16384 {
		t.Errorf("got %v, %v", p, err)
	}
}
