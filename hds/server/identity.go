package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/hds"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// admit decides whether a checker is heard, and as whom.
func (s *Server) admit(ctx context.Context, hello hds.Hello, v2 bool) (*stream, *xds.Grant, error) {
	node := &corev3.Node{Id: hello.NodeID, Cluster: hello.NodeCluster, Metadata: &structpb.Struct{}}
	if err := proto.Unmarshal(hello.Metadata, node.Metadata); err != nil {
		return nil, nil, status.Error(codes.InvalidArgument, "node.metadata cannot be read")
	}
	client, err := xds.Identify(node, addressOf(ctx))
	if err != nil {
		return nil, nil, err
	}
	grant, err := s.cfg.Guard.Admit(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	hello.Metadata = nil
	if v2 {
		// The predecessor has no fields for TLS, and its Envoys do not know redis by today's type.
		hello.Can.TLS, hello.Can.Redis = false, false
	}
	h := &stream{
		id: s.voter(ctx, client), address: addressOf(ctx).String(), hello: hello, client: client, v2: v2,
		bell: make(chan struct{}, 1),
	}
	return h, grant, nil
}

// voter returns the identity that a checker has proven. It has one vote: a checker that makes up names must
// not get one for each.
func (s *Server) voter(ctx context.Context, c snapshot.Client) string {
	token := tokenOf(ctx)
	uri := uriOf(ctx)
	switch {
	case s.cfg.Believe:
		return "node:" + c.ID
	case token != "" && c.Service != "" && s.registered(ctx, c):
		return "proxy:" + strings.ToLower(c.Node) + "/" + c.ID
	case uri != "":
		return "certificate:" + uri
	case token != "":
		sum := sha256.Sum256([]byte("checker " + token))
		return "token:" + hex.EncodeToString(sum[:6])
	}
	// Who is admitted with nothing to show is where nobody has anything to show: Consul without ACLs.
	return "node:" + c.ID
}

// registeredWithin is how long the registration of a checker is waited for.
const registeredWithin = 3 * time.Second

// registered reports whether a checker is a proxy that is registered for the service that it speaks for.
func (s *Server) registered(ctx context.Context, c snapshot.Client) bool {
	if c.Declared || c.Node == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, registeredWithin)
	defer cancel()
	topic := facts.Proxies(s.cfg.Datacenter, c.Service)
	who := fmt.Sprintf("%s of the proxy %s/%s, %d", needer, c.Node, c.ID, s.asked.Add(1)) // it may connect twice
	s.cfg.Store.Need(who, topic)
	defer s.cfg.Store.Need(who)
	sub := s.cfg.Store.Subscribe()
	defer sub.Close()
	for {
		view, _ := sub.Drain()
		instances, _ := view.Instances(topic)
		for _, in := range instances {
			if in.Service.ID == c.ID && strings.EqualFold(in.Node.Node, c.Node) {
				return true
			}
		}
		if view.Known(topic) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.done:
			return false
		case <-sub.Bell():
		}
	}
}

// maxToken bounds the tokens that are looked at; Consul's have 36 bytes.
const maxToken = 1024

func tokenOf(ctx context.Context) string {
	for _, secret := range metadata.ValueFromIncomingContext(ctx, identity.MetadataToken) {
		if secret != "" && len(secret) <= maxToken {
			return secret
		}
	}
	return ""
}

// uriOf is the first URI of the certificate that a client has shown and the connection has verified.
func uriOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 || len(info.State.VerifiedChains[0][0].URIs) == 0 {
		return ""
	}
	return info.State.VerifiedChains[0][0].URIs[0].String()
}
