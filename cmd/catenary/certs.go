package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/certdir"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

func newCerts() *cobra.Command {
	c := &certs{}
	cmd := &cobra.Command{
		Use:   "certs --service SERVICE --dir DIR",
		Short: "Keep the certificate of a service fresh on disk",
		Long: `Keep the certificate of SERVICE, its key and the roots of the mesh in DIR, for an application that
proves itself by them: leaf.pem, key.pem (for its owner only) and roots.pem, all of which change at once.

They come from Consul, with a token that has service:write on SERVICE. They are renewed in time, and when another
root signs; a hangup signal has the token read again and the certificate renewed. It runs until it is told to
end; the files stay.`,
		Example: `  catenary certs --service api --dir /run/api/certs
  catenary certs --service api --dir /run/api/certs --once`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd)
	return cmd
}

// certs is what the flags of the verb say.
type certs struct {
	service, dir, tokenFile string
	once                    bool
	level, format           string
	from                    sourceFlags
	identity                identityFlags
}

func (c *certs) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.service, "service", "", "the `service` to have a certificate of, spelled as it is registered (required)")
	flags.StringVar(&c.dir, "dir", "", "the `directory` for the files (required)")
	flags.BoolVar(&c.once, "once", false, "end when the files are there")
	flags.StringVar(&c.from.consulAddr, "consul-addr", "", "the `URL` of Consul's HTTP API (default $CONSUL_HTTP_ADDR, else 127.0.0.1:8500)")
	flags.StringVar(&c.from.datacenter, "datacenter", "", "the `datacenter` to be in (default that of the Consul agent)")
	flags.StringVar(&c.tokenFile, "token-file", "", "the `file` with the service's token (default $CONSUL_HTTP_TOKEN_FILE, else $CONSUL_HTTP_TOKEN)")
	c.identity.register(flags)
	flags.StringVar(&c.level, "log-level", "info", "trace, debug, info, warn, error or off; with --once there is no log")
	flags.StringVar(&c.format, "log-format", "text", "text or json")
}

func (c *certs) run(cmd *cobra.Command) error {
	log, err := newLogger(cmd.ErrOrStderr(), c.level, c.format)
	if err != nil {
		return err
	}
	if c.service == "" || c.dir == "" {
		return fmt.Errorf("--service and --dir are required; see %s --help", cmd.CommandPath())
	}
	if err := bootstrap.CheckName("service", c.service); err != nil {
		return err
	}
	if c.once { // what is not well in the end is the error
		log = hclog.NewNullLogger()
	}
	src, held, err := c.open(log)
	if err != nil {
		return err
	}
	dir, err := certdir.Open(c.dir)
	if err != nil {
		return err
	}
	k := &keeping{service: c.service, dir: dir, held: held, log: log, once: c.once}
	ctx, patience := cmd.Context(), context.CancelFunc(func() {})
	if c.once {
		ctx, patience = context.WithTimeout(ctx, onceTimeout)
	}
	defer patience()
	if c.once {
		if err := src.reach(ctx); err != nil {
			return errors.Join(unreachable(err), dir.Close())
		}
	}
	return errors.Join(k.run(ctx, src), dir.Close())
}

// open returns where certificates come from. It connects to nothing.
func (c *certs) open(log hclog.Logger) (source, *certificates, error) {
	if c.tokenFile != "" {
		if err := os.Setenv("CONSUL_HTTP_TOKEN_FILE", c.tokenFile); err != nil {
			return source{}, nil, err
		}
	}
	counts := metrics.New(version)
	c.from.sparse, c.from.consulMode = true, string(consulwatch.FollowPoll)
	src, err := c.from.openConsul(log, log, counts)
	if err != nil {
		return source{}, nil, err
	}
	held, err := c.identity.open(src, log, counts)
	return src, held, err
}

// run keeps the directory until ctx ends.
func (k *keeping) run(ctx context.Context, from source) error {
	store := facts.New()
	store.Need("certs", facts.CARoots(), facts.LeafOf(k.service))
	group, failed := errgroup.WithContext(ctx)
	running, end := context.WithCancel(failed)
	defer end()
	group.Go(func() error { return from.run(running, store) })
	group.Go(func() error { return ignoreEnd(running, k.held.run(running, store)) })
	group.Go(func() error { onHangup(running, func() { k.held.refresh(from, k.log) }); return nil })
	group.Go(func() error {
		defer end()
		return k.follow(running, store)
	})
	return group.Wait()
}
