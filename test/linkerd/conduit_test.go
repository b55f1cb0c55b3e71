//go:build e2e

package linkerd_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// plainBytes has messages as they are on the wire, so that nothing of ours reads them.
type plainBytes struct{}

func (plainBytes) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (plainBytes) Unmarshal(data []byte, v any) error { *v.(*[]byte) = slices.Clone(data); return nil }
func (plainBytes) Name() string                       { return "proto" }

// fields are the fields of a message, by number.
type fields map[protowire.Number][]any

// read reads a message of which every field of bytes may be a message, text or bytes again.
func read(t *testing.T, b []byte) fields {
	t.Helper()
	out := fields{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("the message is broken: %x", b)
		}
		b = b[n:]
		var value any
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			value, n = protowire.ConsumeFixed32(b)
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(b)
		case protowire.StartGroupType, protowire.EndGroupType:
			n = -1
		}
		if n < 0 {
			t.Fatalf("field %d is broken: %x", number, b)
		}
		out[number], b = append(out[number], value), b[n:]
	}
	return out
}

// conduit is a client of Conduit's protocol: it keeps what it knows by the rules of its description.
type conduit struct {
	t      *testing.T
	stream grpc.ClientStream
	has    map[string]bool
}

func askConduit(t *testing.T, addr, path string) *conduit {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() { cancel(); conn.Close() })
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/conduit.proxy.destination.Destination/Get",
		grpc.ForceCodec(plainBytes{}))
	if err != nil {
		t.Fatal(err)
	}
	question := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "k8s")
	question = protowire.AppendString(protowire.AppendTag(question, 2, protowire.BytesType), path)
	if err := st.SendMsg(&question); err != nil {
		t.Fatal(err)
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	return &conduit{t: t, stream: st, has: map[string]bool{}}
}

// next takes one message, and says what kind it was.
func (c *conduit) next() string {
	c.t.Helper()
	var raw []byte
	if err := c.stream.RecvMsg(&raw); err != nil {
		return err.Error()
	}
	u := read(c.t, raw)
	switch {
	case u[1] != nil: // add
		set := read(c.t, u[1][0].([]byte))
		for _, w := range set[1] {
			weighted := read(c.t, w.([]byte))
			for number := range weighted {
				if number != 1 && number != 3 && number != 4 {
					c.t.Errorf("an endpoint has the field %d, which Conduit does not know", number)
				}
			}
			if got := c.labels(weighted[4]); got["instance"] == "" || weighted[3][0].(uint64) == 0 {
				c.t.Errorf("an endpoint has the weight %v and the labels %v", weighted[3], got)
			}
			c.has[c.address(weighted[1][0].([]byte))] = true
		}
		if len(set[1]) == 0 {
			return "beat"
		}
		if got := c.labels(set[2]); got["service"] == "" || got["datacenter"] != "dc1" {
			c.t.Errorf("a set has the labels %v", got)
		}
		return "add"
	case u[2] != nil: // remove
		for _, a := range read(c.t, u[2][0].([]byte))[1] {
			delete(c.has, c.address(a.([]byte)))
		}
		return "remove"
	case u[3] != nil: // no_endpoints
		clear(c.has)
		return fmt.Sprintf("none %v", read(c.t, u[3][0].([]byte))[1])
	}
	return "nothing"
}

func (c *conduit) address(raw []byte) string {
	a := read(c.t, raw)
	ip := read(c.t, a[1][0].([]byte))
	var addr netip.Addr
	if v4 := ip[1]; v4 != nil {
		addr = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, v4[0].(uint32))))
	} else {
		v6 := read(c.t, ip[2][0].([]byte))
		octets := binary.BigEndian.AppendUint64(nil, v6[1][0].(uint64))
		addr = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(octets, v6[2][0].(uint64))))
	}
	return netip.AddrPortFrom(addr, uint16(a[2][0].(uint64))).String()
}

// labels are those of a set or an endpoint, a map on the wire.
func (c *conduit) labels(entries []any) map[string]string {
	out := map[string]string{}
	for _, e := range entries {
		entry := read(c.t, e.([]byte))
		value := ""
		if entry[2] != nil {
			value = string(entry[2][0].([]byte))
		}
		out[string(entry[1][0].([]byte))] = value
	}
	return out
}

func (c *conduit) wants(kind string, has ...string) {
	c.t.Helper()
	got := c.next()
	for got == "beat" {
		got = c.next()
	}
	var all []string
	for a := range c.has {
		all = append(all, a)
	}
	slices.Sort(all)
	if got != kind || !slices.Equal(all, has) {
		c.t.Fatalf("got %s and has %s, want %s and %s", got, strings.Join(all, " "), kind, strings.Join(has, " "))
	}
}

func TestAClientOfConduit(t *testing.T) {
	t.Parallel()
	s := start(t, "--destination-keepalive", "1s", "--destination-http2", "keepalive=10s,timeout=3s")
	c := askConduit(t, s.catenary.GRPCAddr, "api.service.consul")
	c.wants("none []")
	if got := c.next(); got != "beat" || len(c.has) > 0 {
		t.Errorf("after a while without a service: %s", got)
	}
	s.RegisterService(testenv.Service{Name: "api", ID: "api-1", Address: "10.0.0.1", Port: 80})
	c.wants("add", "10.0.0.1:80")
	s.RegisterService(testenv.Service{Name: "api", ID: "api-2", Address: "fd00::2", Port: 80})
	c.wants("add", "10.0.0.1:80", "[fd00::2]:80")
	s.SetCheck("api-1", api.HealthCritical)
	c.wants("remove", "[fd00::2]:80")
	if got := c.next(); got != "beat" || !c.has["[fd00::2]:80"] {
		t.Errorf("after a while without a change: %s", got)
	}
	s.SetCheck("api-2", api.HealthCritical)
	c.wants("none [1]")
	s.Deregister("api-1")
	s.Deregister("api-2")
	c.wants("none []")
	// In the mesh there is an identity, and more that Conduit does not know.
	s.RegisterService(testenv.Service{Name: "api", ID: "api-3", Address: "10.0.0.3", Port: 80, Status: api.HealthCritical})
	c.wants("none [1]")
	s.RegisterService(testenv.Service{
		Name: "api-sidecar-proxy", ID: "api-3-proxy", Address: "10.0.0.3", Port: 20000,
		Kind: api.ServiceKindConnectProxy, Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "api", DestinationServiceID: "api-3"},
	})
	c.wants("add", "10.0.0.3:20000")
	for _, path := range []string{"api", "10.0.0.1:80", "api.default.svc.cluster.local"} {
		if got := askConduit(t, s.catenary.GRPCAddr, path).next(); !strings.Contains(got, "InvalidArgument") {
			t.Errorf("of %s, which is not served: %s", path, got)
		}
	}
}
