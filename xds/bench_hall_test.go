package xds_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/session"
)

// benchServices is how many services there are, each with five instances; a client has ten of them, and all
// have the first. The clients are of benchApps different services.
const (
	benchServices  = 200
	benchUpstreams = 10
	benchApps      = 20
)

func benchService(i int) string { return fmt.Sprintf("service-%03d", i) }

// benchStore is what all benchmarks serve.
func benchStore() *facts.Store {
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		var names []string
		for i := range benchServices {
			names = append(names, benchService(i))
		}
		tx.Services("dc1", names, confirmed)
		tx.Entries(chain.KindProxyDefaults, []chain.Entry{&chain.ProxyDefaults{
			Header: chain.Header{Name: "global"}, Config: map[string]any{"protocol": "http"},
		}}, confirmed)
		for i := range benchServices {
			var list []*facts.Instance
			for n := range 5 {
				list = append(list, benchInstance(i, n))
			}
			tx.Instances(facts.Health("dc1", benchService(i)), list, confirmed)
		}
		tx.CloseWorld()
	})
	return store
}

func benchInstance(i, n int) *facts.Instance {
	in := numbered(benchService(i), uint32(100*i+n))
	in.Service.ID = fmt.Sprintf("%s-%d", benchService(i), n)
	return in
}

// benchFlip changes the health of an instance of the first service.
func benchFlip(store *facts.Store, index uint64) {
	in := benchInstance(0, 0)
	in.Checks[0].ModifyIndex = index
	if index%2 == 1 {
		in.Checks[0].Status = facts.StatusCritical
	}
	store.Commit(func(tx *facts.Tx) { tx.PutInstance(facts.Health("dc1", benchService(0)), in) })
}

// benchUpstreamsOf are the upstreams of a client.
func benchUpstreamsOf(client int) []string {
	names := []string{benchService(0)}
	for i := 1; i < benchUpstreams; i++ {
		names = append(names, benchService((client%benchApps*(benchUpstreams-1)+i)%benchServices))
	}
	return names
}

func benchServer(store *facts.Store) *xds.Server {
	return xds.NewServer(xds.Config{
		Store: store, Logger: hclog.NewNullLogger(), Metrics: metrics.New("test"),
		Datacenter: "dc1", TrustDomain: "catenary.local",
	})
}

// hall is delta clients without connections. They ask as an Envoy does, for clusters, then for endpoints and
// listeners, then for routes, and accept everything; what they are sent is discarded.
type hall struct {
	b    *testing.B
	desk desk

	end     context.CancelFunc
	all     sync.WaitGroup
	pending atomic.Int64  // clients that are still to take something
	taken   chan struct{} // receives when none is
	bytes   atomic.Int64
}

// enter has n clients come, and returns when they have all they ask for.
func enter(b *testing.B, s *xds.Server, n int) *hall {
	h := &hall{b: b, desk: deskOf(s), taken: make(chan struct{}, 1)}
	ctx, end := context.WithCancel(context.Background())
	h.end = end
	h.pending.Store(int64(n))
	for i := range n {
		v := h.client(ctx, i)
		h.all.Go(func() { _ = h.desk.open(session.Delta, v) })
	}
	<-h.taken
	return h
}

// leave ends all streams.
func (h *hall) leave() {
	h.end()
	h.all.Wait()
}

// client is one that begins to say that it has taken something when it has something of all types.
func (h *hall) client(ctx context.Context, i int) *visit {
	asks := callerOf(h.b, fmt.Sprintf("web-%d", i), false, benchUpstreamsOf(i)...)
	first, endpoints, listeners, routes := asks.asks[0], asks.asks[1], asks.asks[2], asks.asks[3]
	first.node = asks.node
	v := &visit{ctx: ctx, requests: make(chan []byte, 8)}
	var responses, idle atomic.Int64
	v.sent = func(r *session.Response) {
		for _, chunk := range r.Chunks() {
			h.bytes.Add(int64(len(chunk)))
		}
		responses.Add(1)
		v.requests <- accept(r)
		switch {
		case responses.Load() > 4:
		case r.Type.URL == session.ClusterURL:
			v.requests <- endpoints.bytes(session.Delta)
			v.requests <- listeners.bytes(session.Delta)
		case r.Type.URL == session.ListenerURL:
			v.requests <- routes.bytes(session.Delta)
		}
	}
	v.idle = func() {
		// It is called after each answer, but for those that others follow at once.
		if n := responses.Load(); n >= 4 && n > idle.Swap(n) && h.pending.Add(-1) == 0 {
			h.taken <- struct{}{}
		}
	}
	v.requests <- first.bytes(session.Delta)
	return v
}

// accept is the answer to a response.
func accept(r *session.Response) []byte {
	const typeURL, nonce = 2, 6
	out := make([]byte, 0, len(r.Type.URL)+len(r.Nonce)+4)
	out = protowire.AppendString(protowire.AppendTag(out, typeURL, protowire.BytesType), r.Type.URL)
	return protowire.AppendString(protowire.AppendTag(out, nonce, protowire.BytesType), r.Nonce)
}
