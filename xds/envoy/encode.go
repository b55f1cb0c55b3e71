package envoy

import (
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// Resource translates a product under a name and encodes it.
func Resource(ref snapshot.Ref, product any) (*session.Resource, error) {
	url, body, refs, err := marshal(ref, product)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", ref.Key.Product(), ref.Name, err)
	}
	return resource(url, ref.Name, body, refs)
}

func resource(url, name string, body []byte, refs []string) (*session.Resource, error) {
	typ, ok := session.TypeByURL(url)
	if !ok {
		return nil, fmt.Errorf("encode %s: no resource type %s", name, url)
	}
	return session.NewResource(typ, name, body, refs), nil
}

func marshal(ref snapshot.Ref, product any) (url string, body []byte, refs []string, err error) {
	if set, ok := product.(snapshot.EndpointSet); ok {
		body, err = encodeEndpoints(ref.Name, set)
		return typeURL((*endpointv3.ClusterLoadAssignment)(nil)), body, nil, err
	}
	msg, refs, err := Message(ref, product)
	if err != nil {
		return "", nil, nil, err
	}
	body, err = proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	return typeURL(msg), body, refs, err
}

func typeURL(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

// Message translates a product under a name. refs are the names of the clusters that a route or
// listener sends to, or the names of a cluster's endpoint sets.
func Message(ref snapshot.Ref, product any) (msg proto.Message, refs []string, err error) {
	switch p := product.(type) {
	case snapshot.EndpointSet:
		msg, err := endpoints(ref.Name, p)
		return msg, nil, err
	case snapshot.ClusterKey:
		msg, err := cluster(p)
		return msg, []string{p.Name}, err
	case snapshot.AggregateKey:
		return aggregate(p), p.Children(), nil
	case snapshot.ListenerKey:
		l, err := logged(httpListener(p), p.AccessLogs)
		return l, nil, err
	case snapshot.Intentions:
		return intentions(ref.Name, p), nil, nil
	case snapshot.Eviction:
		return eviction(ref.Name, p), nil, nil
	case snapshot.PublicListenerKey:
		l, err := logged(publicListener(p), p.AccessLogs)
		return l, []string{snapshot.LocalApp}, err
	case snapshot.ExposedListenerKey:
		l, err := logged(exposedListener(p), p.AccessLogs)
		return l, []string{p.Cluster}, err
	case snapshot.LocalClusterKey:
		return localCluster(p), nil, nil
	case snapshot.Roots:
		return roots(ref.Name, p), nil, nil
	case snapshot.Routes:
		switch key := p.Key.(type) {
		case snapshot.RoutesKey:
			msg, refs := routes(key, p)
			return msg, refs, nil
		case snapshot.ListenerKey:
			l, refs := tcpListener(key, p)
			l, err := logged(l, key.AccessLogs)
			return l, refs, err
		}
	}
	return grpcMessage(ref, product)
}

// pack wraps a configuration message whose encoding cannot fail.
func pack(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("envoy: encode %T: %v", m, err)) // only invalid UTF-8 can cause it
	}
	return a
}
