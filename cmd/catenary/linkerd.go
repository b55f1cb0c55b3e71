package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/destination"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// linkerdFlags are those of what Linkerd's proxies are served.
type linkerdFlags struct {
	suffix, http2 string
	keepalive     time.Duration
	plain         bool
}

func (f *linkerdFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.suffix, "destination-suffix", "", "Linkerd's proxies may ask for SERVICE.default.`SUFFIX` too, such as svc.cluster.local")
	flags.StringVar(&f.http2, "destination-http2", "", "what Linkerd's proxies are to use of HTTP/2 in the mesh, such as `keepalive=10s,timeout=3s,while-idle` (default nothing said)")
	flags.DurationVar(&f.keepalive, "destination-keepalive", destination.DefaultKeepalive, "how long Linkerd's proxies are left without a message at the most")
	flags.BoolVar(&f.plain, "destination-plain", false, "have Linkerd's proxies dial instances at their own address also where they have a sidecar: they have no certificate of the mesh")
}

// linkerd is what Linkerd's proxies are served.
type linkerd struct {
	config destination.Config
	server atomic.Pointer[destination.Server] // nil until the source has said where it is
}

func (f *linkerdFlags) open() (*linkerd, error) {
	http2, err := destination.ParseHTTP2(f.http2)
	if err != nil {
		return nil, fmt.Errorf("--destination-http2: %w", err)
	}
	if f.keepalive < time.Second {
		return nil, fmt.Errorf("--destination-keepalive %s is too short: give 1s or more", f.keepalive)
	}
	if err := destination.CheckSuffix(f.suffix); err != nil {
		return nil, fmt.Errorf("--destination-suffix: %w", err)
	}
	return &linkerd{config: destination.Config{
		Suffix: f.suffix, HTTP2: http2, Keepalive: f.keepalive, Place: destination.Place{Plain: f.plain},
	}}, nil
}

// serve returns the server, registered with the port.
func (l *linkerd) serve(p *plane, store *facts.Store, at place) *destination.Server {
	cfg := l.config
	cfg.Store, cfg.Logger, cfg.Metrics = store, p.log, p.counts
	cfg.Place.Datacenter, cfg.Place.TrustDomain = at.datacenter, at.trustDomain
	cfg.Guard = readers{p.auth.guard(at, p.log)}
	server := destination.NewServer(cfg)
	server.Register(p.server)
	l.server.Store(server)
	return server
}

// readers admits clients that read, and speak for no service.
type readers struct{ guard xds.Guard }

// Admit implements [destination.Guard].
func (r readers) Admit(ctx context.Context, client string) (*destination.Grant, error) {
	grant, err := r.guard.Admit(ctx, snapshot.Client{ID: client})
	if err != nil {
		return nil, err
	}
	return &destination.Grant{Reader: grant.Reader, Revoked: grant.Revoked, Err: grant.Err, Release: grant.Release}, nil
}

// proxies are the streams of Linkerd's proxies, as all clients are told of.
func (l *linkerd) proxies() []admin.Proxy {
	server := l.server.Load()
	if server == nil {
		return nil
	}
	var list []admin.Proxy
	for _, st := range server.Streams() {
		p := linkerdProxy(st)
		if l.config.Place.Plain {
			p.Kind = string(snapshot.Plain)
		}
		list = append(list, p)
	}
	return list
}

// problems are those of the chains that Linkerd's proxies ask about.
func (l *linkerd) problems() []admin.Problem {
	server := l.server.Load()
	if server == nil {
		return nil
	}
	var list []admin.Problem
	for _, c := range server.Problems() {
		for _, problem := range c.Problems {
			list = append(list, admin.Problem{Problem: problem, Chain: c.Service, LastGood: c.LastGood})
		}
	}
	return list
}

// formLinkerdProfile is the form of streams of profiles.
const formLinkerdProfile = "linkerd-profile"

func linkerdProxy(st destination.StreamStatus) admin.Proxy {
	p := admin.Proxy{
		ID: st.ID, Kind: string(snapshot.Mesh), Address: st.Address, Protocol: st.Form, ConnectedAt: st.ConnectedAt,
		State: xds.StateSynced, Notes: st.Notes, Problems: st.Problems,
	}
	switch {
	case st.Pending != "":
		p.State, p.Reason = xds.StatePending, st.Pending
		p.Pending = []xds.PendingStatus{{Upstream: st.Path, Reason: st.Pending}}
	case st.Messages == 0:
		p.State, p.Reason = xds.StateNotSent, "nothing was sent yet"
	}
	t := xds.TypeStatus{Type: "endpoint", State: p.State, Resources: st.Endpoints, Responses: st.Messages}
	if st.Form == formLinkerdProfile {
		t.Type, t.Resources = "profile", min(st.Messages, 1)
	}
	if !st.SentAt.IsZero() {
		t.SentAt = &st.SentAt
	}
	p.Types = []xds.TypeStatus{t}
	return p
}
