package xds_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds/session"
)

// typed hands streams on, and has the names that a certificate may have in the typed field alone.
type typed struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	up discoveryv3.AggregatedDiscoveryServiceClient
}

// StreamAggregatedResources hands on one stream.
func (d *typed) StreamAggregatedResources(down discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	up, err := d.up.StreamAggregatedResources(down.Context())
	if err != nil {
		return err
	}
	go func() {
		for {
			m, err := down.Recv()
			if err != nil || up.Send(m) != nil {
				_ = up.CloseSend()
				return
			}
		}
	}()
	for {
		m, err := up.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && m.GetTypeUrl() == session.ClusterURL {
			err = typeNames(m.GetResources())
		}
		if err == nil {
			err = down.Send(m)
		}
		if err != nil {
			return err
		}
	}
}

// typeNames moves the names in clusters from the deprecated field to the typed one.
func typeNames(clusters []*anypb.Any) error {
	for _, resource := range clusters {
		c, socket := &clusterv3.Cluster{}, &tlsv3.UpstreamTlsContext{}
		if err := errors.Join(resource.UnmarshalTo(c), c.GetTransportSocket().GetTypedConfig().UnmarshalTo(socket)); err != nil {
			return err
		}
		v := socket.GetCommonTlsContext().GetValidationContext()
		for _, name := range v.GetMatchSubjectAltNames() { //nolint:staticcheck // it is what this is about
			v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
				SanType: tlsv3.SubjectAltNameMatcher_URI, Matcher: name,
			})
		}
		v.MatchSubjectAltNames = nil //nolint:staticcheck // it is what this is about
		if err := errors.Join(c.GetTransportSocket().GetTypedConfig().MarshalFrom(socket), resource.MarshalFrom(c)); err != nil {
			return err
		}
	}
	return nil
}

// typing is a way to the control plane on which names are in the typed field alone.
func (m *mesh) typing() (addr string) {
	m.t.Helper()
	conn, err := grpc.NewClient(m.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &typed{up: discoveryv3.NewAggregatedDiscoveryServiceClient(conn)})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	m.t.Cleanup(func() {
		server.Stop()
		conn.Close()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
	})
	return lis.Addr().String()
}

// Why the deprecated field is written: with the same names in the typed one alone, grpc-go calls whoever has a
// certificate of the authority. When this fails grpc-go reads the typed field, and it can be written instead.
func TestGRPCGoHeedsNamesInTheDeprecatedFieldOnly(t *testing.T) {
	m := startMesh(t)
	m.load("web", "api")
	stock := m.native("stock", "stock")
	m.reaches("api", grpcAt("api", stock, facts.StatusPassing))
	if _, err := m.meshClient("api", true).Call(within(t, 5*time.Second), "/shop.Shop/Get"); status.Code(err) != codes.Unavailable || stock.Count() > 0 {
		t.Errorf("as it is written, a server with the certificate of stock is called as api: %v", err)
	}
	text, err := bootstrap.GRPC(bootstrap.GRPCConfig{Service: "web", GRPCAddr: m.typing(), CertDir: m.certs()})
	if err != nil {
		t.Fatal(err)
	}
	answered(t, testenv.DialXDS(t, text, "api", fromXDS(t)), "stock")
}
