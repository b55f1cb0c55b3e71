package destination

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// TestASlowReaderFindsTheLatest has a client that reads nothing while much changes. It is told what was on its way when
// it stopped to read, and then at once what there is.
func TestASlowReaderFindsTheLatest(t *testing.T) {
	w := newWorld(t)
	w.services("api")
	w.service("api", list(instance("api", 1)), nil)
	s := serve(t, w, nil)
	ctx, cancel := context.WithCancel(context.Background())
	reads := make(chan *pb.Update)
	var group sync.WaitGroup
	group.Go(func() {
		_ = modern{Server: s.Server}.Get(&pb.GetDestination{Path: api}, &wire{ctx: ctx, sent: func(u *pb.Update) {
			select {
			case reads <- u:
			case <-ctx.Done():
			}
		}})
	})
	t.Cleanup(func() { cancel(); group.Wait() })
	read := func() string {
		raw, err := proto.Marshal(<-reads)
		if err != nil {
			t.Fatal(err)
		}
		return text(t, []Step{raw})
	}
	if got := read(); got != "add 10.0.0.1:8080" {
		t.Fatalf("got %s", got)
	}
	const changes = 20
	for i := range changes {
		before := s.answerOf(api)
		w.service("api", list(instance("api", 2+i)), nil)
		testenv.Eventually(t, 5*time.Second, func() error {
			if s.answerOf(api) == before {
				return context.DeadlineExceeded
			}
			return nil
		})
	}
	var told []string
	for len(told) == 0 || !strings.HasPrefix(told[len(told)-1], "remove") || !strings.Contains(strings.Join(told, " "), "10.0.0.21:8080") {
		told = append(told, read())
	}
	if len(told) > 4 { // an add and a remove of the first change, and of all others
		t.Errorf("%d changes were told in %d messages: %q", changes, len(told), told)
	}
}

// answerOf is the answer that there is to a question for endpoints.
func (s *served) answerOf(path string) *answer {
	name, err := names().Parse(path)
	if err != nil {
		s.t.Fatal(err)
	}
	name.Port = 0
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if subject := s.hub.subjects[question{name: name}]; subject != nil {
		return subject.answer.Load()
	}
	return nil
}
