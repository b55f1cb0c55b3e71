package xds

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// incoming is what a client says on a stream.
type incoming[M any] struct {
	messages chan M
	ended    chan error      // why there are no more
	done     <-chan struct{} // closed when the server ends
	pace     time.Duration   // from one message to the next at the least
}

// receive hands on what a client says, one message at a time and at a pace, until the stream ends.
func (in incoming[M]) receive(ctx context.Context, recv func() (M, error)) error {
	for {
		m, err := recv()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case in.messages <- m:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(in.pace):
		}
	}
}

// next waits for a message, while the grant holds, for as long as within; 0 is without limit.
func (in incoming[M]) next(ctx context.Context, within time.Duration, grant *Grant) (m M, err error) {
	var late <-chan time.Time
	if within > 0 {
		timer := time.NewTimer(within)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ctx.Done():
		return m, ctx.Err()
	case <-in.done:
		return m, errEnding
	case err := <-in.ended:
		return m, err
	case <-grant.Revoked:
		return m, grant.Err()
	case <-late:
		return m, status.Errorf(codes.DeadlineExceeded, "no request within %s", within)
	case m = <-in.messages:
		return m, nil
	}
}
