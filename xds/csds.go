package xds

import (
	"context"
	"sync/atomic"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxAnswer is what an answer about clients may have; whoever asks is told to ask for less.
	maxAnswer = 16 << 20
	// maxAsking is how many may ask at once: about all clients, and as many others about themselves.
	maxAsking = 16
	// askEvery is how often a stream is answered at most.
	askEvery = 100 * time.Millisecond
)

// questions is the client status discovery service (CSDS): what each client was sent, and what it said.
type questions struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer
	*Server
	asking struct{ all, own atomic.Int32 }
}

// FetchClientStatus implements [statusv3.ClientStatusDiscoveryServiceServer].
func (q *questions) FetchClientStatus(ctx context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	who, leave, err := q.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	defer leave()
	return q.answer(who, req)
}

// StreamClientStatus implements [statusv3.ClientStatusDiscoveryServiceServer]. Each request is answered once.
func (q *questions) StreamClientStatus(st statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	in := incoming[*statusv3.ClientStatusRequest]{messages: make(chan *statusv3.ClientStatusRequest), ended: make(chan error, 1), done: q.done, pace: askEvery}
	go func() { in.ended <- in.receive(ctx, st.Recv) }()
	req, err := in.next(ctx, q.cfg.FirstRequestWithin, lasting(false))
	if err != nil {
		return quiet(err)
	}
	who, leave, err := q.enter(ctx, req)
	if err != nil {
		return err
	}
	defer leave()
	for err == nil {
		var out *statusv3.ClientStatusResponse
		if out, err = q.answer(who, req); err != nil {
			return err
		}
		if err = st.Send(out); err != nil {
			return err
		}
		req, err = in.next(ctx, q.cfg.AnswerWithin, who.grant)
	}
	return quiet(err)
}

// enter admits who asks, if there is room; leave is to be called at the end.
func (q *questions) enter(ctx context.Context, req *statusv3.ClientStatusRequest) (who *asker, leave func(), err error) {
	if who, err = q.admitAsker(ctx, req.GetNode()); err != nil {
		return nil, nil, err
	}
	room := &q.asking.own
	if who.all {
		room = &q.asking.all
	}
	leave = func() { room.Add(-1); who.grant.Release() }
	if room.Add(1) > maxAsking {
		leave()
		return nil, nil, status.Errorf(codes.ResourceExhausted, "%d others ask at this moment: ask again", maxAsking)
	}
	return who, leave, nil
}

// answer tells of the clients that match a request and that who asks may see.
func (q *questions) answer(who *asker, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	if err := who.grant.Err(); err != nil {
		return nil, err
	}
	matches, err := nodeMatcher(req.GetNodeMatchers())
	if err != nil {
		return nil, err
	}
	root, out, size := q.pub.root.Load(), &statusv3.ClientStatusResponse{}, 0
	for _, st := range q.streamsInOrder() {
		if !who.sees(st) || !matches(st.client.ID) {
			continue
		}
		c, n := st.clientConfig(root, !req.GetExcludeResourceContents())
		if size += n; size > maxAnswer {
			return nil, status.Errorf(codes.ResourceExhausted, "the answer would have more than %d bytes: choose clients by node_matchers, "+
				"or leave the resources out by exclude_resource_contents", maxAnswer)
		}
		out.Config = append(out.Config, c)
	}
	return out, nil
}
