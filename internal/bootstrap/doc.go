// Package bootstrap makes what a client is started with to find Catenary, and reads back what such a
// client then says of itself: a service and its upstreams go in, the bootstrap of an Envoy or of an
// application with gRPC comes out in JSON, and its node's metadata goes in again and comes out as service and upstreams.
//
// It is pure: reading flags, environment and files, and writing the result, are its caller's. It knows
// no Envoy protos, so that the metadata stays a contract of its own, which any client can keep.
package bootstrap
