// Package wire reads and writes the few fields of delta xDS that an imitated Envoy needs, straight from
// and to their bytes. It makes no message objects: a generator that decodes as a real client does would
// take the processor that it wants to measure. What it returns points into what it was given. It does no
// I/O and keeps no state.
package wire

// The resource types that an Envoy asks for, in the order it asks.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	SecretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

	connectionManagerType = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)
