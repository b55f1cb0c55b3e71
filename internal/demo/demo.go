package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

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

// The ports that are taken when they are free.
const (
	portGRPC          = 18000
	portAdmin         = 18001
	portEnvoyAdmin    = 19000
	portUpstreamAPI   = 9191
	portUpstreamStock = 9192
)

// Run runs the demo until the context, or the process that started this one, ends.
func Run(ctx context.Context, c Config) (err error) {
	dir, err := startJanitor(c.Janitor)
	if err != nil {
		return fmt.Errorf("no place for the demo's files: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	backends, err := startBackends()
	if err != nil {
		return err
	}
	defer backends.close()
	site := Site{Dir: filepath.Join(dir.path, "shop")}
	if err := writeShop(site.Dir, backends.moved()); err != nil {
		return fmt.Errorf("write the demo's files: %w", err)
	}
	if site.GRPC, err = listen(portGRPC); err != nil {
		return err
	}
	if site.Admin, err = listen(portAdmin); err != nil {
		return errors.Join(err, site.GRPC.Close())
	}
	places, err := choosePlaces(c.Program, site)
	if err != nil {
		return errors.Join(err, site.GRPC.Close(), site.Admin.Close())
	}
	return play(ctx, c, site, places)
}

// play runs the parts until one fails or the context ends.
func play(ctx context.Context, c Config, site Site, places places) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Serve(ctx, site) })
	group.Go(func() error { endWithParent(ctx, os.Getppid, end); return nil })
	screen := screen{
		out: c.Out, live: isTerminal(c.Out),
		places: places, admin: admin.NewClient(places.admin), tally: &tally{},
	}
	if path, err := findEnvoy(c.Envoy); err != nil {
		fmt.Fprintf(c.Talk, "catenary: Envoy cannot be had: %v: going on without it\n", err)
	} else {
		screen.envoy = &envoy{path: path, file: filepath.Join(filepath.Dir(site.Dir), "envoy.json"), places: places}
		group.Go(func() error { screen.envoy.run(ctx); return nil })
		group.Go(func() error { callers(ctx, screen.tally, places); return nil })
	}
	group.Go(func() error { screen.run(ctx); return nil })
	return group.Wait()
}

// places is where everything is, each as HOST:PORT but for the first two.
type places struct {
	program, dir           string
	grpc, admin            string
	envoyAdmin, api, stock string
}

func choosePlaces(program string, site Site) (places, error) {
	p := places{
		program: program, dir: site.Dir,
		grpc: site.GRPC.Addr().String(), admin: site.Admin.Addr().String(),
	}
	// All are held until all are chosen, so that no two are the same.
	for _, want := range []struct {
		port int
		addr *string
	}{
		{portEnvoyAdmin, &p.envoyAdmin}, {portUpstreamAPI, &p.api}, {portUpstreamStock, &p.stock},
	} {
		l, err := listen(want.port)
		if err != nil {
			return p, err
		}
		defer l.Close()
		*want.addr = l.Addr().String()
	}
	return p, nil
}

// listen listens on the port, or on a free one where it is taken.
func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err == nil {
		return l, nil
	}
	l, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("no port to listen on: %w", err)
	}
	return l, nil
}

const host = "127.0.0.1"

func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port) // of an address we listened on
	return n
}
