package hds

// fleet is the checkers, one index each, with what is asked of them most in arrays of its own.
type fleet struct {
	checkers []Checker
	// can is 0 for an index that is free.
	can    []skill
	load   []int32
	hash   []uint64
	place  []place
	duties []map[int32]struct{}
	free   []int32
	places places
}

// skill is what a checker can do and a probe needs, as bits.
type skill uint8

const (
	present skill = 1 << iota
	canHTTP
	canTCP
	canGRPC
	canRedis
	canTLS
	// canNothing is what nobody can.
	canNothing
)

func (c Capability) skills() skill {
	var s skill
	for _, x := range []struct {
		bit skill
		has bool
	}{{canHTTP, c.HTTP}, {canTCP, c.TCP}, {canGRPC, c.GRPC}, {canRedis, c.Redis}, {canTLS, c.TLS}} {
		if x.has {
			s |= x.bit
		}
	}
	return s
}

// needs is the skills of a checker that can do the probe.
func (p Probe) needs() skill {
	need := present
	switch p.Protocol {
	case HTTP:
		need |= canHTTP
	case TCP:
		need |= canTCP
	case GRPC:
		need |= canGRPC
	case Redis:
		need |= canRedis
	default:
		need |= canNothing
	}
	if p.TLS {
		need |= canTLS
	}
	return need
}

// Can reports whether the checker can do the probe.
func (c Capability) Can(p Probe) bool {
	need := p.needs()
	return (c.skills()|present)&need == need
}

// place is where something runs, in numbers: 0 is not known.
type place struct{ node, zone int32 }

// places numbers nodes and zones.
type places struct {
	nodes map[string]int32
	zones map[[2]string]int32
}

func newPlaces() places { return places{map[string]int32{"": 0}, map[[2]string]int32{{}: 0}} }

func (p places) of(node, region, zone string) place {
	return place{number(p.nodes, node), number(p.zones, [2]string{region, zone})}
}

func number[K comparable](m map[K]int32, k K) int32 {
	n, ok := m[k]
	if !ok {
		n = int32(len(m))
		m[k] = n
	}
	return n
}

func (f *fleet) add(c Checker) int32 {
	at := int32(len(f.checkers))
	if n := len(f.free); n > 0 {
		at = f.free[n-1]
		f.free = f.free[:n-1]
	} else {
		f.checkers = append(f.checkers, Checker{})
		f.can = append(f.can, 0)
		f.load = append(f.load, 0)
		f.hash = append(f.hash, 0)
		f.place = append(f.place, place{})
		f.duties = append(f.duties, nil)
	}
	f.checkers[at], f.can[at], f.load[at] = c, c.Can.skills()|present, 0
	f.hash[at] = hashText(hashSeed, c.ID)
	f.place[at] = f.places.of(c.Node, c.Region, c.Zone)
	f.duties[at] = map[int32]struct{}{}
	return at
}

func (f *fleet) remove(at int32) {
	f.can[at], f.load[at] = 0, 0
	f.checkers[at] = Checker{}
	f.duties[at] = nil
	f.free = append(f.free, at)
}

// hashSeed and hashPrime are those of 64-bit FNV-1a: hashes must be the same after a restart, so that the
// same checkers get the same duties.
const (
	hashSeed  = 14695981039346656037
	hashPrime = 1099511628211
)

func hashText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return (h ^ 0xff) * hashPrime
}

func hashKey(k Key) uint64 {
	return (hashText(hashText(hashSeed, k.Set), k.Address) ^ uint64(k.Port)) * hashPrime
}

// score ranks checkers for an endpoint. It mixes as SplitMix64 does: the hashes of similar names differ
// in few bits.
func score(endpoint, checker uint64) uint64 {
	x := endpoint ^ checker*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
