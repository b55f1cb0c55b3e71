package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/grpcserver"
	"github.com/catenary-mesh/catenary/xds"
)

// grpcFlags are the flags of the port that clients connect to.
type grpcFlags struct {
	addr       string
	tls        grpcserver.Files
	maxAge     time.Duration
	maxStreams int
}

func (f *grpcFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` to serve proxies at")
	flags.StringVar(&f.tls.Cert, "grpc-tls-cert", "", "serve proxies over TLS with the certificates in this PEM `file`, read again when it changes")
	flags.StringVar(&f.tls.Key, "grpc-tls-key", "", "the PEM `file` with the key of --grpc-tls-cert")
	flags.StringVar(&f.tls.CA, "grpc-tls-ca", "", "verify the certificates of clients that have one by the CAs in this PEM `file`")
	flags.DurationVar(&f.maxAge, "grpc-max-connection-age", grpcserver.DefaultMaxConnectionAge,
		"send clients elsewhere when their connection is this old, give or take a tenth; 0 for never")
	flags.IntVar(&f.maxStreams, "max-streams", grpcserver.DefaultMaxStreams, "how many streams of clients there can be")
}

// server returns the server of the port.
func (f *grpcFlags) server(p *plane) (*grpcserver.Server, error) {
	return grpcserver.New(grpcserver.Config{
		Logger: p.log, Metrics: p.counts, TLS: f.tls,
		MaxConnectionAge: f.maxAge, MaxStreams: f.maxStreams,
		Options: xds.ServerOptions(),
	})
}

// followReady tells the health of the server by how well the facts are known, until ctx ends.
func followReady(ctx context.Context, store *facts.Store, datacenter string, g *grpcserver.Server) {
	sub := store.Subscribe()
	defer sub.Close()
	for {
		view, _ := sub.Drain()
		ready, _ := view.Ready(datacenter)
		g.SetReady(ready)
		select {
		case <-ctx.Done():
			return
		case <-sub.Bell():
		}
	}
}
