package destination

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

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

// TestASlowReaderHoldsNoQueue has a client that reads nothing beside one that reads all: of what the other was told
// meanwhile nothing is kept.
func TestASlowReaderHoldsNoQueue(t *testing.T) {
	inBubble(t, nil, func(q *quiet) {
		q.services("api")
		q.service("api", list(instance("api", 1)), nil)
		free := make(chan struct{})
		q.group.Go(func() {
			_ = modern{Server: q.Server}.Get(&pb.GetDestination{Path: api}, &wire{ctx: q.ctx, sent: func(*pb.Update) { <-free }})
		})
		fast := q.updates(api, "")
		const changes = 30
		var told []weak.Pointer[Pool]
		for i := range changes {
			q.service("api", list(instance("api", 2+i)), nil)
			q.settle()
			for _, pool := range q.poolsOf(api) {
				told = append(told, weak.Make(pool))
			}
		}
		runtime.GC()
		kept := 0
		for _, pool := range told {
			if pool.Value() != nil {
				kept++
			}
		}
		// What there is, and what was before it, of which the next takes what stays.
		if len(told) != changes || kept > 2 {
			t.Errorf("%d of %d sets are kept", kept, len(told))
		}
		close(free)
		q.wantHas(fast, "10.0.0.31:8080")
	})
}

// poolsOf are the encoded sets of the answer that there is to a question for endpoints.
func (s *Server) poolsOf(path string) (list []*Pool) {
	a := s.answerOf(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pool := range a.pools {
		list = append(list, *pool.value.Load())
	}
	return list
}

// answerOf is the answer that there is to a question for endpoints.
func (s *Server) answerOf(path string) *answer {
	name, err := names().Parse(path)
	if err != nil {
		panic(err)
	}
	name.Port = 0
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if subject := s.hub.subjects[question{name: name}]; subject != nil {
		return subject.answer.Load()
	}
	return nil
}
