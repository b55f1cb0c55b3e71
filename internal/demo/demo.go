package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/catenary-mesh/catenary/internal/admin"
)

// Config is what a demo needs from the program it is part of.
type Config struct {
	// Envoy is the path of Envoy; empty looks for it where programs are looked for.
	Envoy string
	// Program is how this program is called, for the commands to try.
	Program string
	// Janitor is a command that runs [Janitor].
	Janitor []string
	// Serve runs the control plane until the context ends.
	Serve func(ctx context.Context, site Site) error
	// Out gets the summary, Talk what else there is to say.
	Out, Talk io.Writer
}

// Site is what the control plane is to serve, and where.
type Site struct {
	// Dir is the directory of files to follow.
	Dir string
	// GRPC and Admin are its two listeners, which it closes.
	GRPC, Admin net.Listener
}

// Run runs the demo until the context, or the process that started this one, ends.
func Run(ctx context.Context, c Config) (err error) {
	dir, err := startJanitor(c.Janitor)
	if err != nil {
		return fmt.Errorf("no place for the demo's files: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	ports, grpc, err := choosePorts()
	if err != nil {
		return err
	}
	site := Site{Dir: filepath.Join(dir.path, "shop"), GRPC: grpc}
	backends, err := startBackends(ports)
	if err != nil {
		return errors.Join(err, grpc.Close())
	}
	defer backends.close()
	if site.Admin, err = ports.listen(portAdmin); err != nil {
		return errors.Join(err, grpc.Close())
	}
	places := places{
		program: c.Program, dir: site.Dir, grpc: grpc.Addr().String(), admin: site.Admin.Addr().String(),
	}
	release, err := ports.reserve(&places)
	if err == nil {
		err = writeShop(site.Dir, backends.moved())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the demo: %w", err), grpc.Close(), site.Admin.Close())
	}
	return play(ctx, c, site, stage{places, release})
}

// stage is where everything is, and what ends the reservation of Envoy's ports.
type stage struct {
	places
	release func()
}

// play runs the parts until one fails or the context ends.
func play(ctx context.Context, c Config, site Site, at stage) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Serve(ctx, site) })
	group.Go(func() error { endWithParent(ctx, os.Getppid, end); return nil })
	screen := screen{
		out: c.Out, live: isTerminal(c.Out),
		places: at.places, admin: admin.NewClient(at.admin), tally: &tally{},
	}
	if path, err := findEnvoy(c.Envoy); err != nil {
		fmt.Fprintf(c.Talk, "catenary: Envoy cannot be had: %v: going on without it\n", err)
		at.release()
	} else {
		screen.envoy = &envoy{path: path, file: filepath.Join(filepath.Dir(site.Dir), "envoy.json"), at: at}
		group.Go(func() error { screen.envoy.run(ctx); return nil })
		group.Go(func() error { callers(ctx, screen.tally, at.places); return nil })
	}
	group.Go(func() error { screen.run(ctx); return nil })
	return group.Wait()
}
