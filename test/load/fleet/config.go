package fleet

import (
	"context"
	"time"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

// Config says what a run does.
type Config struct {
	// Address is host:port of the server; Token is sent as x-consul-token; TLS encrypts, without a look
	// at the server's certificate.
	Address, Token string
	TLS            bool
	// Streams is how many Envoys are imitated, and Node who the i-th of them is.
	Streams int
	Node    func(i int) wire.Node
	// Clusters is the least number of clusters with endpoints that makes a configuration whole. Of a
	// server that sends clusters in several messages nothing else tells that all have come.
	Clusters int
	// Processes are measured.
	Processes []Process

	// FullTimeout bounds how long all may take to be configured, and FlipTimeout one flip.
	FullTimeout, FlipTimeout time.Duration
	// Settle is how long nothing happens before the flips, and Gap after each of them.
	Settle, Gap time.Duration

	// Watched is the endpoint that Flip makes healthy or not. Warmup flips are made before Flips are
	// measured.
	Watched       Endpoint
	Flip          func(ctx context.Context, healthy bool) error
	Warmup, Flips int

	// Slow is how many streams stop reading when the measured flips begin, until they end.
	Slow int
	// RefuseEvery makes each stream refuse every n-th response once it is configured; 0 none.
	RefuseEvery int
	// Reconnects is how often all streams are cut at once and come back with nothing.
	Reconnects int
	// Resume cuts all streams in the end, and lets them come back with the versions they have.
	Resume bool
}

// Endpoint is an endpoint of a service.
type Endpoint struct {
	// Service is the name of the service, without what a server makes of it in the cluster's name.
	Service string
	Address string
	Port    int
}

// Process is a process that belongs to the server under test.
type Process struct {
	Name string
	PID  int
}
