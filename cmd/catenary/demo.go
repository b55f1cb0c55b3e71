package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/demo"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

// janitorVerb is the hidden verb that clears up after a demo.
const janitorVerb = "demo-janitor"

func newDemo() *cobra.Command {
	var envoy string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an example shop behind a real Envoy, and show what happens",
		Long: `Run an example on this machine: a control plane that serves a small shop from files, the shop's
backends, an Envoy in front of them, and a trickle of requests through it. Nothing is left behind.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			ctx, stop := endWithTerminal(cmd.Context())
			defer stop()
			return demo.Run(ctx, demo.Config{
				Envoy: envoy, Program: callable(program), Janitor: []string{program, janitorVerb},
				Out: cmd.OutOrStdout(), Talk: cmd.ErrOrStderr(),
				Serve: func(ctx context.Context, site demo.Site) error { return serveSite(ctx, site) },
			})
		},
	}
	cmd.Flags().StringVar(&envoy, "envoy", "", "the `PATH` of Envoy (default envoy in $PATH)")
	return cmd
}

// callable is how this program can be called from anywhere.
func callable(program string) string {
	if name := filepath.Base(os.Args[0]); name == os.Args[0] {
		return name
	}
	return program
}

// endWithTerminal ends the context when the terminal goes away, unless that is to be ignored.
func endWithTerminal(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// serveSite runs the control plane of a demo. What it would log the demo shows.
func serveSite(ctx context.Context, site demo.Site) error {
	p := &plane{log: hclog.NewNullLogger(), counts: metrics.New(version), linkerd: &linkerd{}, grpc: site.GRPC, http: site.Admin}
	var err error
	if p.source, err = (&sourceFlags{from: site.Dir}).open(p.log, p.counts); err != nil {
		return err
	}
	if p.auth, err = (&authFlags{}).open(true, false, p.log); err != nil {
		return err
	}
	if p.server, err = (&grpcFlags{}).server(p); err != nil {
		return err
	}
	return p.run(ctx)
}

func newJanitor() *cobra.Command {
	return &cobra.Command{
		Use:    janitorVerb,
		Short:  "Hold a directory for a demo, and remove it when stdin ends",
		Hidden: true,
		Args:   exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Janitor(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
