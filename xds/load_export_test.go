package xds

import (
	"weak"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"

	"github.com/catenary-mesh/catenary/snapshot"
)

// Sizes says of everything that a server keeps how many there are.
func (s *Server) Sizes() map[string]int {
	s.mu.Lock()
	streams := len(s.streams)
	s.mu.Unlock()
	p := s.pub
	p.mu.Lock()
	defer p.mu.Unlock()
	root := p.root.Load()
	told := 0
	for _, l := range p.listings {
		told += len(l.streams)
	}
	return map[string]int{
		"streams": streams, "told": told, "clients": len(p.clients), "left": len(p.left.queue), "listings": len(p.listings),
		"variants": len(p.variants), "keys": len(p.byKey), "chains": len(p.cache.Chains()),
		"resources": root.resources.Len(), "seats": root.seats.Len(),
	}
}

// Counts are what was planned and made since the start.
func (s *Server) Counts() snapshot.Counts {
	s.pub.mu.Lock()
	defer s.pub.mu.Unlock()
	return s.pub.cache.Counts()
}

// HoldLarge keeps large endpoint sets from being made until the returned function is called.
func (s *Server) HoldLarge() (release func()) {
	turn := s.pub.turn
	for range cap(turn) {
		turn <- struct{}{}
	}
	return func() {
		for range cap(turn) {
			<-turn
		}
	}
}

// Publish publishes what changed, for a server that does not run.
func (s *Server) Publish() { s.pub.update(s.sub) }

// Codec is how a gRPC server that was made with [ServerOptions] reads and writes.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Remains returns a function that says how many of the streams that are open now are still in memory.
func (s *Server) Remains() func() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []weak.Pointer[stream]
	for st := range s.streams {
		all = append(all, weak.Make(st))
	}
	return func() (n int) {
		for _, st := range all {
			if st.Value() != nil {
				n++
			}
		}
		return n
	}
}
