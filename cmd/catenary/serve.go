package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	hdsserver "github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/grpcserver"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/xds"
)

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane",
		Long: `Run the control plane: follow a source and configure the proxies that connect.

The source is Consul, as the CONSUL_* variables and --consul-addr name it, or with --from a file or a
directory of files in Consul's formats. A signal to end makes it not ready, then ends its streams, so
that proxies go elsewhere, and then itself. A hangup has it read its token and its certificates for
Consul again, and renew those of sidecars.`,
		Example: "  catenary serve --from examples/shop",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.open(cmd)
			if err != nil {
				return err
			}
			return p.run(cmd.Context())
		},
	}
	f.register(cmd)
	return cmd
}

// serveFlags are those of `catenary serve`, part by part.
type serveFlags struct {
	from                     sourceFlags
	port                     grpcFlags
	auth                     authFlags
	identity                 identityFlags
	ask                      questionFlags
	linkerd                  linkerdFlags
	discover                 discoveryFlags
	adminAddr, level, format string
}

func (f *serveFlags) register(cmd *cobra.Command) {
	f.from.register(cmd)
	f.from.registerFollowing(cmd)
	flags := cmd.Flags()
	f.port.register(flags)
	f.auth.register(flags)
	f.identity.register(flags)
	f.ask.register(flags)
	f.linkerd.register(flags)
	f.discover.register(flags)
	flags.StringVar(&f.adminAddr, "admin-addr", defaultAdminAddr, "the `address` of the HTTP side")
	flags.StringVar(&f.level, "log-level", "info", "trace, debug, info, warn, error or off")
	flags.StringVar(&f.format, "log-format", "text", "text or json")
}

// open makes the parts, and takes the ports.
func (f *serveFlags) open(cmd *cobra.Command) (*plane, error) {
	log, err := newLogger(cmd.ErrOrStderr(), f.level, f.format)
	if err != nil {
		return nil, err
	}
	p := &plane{log: log, counts: metrics.New(version)}
	if p.source, err = f.from.open(log, p.counts); err != nil {
		return nil, err
	}
	if p.auth, err = f.auth.open(f.from.from != "", f.port.tls.CA != "", log); err != nil {
		return nil, err
	}
	if p.certificates, err = f.identity.open(p.source, log, p.counts); err != nil {
		return nil, err
	}
	if p.questions, err = f.ask.open(); err != nil {
		return nil, err
	}
	if p.checks, err = f.discover.open(); err != nil {
		return nil, err
	}
	if p.linkerd, err = f.linkerd.open(); err != nil {
		return nil, err
	}
	if p.server, err = f.port.server(p); err != nil {
		return nil, err
	}
	return p, p.listen(cmd.Context(), f.port.addr, f.adminAddr, f.port.tls.Cert != "")
}

// plane is a control plane: what flows is facts, from the source into the store, and from there by the
// xDS server to the proxies; the HTTP side looks on.
type plane struct {
	log          hclog.Logger
	counts       *metrics.Metrics
	source       source
	auth         *auth
	certificates *certificates
	questions    questions
	linkerd      *linkerd
	checks       discovery
	server       *grpcserver.Server
	grpc, http   net.Listener

	// xds and hds are nil until the source has said where it is.
	xds atomic.Pointer[placed]
	hds atomic.Pointer[hdsserver.Server]
}

// placed is an xDS server, and where it is.
type placed struct {
	*xds.Server
	place
}

// run runs all parts until one fails or the context ends. Then the server is no longer ready, proxies
// are sent elsewhere, and last of all the source and the HTTP side end.
func (p *plane) run(ctx context.Context) error {
	store := facts.New()
	httpServer := admin.New(p.answers(store))

	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	running, end := context.WithCancel(failed)
	defer end()
	serving, drain := context.WithCancel(running)
	defer drain()

	group.Go(func() error { return p.source.run(running, store) })
	group.Go(func() error { return p.hangups(running) })
	group.Go(func() error { return p.auth.run(running, store) })
	group.Go(func() error { return p.certificates.run(running, store) })
	group.Go(func() error { return httpServer.Run(running, p.http) })
	group.Go(func() error { return p.serveProxies(serving, store) })
	group.Go(func() error {
		defer end()
		select {
		case <-ctx.Done():
			p.log.Info("ending: no longer ready, sending the proxies elsewhere")
		case <-failed.Done():
		}
		httpServer.Drain()
		p.server.Stop(drain)
		return nil
	})
	return group.Wait()
}

// serveProxies serves xDS, as soon as the source has said where it is: nothing may be said to a proxy
// before, and its connection waits until then.
func (p *plane) serveProxies(ctx context.Context, store *facts.Store) error {
	place, err := p.source.place(ctx)
	if err != nil {
		return errors.Join(ignoreEnd(ctx, err), p.grpc.Close())
	}
	cfg := xds.Config{
		Store: store, Logger: p.log, Metrics: p.counts,
		Datacenter: place.datacenter, TrustDomain: place.trustDomain, Guard: p.auth.guard(place, p.log), Secrets: p.certificates,
	}
	p.questions.answer(p, &cfg)
	server := xds.NewServer(cfg)
	server.Register(p.server)
	p.xds.Store(&placed{server, place})
	destinations := p.linkerd.serve(p, store, place)
	checks := p.checks.server(p, store, place)
	checks.Register(p.server)
	p.hds.Store(checks)
	p.log.Info("serving", "grpc", p.grpc.Addr().String(), "admin", p.http.Addr().String(),
		"source", p.source.name, "datacenter", place.datacenter, "trust_domain", place.trustDomain)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return destinations.Run(ctx) })
	group.Go(func() error { return checks.Run(ctx) })
	group.Go(func() error { return p.server.Run(ctx, p.grpc) })
	group.Go(func() error { followReady(ctx, store, place.datacenter, p.server); return nil })
	return group.Wait()
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// answers is what the HTTP side tells.
func (p *plane) answers(store *facts.Store) admin.Config {
	asker := admin.NewAsker(store)
	p.counts.Watches(func() []metrics.Watch { return measured(p.source.watching(store)) })
	return admin.Config{
		Metrics: p.page(),
		Debug:   isLoopback(p.http.Addr()),
		Ready: func() (bool, string) {
			x := p.xds.Load()
			if x == nil {
				return false, cmp.Or(failure(store.View()), p.silent())
			}
			if ready, reason := store.View().Ready(x.datacenter); !ready {
				return false, reason
			}
			return true, p.source.alarm()
		},
		Proxies: func() []admin.Proxy {
			if x := p.xds.Load(); x != nil {
				return append(x.Proxies(), p.linkerd.proxies()...)
			}
			return nil
		},
		Resources: func(id string) []admin.ProxyResources {
			if x := p.xds.Load(); x != nil {
				return x.Resources(id)
			}
			return nil
		},
		Chain: func(service string) admin.Chain {
			x := p.xds.Load()
			if x == nil {
				return admin.Chain{Pending: p.silent()}
			}
			c := x.Chain(service, "")
			return admin.Chain{Chain: c.Chain, Problems: c.Problems, LastGood: c.LastGood, Pending: c.Pending}
		},
		Discovery: p.discovery(store),
		Endpoints: func(ctx context.Context, service string) admin.Endpoints {
			x := p.xds.Load()
			if x == nil {
				return admin.Describe(store.View(), "", service)
			}
			return asker.Endpoints(ctx, x.datacenter, service)
		},
		Journey:  p.journey(asker),
		Problems: p.problems,
		Health:   p.health(), HealthREST: p.healthREST(),
		Watches: func() []admin.Watch { return p.source.watching(store) },
	}
}

// page is the metrics, measured when they are asked for.
func (p *plane) page() http.Handler {
	page := p.counts.Page()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.source.measure != nil {
			p.source.measure()
		}
		page.ServeHTTP(w, r)
	})
}

// discovery compiles chains for where the source is.
func (p *plane) discovery(store *facts.Store) *admin.Discovery {
	return admin.NewDiscovery(store, func() (admin.Place, string) {
		x := p.xds.Load()
		if x == nil {
			return admin.Place{}, cmp.Or(failure(store.View()), p.silent())
		}
		return admin.Place{Datacenter: x.datacenter, TrustDomain: x.trustDomain}, ""
	})
}

// silent says that nothing is known because the source has not said where it is.
func (p *plane) silent() string { return p.source.name + " has not answered yet" }

// failure is the first reason why something could not be read.
func failure(v facts.View) string {
	for _, t := range v.Topics() {
		if t.Failure != "" && !t.Off {
			return t.Topic.String() + ": " + t.Failure
		}
	}
	return ""
}

func (p *plane) problems() []admin.Problem {
	var list []admin.Problem
	for _, problem := range append(p.source.problems(), p.certificates.problems()...) {
		list = append(list, admin.Problem{Problem: problem})
	}
	if x := p.xds.Load(); x != nil {
		for _, c := range x.Problems() {
			for _, problem := range c.Problems {
				list = append(list, admin.Problem{Problem: problem, Chain: c.Service, LastGood: c.LastGood})
			}
		}
	}
	for _, problem := range p.linkerd.problems() {
		if !slices.ContainsFunc(list, func(other admin.Problem) bool { // Envoys may have the same chain
			return other.Chain == problem.Chain && other.Problem.String() == problem.Problem.String()
		}) {
			list = append(list, problem)
		}
	}
	return list
}
