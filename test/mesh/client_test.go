package mesh_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// The types that a client of a test asks for.
const (
	secretURL   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	clusterURL  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listenerURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

// way is a method of xDS by which secrets can be asked for.
type way string

const (
	adsDelta way = "ADS delta"
	adsSotW  way = "ADS state of the world"
	sdsDelta way = "SDS delta"
	sdsSotW  way = "SDS state of the world"
	sdsFetch way = "SDS fetch"
)

func ways() []way { return []way{adsDelta, adsSotW, sdsDelta, sdsSotW, sdsFetch} }

// client speaks xDS in words of its own.
type client struct {
	addr  string
	token string
	creds credentials.TransportCredentials // insecure when nil
	node  *corev3.Node
	later *corev3.Node // in what follows the first request; none when nil
	// waits is how long an answer is waited for, when it is not that there is none that is wanted.
	waits time.Duration
	// listens is how long it goes on once it has what a sidecar needs, quiet when zero; has is then called.
	listens time.Duration
	has     func()
}

// nodeOf is the node of a sidecar as Consul's bootstrap has it.
func nodeOf(id, cluster string) *corev3.Node { return &corev3.Node{Id: id, Cluster: cluster} }

// sidecarOf is a client that says it is the sidecar of a service.
func (m *mesh) sidecarOf(service, token string) *client {
	return &client{addr: m.catenary.GRPCAddr, token: token, node: nodeOf(service+"-sidecar-proxy", service), waits: patience}
}

// declared is a node that brings its upstreams itself.
func declared(t *testing.T, service string) *corev3.Node {
	t.Helper()
	fields, err := structpb.NewStruct(map[string]any{"catenary": map[string]any{"service": service, "upstreams": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: service + "-sidecar-proxy", Cluster: service, Metadata: fields}
}

// reply is all that a client was given.
type reply struct {
	secrets map[string]*tlsv3.Secret
	given   int   // secrets, each as often as it came
	others  int   // resources of other types
	err     error // with which the stream ended, unless the client ended it
}

// wanted reports whether a sidecar has its secrets.
func (r *reply) wanted() bool { return r.secrets["leaf"] != nil && r.secrets["roots"] != nil }

// quiet is how long a client listens for more than it wants.
const quiet = 300 * time.Millisecond

// ask asks for secrets by their names, one list after the other, and over ADS for all clusters and listeners.
func (c *client) ask(ctx context.Context, by way, rounds ...[]string) *reply {
	got := &reply{secrets: map[string]*tlsv3.Secret{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := time.AfterFunc(patience, cancel)
	defer end.Stop()
	s, err := c.open(ctx, by)
	if err != nil {
		got.err = err
		return got
	}
	defer s.close()
	end.Reset(c.waits)
	for _, names := range rounds {
		s.send(secretURL, names)
	}
	if by == adsDelta || by == adsSotW {
		s.send(clusterURL, []string{"*"})
		s.send(listenerURL, []string{"*"})
	}
	for {
		list, err := s.recv()
		if ctx.Err() != nil {
			return got
		}
		if err == nil {
			err = got.add(list)
		}
		if err != nil {
			got.err = err
			return got
		}
		if got.wanted() {
			end.Reset(cmp.Or(c.listens, quiet))
			if c.has != nil {
				c.has()
			}
		}
	}
}

func (r *reply) add(list []*anypb.Any) error {
	for _, resource := range list {
		if resource.GetTypeUrl() != secretURL {
			r.others++
			continue
		}
		secret := &tlsv3.Secret{}
		if err := resource.UnmarshalTo(secret); err != nil {
			return err
		}
		r.secrets[secret.GetName()] = secret
		r.given++
	}
	return nil
}

// onlyOf checks that there were the secrets of one service, and no others.
func (r *reply) onlyOf(t *testing.T, service string) {
	t.Helper()
	if !r.wanted() || len(r.secrets) != 2 || r.err != nil {
		t.Fatalf("there are the secrets %v, and then %v", slices.Sorted(maps.Keys(r.secrets)), r.err)
	}
	leaf := r.secrets["leaf"].GetTlsCertificate()
	pair, err := tls.X509KeyPair(text(leaf.GetCertificateChain()), text(leaf.GetPrivateKey()))
	if err != nil {
		t.Fatal(err)
	}
	if uris := pair.Leaf.URIs; len(uris) != 1 || !strings.HasSuffix(uris[0].Path, "/svc/"+service) {
		t.Errorf("the certificate is of %v, want %s", uris, service)
	}
	roots := r.secrets["roots"]
	if roots.GetTlsCertificate() != nil || bytes.Contains(text(roots.GetValidationContext().GetTrustedCa()), []byte("KEY")) {
		t.Error("there is more than certificates among the roots")
	}
}

// text is what a resource brings with it.
func text(d *corev3.DataSource) []byte { return append(d.GetInlineBytes(), d.GetInlineString()...) }

// stream is one of the ways, open.
type stream struct {
	conn *grpc.ClientConn
	send func(url string, names []string)
	recv func() ([]*anypb.Any, error)
}

func (s *stream) close() { s.conn.Close() }

// open opens a stream, or what stands for one. Why a request could not be sent is for receiving to tell.
func (c *client) open(ctx context.Context, by way) (*stream, error) {
	creds := c.creds
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(c.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	connected(ctx, conn)
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-consul-token", c.token)
	}
	s := &stream{conn: conn}
	ads, sds := discoveryv3.NewAggregatedDiscoveryServiceClient(conn), secretservice.NewSecretDiscoveryServiceClient(conn)
	switch by {
	case adsDelta:
		raw, failed := ads.DeltaAggregatedResources(ctx)
		c.delta(s, raw)
		err = failed
	case sdsDelta:
		raw, failed := sds.DeltaSecrets(ctx)
		c.delta(s, raw)
		err = failed
	case adsSotW:
		raw, failed := ads.StreamAggregatedResources(ctx)
		c.sotw(s, raw)
		err = failed
	case sdsSotW:
		raw, failed := sds.StreamSecrets(ctx)
		c.sotw(s, raw)
		err = failed
	case sdsFetch:
		c.fetch(ctx, s, sds)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// connected waits until there is a connection or making one has failed: how long a client waits for an answer counts
// from then on.
func connected(ctx context.Context, conn *grpc.ClientConn) {
	conn.Connect()
	for s := conn.GetState(); s == connectivity.Idle || s == connectivity.Connecting; s = conn.GetState() {
		if !conn.WaitForStateChange(ctx, s) {
			return
		}
	}
}

// takeNode returns the node for the next request.
func (c *client) takeNode(first *bool) *corev3.Node {
	if *first {
		*first = false
		return c.node
	}
	return c.later
}

type deltaStream interface {
	Send(*discoveryv3.DeltaDiscoveryRequest) error
	Recv() (*discoveryv3.DeltaDiscoveryResponse, error)
}

func (c *client) delta(s *stream, raw deltaStream) {
	first := true
	s.send = func(url string, names []string) {
		_ = raw.Send(&discoveryv3.DeltaDiscoveryRequest{Node: c.takeNode(&first), TypeUrl: url, ResourceNamesSubscribe: names})
	}
	s.recv = func() (list []*anypb.Any, err error) {
		m, err := raw.Recv()
		if err != nil {
			return nil, err
		}
		_ = raw.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()})
		for _, r := range m.GetResources() {
			list = append(list, r.GetResource())
		}
		return list, nil
	}
}

type sotwStream interface {
	Send(*discoveryv3.DiscoveryRequest) error
	Recv() (*discoveryv3.DiscoveryResponse, error)
}

func (c *client) sotw(s *stream, raw sotwStream) {
	first, all := true, map[string][]string{}
	s.send = func(url string, names []string) {
		all[url] = append(all[url], names...)
		_ = raw.Send(&discoveryv3.DiscoveryRequest{Node: c.takeNode(&first), TypeUrl: url, ResourceNames: all[url]})
	}
	s.recv = func() ([]*anypb.Any, error) {
		m, err := raw.Recv()
		if err != nil {
			return nil, err
		}
		url := m.GetTypeUrl()
		_ = raw.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: url, ResourceNames: all[url], VersionInfo: m.GetVersionInfo(), ResponseNonce: m.GetNonce(),
		})
		return m.GetResources(), nil
	}
}

func (c *client) fetch(ctx context.Context, s *stream, sds secretservice.SecretDiscoveryServiceClient) {
	req := &discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: secretURL}
	s.send = func(_ string, names []string) { req.ResourceNames = append(req.ResourceNames, names...) }
	done := false
	s.recv = func() ([]*anypb.Any, error) {
		if done {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		done = true
		m, err := sds.FetchSecrets(ctx, req)
		return m.GetResources(), err
	}
}
