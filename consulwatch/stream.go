package consulwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// subscription is one stream of events. Its goroutine hands each event over and keeps none.
type subscription struct {
	events chan *subscribe.Event
	failed chan error // has an item when the stream has ended
	cancel context.CancelFunc
	done   chan struct{}
}

// subjectFor is the table of what is subscribed to for each kind of topic, but for its datacenter; ok is
// false for a kind that has no events.
func subjectFor(topic facts.Topic) (r *subscribe.SubscribeRequest, ok bool) {
	switch topic.Kind {
	case facts.TopicHealth:
		return about(subscribe.Topic_ServiceHealth, topic), true
	case facts.TopicConnect, facts.TopicProxies:
		return about(subscribe.Topic_ServiceHealthConnect, topic), true
	case facts.TopicServices:
		return aboutAll(subscribe.Topic_ServiceList), true
	case facts.TopicEntries:
		of, ok := entryTopics()[chain.Kind(topic.Name)]
		return aboutAll(of), ok
	default:
		return nil, false
	}
}

// entryTopics are the kinds of config entries that have events.
func entryTopics() map[chain.Kind]subscribe.Topic {
	return map[chain.Kind]subscribe.Topic{
		chain.KindServiceDefaults:   subscribe.Topic_ServiceDefaults,
		chain.KindServiceResolver:   subscribe.Topic_ServiceResolver,
		chain.KindServiceIntentions: subscribe.Topic_ServiceIntentions,
		chain.KindMesh:              subscribe.Topic_MeshConfig,
	}
}

// rings reports whether the events of a topic only tell that it is to be read.
func rings(kind facts.TopicKind) bool {
	return kind != facts.TopicHealth && kind != facts.TopicConnect
}

// about is a request about one service. Servers before 1.13 know only the key.
func about(of subscribe.Topic, topic facts.Topic) *subscribe.SubscribeRequest {
	return &subscribe.SubscribeRequest{
		Topic: of, Key: topic.Name, PeerName: topic.Peer,
		Subject: &subscribe.SubscribeRequest_NamedSubject{
			NamedSubject: &subscribe.NamedSubject{Key: topic.Name, PeerName: topic.Peer},
		},
	}
}

// aboutAll is about everything of a topic.
func aboutAll(of subscribe.Topic) *subscribe.SubscribeRequest {
	return &subscribe.SubscribeRequest{
		Topic:   of,
		Subject: &subscribe.SubscribeRequest_WildcardSubject{WildcardSubject: true},
	}
}

// subscribeTo opens a stream that ends with ctx, or when it is closed.
func subscribeTo(ctx context.Context, on subscribe.StateChangeSubscriptionClient, r *subscribe.SubscribeRequest) (*subscription, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := on.Subscribe(ctx, r)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &subscription{
		events: make(chan *subscribe.Event), failed: make(chan error, 1), cancel: cancel, done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		for {
			e, err := stream.Recv()
			if err != nil {
				s.failed <- err
				return
			}
			select {
			case s.events <- e:
			case <-ctx.Done():
				s.failed <- ctx.Err() // whoever waits for events is to know that there are no more
				return
			}
		}
	}()
	return s, nil
}

// close ends the stream and returns when nothing of it is left.
func (s *subscription) close() {
	s.cancel()
	<-s.done
}

// What the end of a stream means for the topic.
var (
	// errReset means that what the server knows is not what it was: begin again without an index.
	errReset = errors.New("consul ended the stream, as when its state is restored or the rights of the token change")
	// errCut means that the connection is lost, or that the server ends the stream for no fault of it.
	errCut = errors.New("the connection for events is lost, or the server ends streams without a reason")
)

// explainEnd turns the error of a stream into what it means.
func explainEnd(server string, err error) error {
	s, _ := status.FromError(err)
	said := brief(strings.TrimPrefix(s.Message(), "rpc error: "))
	f := &failure{cause: err, again: true}
	switch {
	case s.Code() == codes.Aborted:
		return errReset
	case s.Code() == codes.Unavailable || s.Code() == codes.Canceled || errors.Is(err, io.EOF):
		return errCut
	case strings.Contains(said, "ACL not found"):
		f.server = true
		f.text = noSuchToken
	case s.Code() == codes.ResourceExhausted:
		f.exhausted(server, said)
	case s.Code() == codes.Unimplemented:
		f.text = fmt.Sprintf("the server %s has no event streams (%s)", server, said)
	default:
		f.text = fmt.Sprintf("the server %s refuses events: %s (%s)", server, said, s.Code())
	}
	return f
}

// exhausted explains the status ResourceExhausted: Consul has it for its own limits, and gRPC for an event
// that is larger than [maxEvent].
func (f *failure) exhausted(server, said string) {
	if strings.Contains(said, "larger than max") {
		f.text = fmt.Sprintf("an event of the server %s is larger than %d MiB (%s): what it would tell is asked for by queries "+
			"while one node has so many instances of one service", server, maxEvent>>20, said)
		return
	}
	f.limited = true // but Consul as a whole is there: queries have limits of their own
	f.text = fmt.Sprintf("Consul limits event streams (%s): raise limits.request_limits on its servers, or have fewer replicas", said)
}

// errSilent means that no snapshot came in time.
var errSilent = &failure{text: "the snapshot of the events does not come, as when the datacenter cannot be reached", again: true}
