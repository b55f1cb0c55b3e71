package destination

import (
	"slices"
	"strings"
	"time"
)

// StreamStatus is what is known of one stream.
type StreamStatus struct {
	ID string
	// Form is linkerd, conduit or linkerd-profile, Path what the stream asks for.
	Form, Path string
	// Address is the client's address and port.
	Address     string
	ConnectedAt time.Time
	// Pending says why the stream waits; empty when it was told what there is.
	Pending string
	// Endpoints is how many the client has, Messages how many it was sent, the last of them at SentAt.
	Endpoints, Messages int
	SentAt              time.Time
	// Problems keep the entries about the name from compiling, Notes say what cannot be done.
	Problems, Notes []string
}

// Streams returns the state of every stream, in the order of IDs.
func (s *Server) Streams() []StreamStatus {
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		streams = append(streams, st)
	}
	s.mu.Unlock()
	list := make([]StreamStatus, 0, len(streams))
	for _, st := range streams {
		list = append(list, st.status())
	}
	slices.SortFunc(list, func(a, b StreamStatus) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (st *stream) status() StreamStatus {
	a := st.subject.answer.Load()
	out := StreamStatus{
		ID: st.id, Form: st.call.form, Path: st.call.path, Address: st.address, ConnectedAt: st.since,
		Pending: a.Pending, Notes: append(slices.Clone(a.Notes), a.profile.Notes...),
	}
	if a.State != Unknown {
		out.Pending = ""
	}
	for _, p := range a.Problems {
		out.Problems = append(out.Problems, p.String())
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	out.Endpoints, out.Messages, out.SentAt = st.told.endpoints, st.messages, st.told.at
	return out
}
