package xds_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// BenchmarkFanOut is one change of health, from the fact until all streams have sent it and taken the answer,
// without connections: what is ours of it.
func BenchmarkFanOut(b *testing.B) {
	for _, streams := range []int{100, 1000} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			store := benchStore()
			server := benchServer(store)
			h := enter(b, server, streams)
			index := uint64(0)
			flip := func() {
				index++
				h.pending.Store(int64(streams))
				benchFlip(store, index)
				server.Publish()
				<-h.taken
			}
			flip()
			h.bytes.Store(0)
			b.ReportAllocs()
			for b.Loop() {
				flip()
			}
			perStream := float64(b.N * streams)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/perStream, "ns/stream")
			b.ReportMetric(float64(h.bytes.Load())/perStream, "bytes/stream")
			h.leave()
		})
	}
}

// BenchmarkJoin is clients of ten upstreams that all come at once to a server that has made nothing yet, until
// each has all it asks for.
func BenchmarkJoin(b *testing.B) {
	const clients = 300
	b.Run(fmt.Sprint(clients), func(b *testing.B) {
		store := benchStore()
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			server := benchServer(store)
			ctx, end := context.WithCancel(context.Background())
			var run sync.WaitGroup
			run.Go(func() { _ = server.Run(ctx) })
			b.StartTimer()
			h := enter(b, server, clients)
			b.StopTimer()
			h.leave()
			end()
			run.Wait()
			b.StartTimer()
		}
	})
}

// BenchmarkFanOutByGRPC is one change of health until a hundred clients of real connections have it. Their
// part is as small as can be: they look for what they must answer by, and decode nothing.
func BenchmarkFanOutByGRPC(b *testing.B) {
	const streams = 100
	b.Run(fmt.Sprint(streams), func(b *testing.B) {
		store := benchStore()
		server := benchServer(store)
		g := grpc.NewServer(xds.ServerOptions()...)
		server.Register(g)
		addr, stop := serveOn(b, g)
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		got := make(chan string, 8*streams)
		for i := range streams {
			c := callerOf(b, fmt.Sprintf("web-%d", i), false, benchUpstreamsOf(i)...)
			conn := benchDial(b, addr)
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				_ = rawCall(ctx, conn, c, got)
			})
		}
		wait := func(url string, n int) {
			for n > 0 {
				if <-got == url {
					n--
				}
			}
		}
		wait(session.RouteURL, streams)
		index := uint64(0)
		b.ReportAllocs()
		for b.Loop() {
			index++
			benchFlip(store, index)
			server.Publish()
			wait(session.EndpointURL, streams)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*streams), "ns/stream")
		cancel()
		all.Wait()
		stop()
	})
}

func benchDial(b *testing.B, addr string) *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

// rawCall asks as an Envoy does, accepts everything, and says of which type each response was.
func rawCall(ctx context.Context, conn *grpc.ClientConn, c *caller, got chan<- string) error {
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName)
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	ask := func(m message) error {
		if asked[m.url] {
			return nil
		}
		asked[m.url] = true
		return st.SendMsg(m.bytes(session.Delta))
	}
	c.asks[0].node = c.node
	err = ask(c.asks[0])
	for err == nil {
		var raw []byte
		if err = st.RecvMsg(&raw); err != nil {
			break
		}
		url, nonce := answerable(raw)
		typ, _ := session.TypeByURL(url)
		err = st.SendMsg(accept(&session.Response{Type: typ, Nonce: nonce}))
		switch {
		case err != nil:
		case url == session.ClusterURL:
			if err = ask(c.asks[1]); err == nil {
				err = ask(c.asks[2])
			}
		case url == session.ListenerURL:
			err = ask(c.asks[3])
		}
		got <- url
	}
	return err
}

// answerable are the type and nonce of a delta response.
func answerable(raw []byte) (url, nonce string) {
	const typeURL, nonceField = 4, 5
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if typ != protowire.BytesType {
			return url, nonce
		}
		value, m := protowire.ConsumeBytes(raw[n:])
		if num == typeURL {
			url = string(value)
		}
		if num == nonceField {
			nonce = string(value)
		}
		raw = raw[n+m:]
	}
	return url, nonce
}

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
