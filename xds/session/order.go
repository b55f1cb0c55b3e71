package session

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The type URLs of the resources a session serves.
const (
	SecretURL      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	ClusterURL     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointURL    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ExtensionURL   = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	ListenerURL    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteURL       = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	VirtualHostURL = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

// Type is a resource type: one row of the table below. Types are compared by pointer and never change.
type Type struct {
	// Name is the type in one lower-case word, such as "cluster".
	Name string
	// URL is the type URL of its resources.
	URL string

	// rank is the row.
	rank int
	// full says that a state-of-the-world response holds everything: what it omits is removed.
	full bool
	// wildcard says that a client can ask for all there is instead of by name.
	wildcard bool
	// deltaOnly says that the type exists in the incremental form alone.
	deltaOnly bool
	// vacant says that there are no resources of the type: every name is absent at once.
	vacant bool
	// awaits says that a resource goes out only after the clusters it refers to.
	awaits bool
	// after are the types whose pending updates a removal of this type lets pass first. With none,
	// removals travel with updates.
	after []*Type
	// referrers are the types whose Refs are names of this type: what one of them that is still in
	// force refers to stays.
	referrers []*Type
	// empty is the body that tells a state-of-the-world client that a name does not exist; nil when
	// silence must do.
	empty func(name string) []byte
}

// String returns the name.
func (t *Type) String() string { return t.Name }

// The order in which a turn sends updates is the order of the ranks: make before break. Removals take
// the opposite way, from what refers to what is referred to.
var (
	// Secrets first: a cluster or a listener warms until it has those that it names, and one that is
	// in use must not lose them.
	secretType = &Type{
		Name: "secret", URL: SecretURL, rank: 0,
		after: []*Type{listenerType, clusterType},
	}
	// Clusters next: all that carries traffic refers to them. One goes when no listener and no route uses
	// it any more, or their traffic would meet "cluster not found".
	clusterType = &Type{
		Name: "cluster", URL: ClusterURL, rank: 1, full: true, wildcard: true,
		after: []*Type{listenerType, routeType}, referrers: []*Type{listenerType, routeType},
	}
	// Endpoints next: a new or changed cluster takes traffic only once it has them. Taking them from
	// a cluster that is on its way out would break it before its routes have moved.
	endpointType = &Type{
		Name: "endpoint", URL: EndpointURL, rank: 2,
		after: []*Type{listenerType, routeType, clusterType}, referrers: []*Type{clusterType},
		empty: emptyAssignment,
	}
	// Extension configurations are filters that a listener names: it warms until it has them, and one
	// that is in use needs them.
	extensionType = &Type{
		Name: "extension", URL: ExtensionURL, rank: 3,
		after: []*Type{listenerType},
	}
	// Listeners may name clusters themselves. Nothing refers to a listener, and the address of one
	// that goes must be free for the one that takes its place in the same response.
	listenerType = &Type{
		Name: "listener", URL: ListenerURL, rank: 4, full: true, wildcard: true, awaits: true,
	}
	// Routes after them: they move traffic to what came before. One goes after the listener that used it.
	routeType = &Type{
		Name: "route", URL: RouteURL, rank: 5, awaits: true,
		after: []*Type{listenerType},
	}
	// Virtual hosts last: a client asks for those that a route configuration leaves open. All that we
	// send are closed, so that whoever asks is told at once that there is nothing more.
	virtualHostType = &Type{
		Name: "virtualhost", URL: VirtualHostURL, rank: 6, deltaOnly: true, vacant: true,
	}
)

const numTypes = 7

// types are the rows, by rank.
var types = [numTypes]*Type{
	secretType, clusterType, endpointType, extensionType, listenerType, routeType, virtualHostType,
}

// Types returns the resource types in the order in which a turn sends them.
func Types() []*Type { return slices.Clone(types[:]) }

// TypeByURL returns the type with the URL, and whether a session serves it.
func TypeByURL(url string) (*Type, bool) {
	for _, t := range types {
		if t.URL == url {
			return t, true
		}
	}
	return nil, false
}

// emptyAssignment is a serialized ClusterLoadAssignment with a cluster_name and no endpoints.
func emptyAssignment(name string) []byte {
	const clusterName = 1
	body := protowire.AppendTag(nil, clusterName, protowire.BytesType)
	return protowire.AppendString(body, name)
}
