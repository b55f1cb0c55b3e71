package xds

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/xds/session"
)

// fetch answers a single request: with all there is of the type, or of the names asked for, as soon as
// that is known. A stream would say nothing where there is nothing, but a call has to end.
func (s *Server) fetch(ctx context.Context, only *session.Type, req *session.Request) (*session.Response, error) {
	req.Version, req.Nonce, req.Error = "", "", nil // there is no response it could refer to
	st, err := s.open(call{ctx: ctx, form: session.SotW, only: only}, req)
	if err != nil {
		return nil, err
	}
	defer s.close(st)
	for {
		out, _, _ := st.take(st.connected, s.pub.root.Load)
		if len(out) > 0 {
			return &out[0], nil
		}
		if st.settled() { // in this form only an empty response can say that nothing of it exists
			return &session.Response{Type: only}, nil
		}
		select {
		case <-ctx.Done():
			return nil, status.Error(codes.Unavailable, "what was asked for is not known yet; try again")
		case <-s.done:
			return nil, errEnding
		case <-st.grant.Revoked:
			return nil, st.grant.Err()
		case <-st.bell:
		}
	}
}

// settled reports whether there is nothing that the client asks for and is still to be told.
func (st *stream) settled() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.seen == nil {
		return false // it is held
	}
	for _, t := range st.session.Status(st.connected).Types {
		if t.Pending > 0 {
			return false
		}
	}
	return true
}
