package consulwatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// talker has an event whenever it is asked.
type talker struct{ grpc.ClientStream }

func (talker) Subscribe(context.Context, *subscribe.SubscribeRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[subscribe.Event], error) {
	return talker{}, nil
}

func (talker) Recv() (*subscribe.Event, error) { return &subscribe.Event{}, nil }

// Who waits for events learns that there are no more also when the last one was never taken.
func TestAStreamThatEndsWithAnEventInHandSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	sub, err := subscribeTo(ctx, talker{}, &subscribe.SubscribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.close()
	<-sub.events
	cancel()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case err := <-sub.failed:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it says %v", err)
		}
	case <-timer.C:
		t.Error("nobody is told")
	}
}
