// Command seed fills a Consul's catalog for the load generator xdsload, which must be told the same
// -sidecars (as -streams), -upstreams and -apps.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/catenary-mesh/catenary/test/load/catalog"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var size catalog.Config
	url := flag.String("consul", "http://127.0.0.1:8500", "the `URL` of Consul's HTTP API")
	token := flag.String("token", "", "the token to write with")
	flag.IntVar(&size.Services, "services", 200, "services to be upstreams")
	flag.IntVar(&size.Instances, "instances", 5, "instances of each, with a sidecar")
	flag.IntVar(&size.Sidecars, "sidecars", 300, "sidecars to be imitated")
	flag.IntVar(&size.Upstreams, "upstreams", 10, "upstreams of each of them")
	flag.IntVar(&size.Apps, "apps", 0, "services that these are sidecars of; 0 is one for each")
	flag.Parse()
	consul := catalog.NewConsul(*url, *token)
	defer consul.Close()
	begin := time.Now()
	n, err := consul.Seed(ctx, size)
	if err == nil {
		fmt.Printf("%d registrations in %s\n", n, time.Since(begin).Round(time.Millisecond))
	}
	return err
}
