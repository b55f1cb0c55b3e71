package consulwatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// The codes of the problems of following Consul. docs/codes.md says what to do about each.
const (
	CodeUnread = "CAT1950"
	CodeHidden = "CAT1951"
)

// Problems returns what cannot be read now, and the config entries that cannot be understood. What is
// the same for several topics is one problem, which names them.
func (s *Source) Problems() []chain.Problem {
	s.mu.Lock()
	waiting := s.waiting
	s.mu.Unlock()
	return problemsOf(s.Status(), waiting)
}

// OldestAnswer returns how long ago Consul last answered for the topic that has been without an answer
// for longest. A query that waits for a change is without one for up to [Limits.Wait] and a sixteenth;
// a topic followed by events does not count, since its connection shows signs of life.
func (s *Source) OldestAnswer() time.Duration {
	var oldest time.Duration
	for _, status := range s.Status() {
		age := status.Age
		if age < 0 {
			age = status.Followed
		}
		if !status.Lingering && status.Mode != ModeStreaming && status.Mode != ModeFixed {
			oldest = max(oldest, age)
		}
	}
	return oldest
}

// problemsOf collapses what is said of each topic. What a question about the wiring waits for belongs to
// no topic, and is most often what the topics wait for too.
func problemsOf(list []Status, waiting string) []chain.Problem {
	unread, hidden := map[string][]facts.Topic{}, map[string][]facts.Topic{}
	if waiting != "" {
		unread[waiting] = nil
	}
	var entries []chain.Problem
	for i := range list {
		s := &list[i]
		if s.Lingering {
			continue
		}
		if s.Failure != "" {
			unread[s.Failure] = append(unread[s.Failure], s.Topic)
		}
		if s.Hidden != "" {
			hidden[s.Hidden] = append(hidden[s.Hidden], s.Topic)
		}
		entries = append(entries, s.Problems...)
	}
	problems := collapsed(CodeUnread, chain.SeverityError, unread)
	problems = append(problems, collapsed(CodeHidden, chain.SeverityWarning, hidden)...)
	return append(problems, entries...)
}

// collapsed makes one problem of each reason.
func collapsed(code, severity string, reasons map[string][]facts.Topic) []chain.Problem {
	var problems []chain.Problem
	for reason, topics := range reasons {
		message := reason
		if len(topics) > 0 {
			message = named(topics) + ": " + reason
		}
		problems = append(problems, chain.Problem{Code: code, Severity: severity, Origin: origin, Message: message})
	}
	slices.SortFunc(problems, func(a, b chain.Problem) int { return cmp.Compare(a.Message, b.Message) })
	return problems
}

// mostNamed is how many topics a problem names.
const mostNamed = 4

func named(topics []facts.Topic) string {
	var names []string
	for _, t := range topics {
		names = append(names, t.String())
	}
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
