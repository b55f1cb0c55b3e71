package admin

import (
	"net/http"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Watch is a topic that the source follows, as /api/v1/watches prints it.
type Watch struct {
	Topic string `json:"topic"`
	// Mode is how it is followed at the moment.
	Mode string `json:"mode"`
	// Server tells the events; empty when there are none.
	Server string `json:"server,omitempty"`
	// Index is the source's index of what was last read or heard.
	Index uint64 `json:"index"`
	// AgeSeconds is how long ago that was; negative when it never was.
	AgeSeconds float64 `json:"ageSeconds"`
	// State is how well the topic is known: see the Watch constants.
	State string `json:"state"`
	// Reason says why the state is not current.
	Reason string `json:"reason,omitempty"`
	// Needs is by how many it is needed, clients with the same upstreams counting as one; some topics are
	// followed without.
	Needs int `json:"needs"`
	// Lingering means that nothing needs the topic any more, and that it will soon be forgotten.
	Lingering bool `json:"lingering,omitempty"`
}

// The states of a watch.
const (
	// WatchCurrent means that all is known, and that changes are heard of.
	WatchCurrent = "current"
	// WatchUnread means that nothing was read yet.
	WatchUnread = "unread"
	// WatchDoubtful means that what is missing may only be hidden.
	WatchDoubtful = "doubtful"
	// WatchOff means that the source has no such thing, which is no fault; the reason says why.
	WatchOff = "off"
	// WatchFailing means that the topic cannot be read; what was known of it stays.
	WatchFailing = "failing"
)

// Judge fills in what the facts say of a watch: its state and the reason. What the source says of it is
// given as failure and hidden.
func (w *Watch) Judge(status facts.TopicStatus, failure, hidden string) {
	switch {
	case status.Off && failure == "":
		w.State, w.Reason = WatchOff, status.Failure
	case failure != "" || status.Failure != "":
		w.State, w.Reason = WatchFailing, failure
		if failure == "" {
			w.Reason = status.Failure
		}
	case hidden != "":
		w.State, w.Reason = WatchDoubtful, hidden
	case !status.Known && !status.Complete:
		w.State = WatchUnread
	default:
		w.State = WatchCurrent
	}
}

func (s *Server) watches(w http.ResponseWriter, _ *http.Request) {
	list := []Watch{}
	if s.config.Watches != nil {
		list = append(list, s.config.Watches()...)
	}
	answer(w, list)
}
