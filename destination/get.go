package destination

import (
	"bytes"
	"net/netip"

	"google.golang.org/protobuf/encoding/protowire"
)

// State is what is known of a name.
type State uint8

const (
	// Unknown names may exist or not: nothing may be said of them.
	Unknown State = iota
	// NoService is of a name that is known not to exist.
	NoService
	// NoEndpoints is of a name that exists, and is known to have none.
	NoEndpoints
	// Some is of a name that has endpoints.
	Some
)

// Step is one message of Get, encoded.
type Step []byte

// Get is what a stream was told of a name. The zero value is that of a stream that was told nothing.
type Get struct {
	state State
	pool  *Pool // of the state Some
}

// maxStep bounds the messages, well below the 4 MiB that clients take by default.
const maxStep = 3 << 20

// Next returns the steps by which a stream gets to what is known now, none if it is there; pool is of the state
// Some. The first step of all is the whole of the endpoints, or that there are none; a step that takes endpoints
// away follows those that add others; and none says that there are none on the way from some to others.
func (g *Get) Next(state State, pool *Pool) []Step {
	before := *g
	if state == Unknown {
		return nil // what was told stays true for all that is known
	}
	*g = Get{state: state}
	switch {
	case state == Some:
		g.pool = pool
		return before.change(pool)
	case state == before.state:
		return nil
	default:
		return []Step{noEndpoints(state == NoEndpoints)}
	}
}

// Told is what the stream was told last.
func (g *Get) Told() (State, *Pool) { return g.state, g.pool }

// change returns the steps from what was told to the pool.
func (g *Get) change(pool *Pool) []Step {
	if g.pool == pool {
		return nil
	}
	if g.pool == nil {
		return pool.adds(pool.addrs)
	}
	var added, removed [][]byte
	relabelled := !bytes.Equal(g.pool.labels, pool.labels)
	i, j := 0, 0
	old, now := g.pool.set.Endpoints, pool.set.Endpoints
	for i < len(old) || j < len(now) {
		switch {
		case j == len(now) || i < len(old) && old[i].Addr.Compare(now[j].Addr) < 0:
			removed = append(removed, removal(old[i].Addr))
			i++
		case i == len(old) || now[j].Addr.Compare(old[i].Addr) < 0:
			added = append(added, pool.addrs[j])
			j++
		default:
			if relabelled || !bytes.Equal(g.pool.addrs[i], pool.addrs[j]) {
				added = append(added, pool.addrs[j])
			}
			i, j = i+1, j+1
		}
	}
	steps := pool.adds(added)
	return append(steps, pack(updateRemove, nil, removed)...)
}

func (p *Pool) adds(addrs [][]byte) []Step { return pack(updateAdd, p.labels, addrs) }

func removal(a netip.AddrPort) []byte { return field(setAddrs, marshal(tcpAddress(a))) }

// pack puts addresses into as few steps as they take, each with what they have in common.
func pack(number protowire.Number, common []byte, addrs [][]byte) []Step {
	var steps []Step
	for len(addrs) > 0 {
		n, size := 0, len(common)
		for n < len(addrs) && (n == 0 || size+len(addrs[n]) <= maxStep) {
			size += len(addrs[n])
			n++
		}
		b := make([]byte, 0, protowire.SizeTag(number)+protowire.SizeBytes(size))
		b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
		for _, a := range addrs[:n] {
			b = append(b, a...)
		}
		steps = append(steps, append(b, common...))
		addrs = addrs[n:]
	}
	return steps
}

func noEndpoints(exists bool) Step {
	var body []byte
	if exists {
		body = protowire.AppendVarint(protowire.AppendTag(nil, noEndpointsExists, protowire.VarintType), 1)
	}
	return field(updateNoEndpoints, body)
}

// Beat returns a step that changes nothing, to show that the server is well: an add of no endpoints. A stream
// that was told nothing yet gets none, because its first step would be taken for the whole.
func (g *Get) Beat() []Step {
	if g.state == Unknown {
		return nil
	}
	return []Step{field(updateAdd, nil)}
}
