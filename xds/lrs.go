package xds

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	load_statsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Loads counts what clients report of the requests they sent. Its methods are called concurrently.
type Loads interface {
	// LoadReporting adds to the streams on which clients report.
	LoadReporting(delta int)
	// LoadReported counts a report.
	LoadReported()
	// Load counts n requests.
	Load(l Load, n uint64)
}

// Load says of which requests a count is. There is a bounded number of them.
type Load struct {
	// Service and Datacenter are those of the instances that were asked, and Region and Zone where these are.
	// "other" stands for what the client was not told to ask.
	Service, Datacenter, Region, Zone string
	// Status is what became of them: [LoadSuccess], [LoadError] or [LoadDropped].
	Status string
}

// What becomes of a request: it is answered well, or not, or its client gives it up before it is sent.
const (
	LoadSuccess = "success"
	LoadError   = "error"
	LoadDropped = "dropped"
)

// noLoads counts nothing.
type noLoads struct{}

// LoadReporting implements [Loads].
func (noLoads) LoadReporting(int) {}

// LoadReported implements [Loads].
func (noLoads) LoadReported() {}

// Load implements [Loads].
func (noLoads) Load(Load, uint64) {}

// loadService describes the load reporting service (LRS), in which clients say what became of their
// requests.
func (s *Server) loadService() *grpc.ServiceDesc {
	desc := load_statsv3.LoadReportingService_ServiceDesc
	st := desc.Streams[0]
	st.Handler = func(_ any, st grpc.ServerStream) error { return s.takeLoads(st) }
	return &grpc.ServiceDesc{
		ServiceName: desc.ServiceName, HandlerType: (*any)(nil), Metadata: desc.Metadata, Streams: []grpc.StreamDesc{st},
	}
}

// takeLoads serves one stream of reports: the first message says whose they are, and each after the answer
// what happened since the last.
func (s *Server) takeLoads(st grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	in := incoming[*loadReport]{
		messages: make(chan *loadReport), ended: make(chan error, 1), done: s.done, pace: s.cfg.LoadReportEvery / 2,
	}
	node := true
	go func() {
		in.ended <- in.receive(ctx, func() (*loadReport, error) {
			m := &loadReport{first: node}
			node = false
			return m, st.RecvMsg(m)
		})
	}()
	first, err := in.next(ctx, s.cfg.FirstRequestWithin, lasting(false))
	if err != nil {
		return quiet(err)
	}
	id, err := identify(first.node, addressOf(ctx))
	if err != nil {
		return err
	}
	grant, err := s.cfg.Guard.Admit(ctx, id.client)
	if err != nil {
		return err
	}
	defer grant.Release()
	s.cfg.Loads.LoadReporting(1)
	defer s.cfg.Loads.LoadReporting(-1)
	if err := st.SendMsg(s.loadAnswer()); err != nil {
		return err
	}
	s.logLoads(&id)
	s.countLoads(id.client.ID, first)
	for {
		m, err := in.next(ctx, 0, grant)
		if err != nil {
			return quiet(err)
		}
		s.countLoads(id.client.ID, m)
	}
}

func (s *Server) logLoads(id *identity) {
	s.cfg.Logger.Debug("a proxy reports its loads", "proxy", id.client.ID, "service", id.client.Service)
}

// loadAnswer asks for all clusters, so that it need not change with what the client is served.
func (s *Server) loadAnswer() *load_statsv3.LoadStatsResponse {
	return &load_statsv3.LoadStatsResponse{
		SendAllClusters: true, LoadReportingInterval: durationpb.New(s.cfg.LoadReportEvery),
	}
}

// loadReport is a message of a client. As with discovery requests the node is wanted in the first one only,
// and none of its extensions; Envoy sends all 60 kB of it with each report.
type loadReport struct {
	first bool

	node     *corev3.Node
	clusters []*endpointv3.ClusterStats
}

// loadNode is LoadStatsRequest.node.
const loadNode = 1

// decode implements [decoded].
func (r *loadReport) decode(data []byte) error {
	edit := without
	if r.first {
		edit = withoutExtensions
	}
	data, err := edit(data, loadNode)
	if err != nil {
		return err
	}
	m := &load_statsv3.LoadStatsRequest{}
	err = proto.Unmarshal(data, m)
	r.node, r.clusters = m.GetNode(), m.GetClusterStats()
	return err
}

// defaultLoadEvery is how often clients report unless it is said otherwise, and leastLoadEvery is as often
// as they may be told to.
const (
	defaultLoadEvery = 10 * time.Second
	leastLoadEvery   = time.Second
)
