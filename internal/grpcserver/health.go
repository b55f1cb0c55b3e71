package grpcserver

import (
	"slices"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// SetReady says whether the services serve, to whoever asks for the health of one of them or of the
// whole server. Until it is called they do not, and they do not again once the server ends.
func (s *Server) SetReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == ready {
		return
	}
	s.ready = ready
	for _, name := range s.names {
		s.health.SetServingStatus(name, s.status())
	}
}

// registerHealth adds the health service, with the whole server as the first to tell of.
func (s *Server) registerHealth() {
	healthpb.RegisterHealthServer(s.grpc, s.health)
	s.tellHealthOf("")
}

func (s *Server) tellHealthOf(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.names, service) {
		s.names = append(s.names, service)
	}
	s.health.SetServingStatus(service, s.status())
}

// status is what ready means to the health service. The caller holds the lock.
func (s *Server) status() healthpb.HealthCheckResponse_ServingStatus {
	if s.ready {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}
