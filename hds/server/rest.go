package server

import (
	"io"
	"net"
	"net/http"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/identity"
)

// The paths of REST, as Envoy's description of the protocol has them.
const (
	PathV3 = "/v3/discovery:health_check"
	PathV2 = "/v2/discovery:health_check"
)

// maxBody bounds a message: a report on 2,000 endpoints takes a few hundred bytes for each in JSON.
const maxBody = 4 << 20

// ServeREST answers a fetch as JSON over HTTP, which admits as over gRPC: the token is in the same header.
func (s *Server) ServeREST(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a fetch is a POST, not a "+r.Method, http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the message cannot be read: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, m); err != nil {
		http.Error(w, "the message cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := metadata.NewIncomingContext(r.Context(), metadata.Pairs(identity.MetadataToken, r.Header.Get(identity.MetadataToken)))
	if from, err := net.ResolveTCPAddr("tcp", r.RemoteAddr); err == nil { // it is an address and no name
		ctx = peer.NewContext(ctx, &peer.Peer{Addr: from})
	}
	spec, err := s.Fetch(ctx, raw, r.URL.Path == PathV2)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(status.Code(err)))
		return
	}
	answer, err := protojson.Marshal(spec)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a reader that has gone away needs no answer
}

// httpStatus is the status of HTTP for one of gRPC.
func httpStatus(code codes.Code) int {
	switch code { //nolint:exhaustive // what is left is our own fault
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.FailedPrecondition:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
