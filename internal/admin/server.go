package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/xds"
)

// Config is where the answers come from. All of it must be set, and functions safe for concurrent use.
type Config struct {
	// Ready reports whether what is always followed is loaded, and if not, why. When it is, the text says
	// what is not well in spite of that.
	Ready func() (bool, string)
	// Proxies lists the connected clients.
	Proxies func() []Proxy
	// Resources lists what the streams of a client were sent; it may be nil.
	Resources func(id string) []ProxyResources
	// Chain compiles the chain of a service.
	Chain func(service string) Chain
	// Discovery compiles chains for Consul's clients.
	Discovery *Discovery
	// Endpoints lists the instances of a service.
	Endpoints func(ctx context.Context, service string) Endpoints
	// Journey says what becomes of a request; it may be nil. It fails with a [journey.UnknownTargetError], and
	// while the answer cannot be known.
	Journey func(context.Context, journey.Question) (journey.Journey, error)
	// Problems lists everything that is wrong with the user's configuration.
	Problems func() []Problem
	// Health answers about health discovery; it may be nil.
	Health *Health
	// HealthREST takes in what checkers send by REST; nil for not at all.
	HealthREST http.HandlerFunc
	// Watches lists what the source follows; it may be nil.
	Watches func() []Watch
	// Metrics is the page that Prometheus reads.
	Metrics http.Handler
	// Debug adds the profiler's pages. They tell much and cost much: set it on loopback only.
	Debug bool
}

// Proxy is a connected client, as /api/v1/proxies prints it.
type Proxy = xds.ProxyStatus

// ProxyResources is what a client was sent, as /api/v1/resources prints it.
type ProxyResources = xds.ProxyResources

// Problem is one thing that is wrong, as /api/v1/problems prints it.
type Problem struct {
	chain.Problem
	// Chain is the service whose chain does not compile; empty for what the source cannot read.
	Chain string `json:",omitempty"`
	// LastGood holds when what was there before is still served.
	LastGood bool `json:",omitempty"`
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.LastGood {
		return p.Problem.String() + "; what was there before is still served"
	}
	return p.Problem.String()
}

// Chain is the chain of a service, as /api/v1/chains prints it.
type Chain struct {
	// Chain has the shape of Consul's /v1/discovery-chain; nil when none ever compiled.
	Chain *chain.Chain `json:"Chain"`
	// Problems is what the last compilation found; empty when all is well.
	Problems []chain.Problem `json:"Problems"`
	// LastGood holds when Chain is older than the problems: what is served in spite of them.
	LastGood bool `json:"LastGood,omitempty"`
	// Pending says why the chain cannot be known yet; empty when it is.
	Pending string `json:"Pending,omitempty"`
}

// Server answers the HTTP requests. Create one with [New].
type Server struct {
	config   Config
	handler  http.Handler
	draining atomic.Bool
	waiting  chan struct{} // has an item for each query that waits
	printing chan struct{} // has an item for each client whose resources are printed
}

// maxPrinting is how many clients have their resources printed at once: that of one can take many megabytes.
const maxPrinting = 4

// New returns a server. It starts nothing.
func New(c Config) *Server {
	s := &Server{config: c, waiting: make(chan struct{}, maxWaiting), printing: make(chan struct{}, maxPrinting)}
	s.handler = s.routes()
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain makes the server say that it is not ready, from now on.
func (s *Server) Drain() { s.draining.Store(true) }

// The bounds of a request. The profiler's pages take up to writeTimeout; queries that wait have their
// own.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 2 * time.Minute
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 2 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Run serves on the listener until the context ends, and closes it. Requests that are then being
// answered have two seconds to end.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Whoever waits is answered when the server ends.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin server on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // whoever still reads has had its time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin server on %s: %w", listener.Addr(), err)
	}
	return nil
}
