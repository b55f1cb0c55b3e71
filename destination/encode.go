package destination

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// The field numbers of steps, which are those of Conduit too.
const (
	updateAdd         protowire.Number = 1
	updateRemove      protowire.Number = 2
	updateNoEndpoints protowire.Number = 3

	setAddrs protowire.Number = 1

	noEndpointsExists protowire.Number = 1
)

// weightScale is what a weight of 1 is for Linkerd, whose weights are relative to 10,000.
const weightScale = 10_000

// Group is what references to things in Consul have for a group.
const Group = "consul"

// Encoder says how endpoints are encoded. Two that are equal encode alike.
type Encoder struct {
	// Conduit leaves out what Conduit does not know.
	Conduit bool
	// Origin is where the proxy runs, as far as it makes a difference: see [Encoder.For].
	Origin Origin
	// HTTP2 is given to endpoints in the mesh; nil for nothing.
	HTTP2 *pb.Http2ClientParams
}

// elsewhere is the zone or region of proxies that have one which no endpoint of the set is in: they all get the same,
// and however many names they make up for it they are one.
const elsewhere = "*"

// For returns the encoder with its origin reduced to what makes a difference for the set, so that proxies that
// are to get the same have equal encoders.
func (e Encoder) For(s *Set) Encoder {
	from := Origin{Region: e.Origin.Region, Zone: e.Origin.Zone}
	where := s.where()
	if at, ok := where.nodes[strings.ToLower(e.Origin.Node)]; ok && from.Zone == "" {
		from = at
	}
	switch regions := where.zones[from.Zone]; {
	case from.Zone == "":
		from = Origin{}
	case from.Region != "" && !regions[from.Region] && regions[""]:
		from.Region = elsewhere // near to the endpoints that have no region, whatever its own is
	case len(regions) == 0, from.Region != "" && !regions[from.Region]:
		from = Origin{Zone: elsewhere}
	}
	e.Origin = from
	return e
}

func (s *Set) endpoints() []Endpoint {
	if s == nil {
		return nil
	}
	return s.Endpoints
}

// locality is the word for how near an endpoint is. Zones of one name in different regions are different.
func locality(from Origin, ep *Endpoint) string {
	switch {
	case from.Zone == "" || ep.Zone == "":
		return "unknown"
	case from.Zone == ep.Zone && (from.Region == "" || ep.Region == "" || from.Region == ep.Region):
		return "local"
	}
	return "remote"
}

// Weighted returns an endpoint as Linkerd has it.
func (e Encoder) Weighted(ep *Endpoint) *pb.WeightedAddr {
	w := &pb.WeightedAddr{
		Addr: tcpAddress(ep.Addr), Weight: max(ep.Weight, 1) * weightScale,
		MetricLabels: map[string]string{
			"instance": ep.Instance, "node": ep.Node, "zone": ep.Zone, "zone_locality": locality(e.Origin, ep),
		},
	}
	if e.Conduit {
		return w
	}
	if ep.Identity != "" && ep.ServerName != "" {
		w.TlsIdentity = &pb.TlsIdentity{
			Strategy:   &pb.TlsIdentity_UriLikeIdentity_{UriLikeIdentity: &pb.TlsIdentity_UriLikeIdentity{Uri: ep.Identity}},
			ServerName: &pb.TlsIdentity_DnsLikeIdentity{Name: ep.ServerName},
		}
		w.Http2 = e.HTTP2
	}
	if ep.Opaque {
		w.ProtocolHint = &pb.ProtocolHint{Protocol: &pb.ProtocolHint_Opaque_{Opaque: &pb.ProtocolHint_Opaque{}}}
	}
	if ep.Instance != "" {
		w.ResourceRef = resource("ServiceInstance", ep.Instance, uint32(ep.Addr.Port()))
	}
	return w
}

// Whole returns a set as Linkerd has it.
func (e Encoder) Whole(s *Set) *pb.WeightedAddrSet {
	e = e.For(s)
	out := &pb.WeightedAddrSet{MetricLabels: s.Labels.words()}
	for i := range s.Endpoints {
		out.Addrs = append(out.Addrs, e.Weighted(&s.Endpoints[i]))
	}
	return out
}

func resource(kind, name string, port uint32) *pb.Metadata {
	return &pb.Metadata{Kind: &pb.Metadata_Resource{Resource: &pb.Resource{
		Group: Group, Kind: kind, Name: name, Namespace: namespace, Port: port,
	}}}
}

// tcpAddress is an address as Linkerd and Conduit have it.
func tcpAddress(a netip.AddrPort) *pb.TcpAddress {
	ip := a.Addr().Unmap()
	out := &pb.TcpAddress{Port: uint32(a.Port()), Ip: &pb.IPAddress{}}
	if ip.Is4() {
		octets := ip.As4()
		out.Ip.Ip = &pb.IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(octets[:])}
		return out
	}
	octets := ip.As16()
	out.Ip.Ip = &pb.IPAddress_Ipv6{Ipv6: &pb.IPv6{
		First: binary.BigEndian.Uint64(octets[:8]), Last: binary.BigEndian.Uint64(octets[8:]),
	}}
	return out
}

// Pool is an encoded set. It does not change, and streams share it.
type Pool struct {
	set    *Set
	labels []byte   // as fields of a set of addresses
	addrs  [][]byte // of each endpoint, as such a field
}

// Encode encodes a set. What of it the pool before had with the same encoder is taken from there; before may be
// nil.
func (e Encoder) Encode(s *Set, before *Pool) *Pool {
	p := &Pool{set: s, labels: encodeLabels(s.Labels), addrs: make([][]byte, len(s.Endpoints))}
	at := 0
	for i := range s.Endpoints {
		ep := &s.Endpoints[i]
		if before != nil {
			for at < len(before.addrs) && before.set.Endpoints[at].Addr.Compare(ep.Addr) < 0 {
				at++
			}
			if at < len(before.addrs) && before.set.Endpoints[at] == *ep {
				p.addrs[i] = before.addrs[at]
				continue
			}
		}
		p.addrs[i] = field(setAddrs, marshal(e.Weighted(ep)))
	}
	return p
}

// words are the labels as metrics have them.
func (l Labels) words() map[string]string {
	words := map[string]string{"datacenter": clean(l.Datacenter), "namespace": namespace, "service": clean(l.Service)}
	if l.Subset != "" {
		words["subset"] = clean(l.Subset)
	}
	return words
}

func encodeLabels(l Labels) []byte { return marshal(&pb.WeightedAddrSet{MetricLabels: l.words()}) }

// marshal encodes a message, always to the same bytes.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil // a text that is not UTF-8: [clean] leaves none
	}
	return b
}

// field is a value as a field of another message.
func field(number protowire.Number, value []byte) []byte {
	b := make([]byte, 0, protowire.SizeTag(number)+protowire.SizeBytes(len(value)))
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}
