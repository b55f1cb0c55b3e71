// Package grpc runs applications with gRPC of three languages against the built program and a real Consul. They do as
// they are told, line by line, so that one test says what all of them must see.
package grpc
