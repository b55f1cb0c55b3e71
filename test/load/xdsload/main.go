// Command xdsload imitates many Envoy sidecars that are configured by delta ADS, measures the server, and
// prints one JSON object: see [fleet.Result] for what is in it. The sidecars are those that the command
// seed has registered. It ends with 1 when a stream was not configured, missed a flip or was ended by the
// server, and with 2 when it could not measure.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/catenary-mesh/catenary/test/load/catalog"
	"github.com/catenary-mesh/catenary/test/load/fleet"
)

// options are what the command line says.
type options struct {
	fleet             fleet.Config
	size              catalog.Config
	consul, token     string
	endpoints, resume bool
	procs             int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, parse()))
}

func parse() *options {
	var o options
	f := &o.fleet
	flag.StringVar(&f.Address, "address", "127.0.0.1:8502", "host:port of the xDS server")
	flag.StringVar(&f.Token, "token", "", "sent to the xDS server as x-consul-token")
	flag.BoolVar(&f.TLS, "tls", false, "encrypt, without a look at the server's certificate")
	flag.IntVar(&f.Streams, "streams", 300, "sidecars to imitate, each with a connection and a stream")
	flag.IntVar(&f.Clusters, "upstreams", 10, "upstreams of each: so many clusters with endpoints make a configuration whole")
	flag.IntVar(&o.size.Apps, "apps", 0, "services that these are sidecars of; 0 is one for each")
	flag.Func("process", "a process of the server to measure, as `name=PID`; may be repeated", func(s string) error {
		return addProcess(f, s)
	})
	flag.DurationVar(&f.FullTimeout, "full-timeout", 2*time.Minute, "how long all may take to be configured")
	flag.DurationVar(&f.FlipTimeout, "flip-timeout", 30*time.Second, "how long a flip may take")
	flag.DurationVar(&f.Settle, "settle", 4*time.Second, "how long nothing happens before the flips")
	flag.DurationVar(&f.Gap, "gap", 500*time.Millisecond, "pause after each flip")
	flag.IntVar(&f.Warmup, "warmup", 5, "flips before those that are measured")
	flag.IntVar(&f.Flips, "flips", 40, "flips to measure")
	flag.StringVar(&o.consul, "consul", "http://127.0.0.1:8500", "the `URL` of the Consul in which health is flipped")
	flag.StringVar(&o.token, "consul-token", "", "the token to flip with")
	flag.IntVar(&f.Slow, "slow", 0, "streams that stop reading during the measured flips")
	flag.IntVar(&f.RefuseEvery, "nack", 0, "refuse every n-th response on each stream, once it is configured")
	flag.IntVar(&f.Reconnects, "reconnects", 0, "how often to cut all streams at once and let them come back")
	flag.BoolVar(&o.resume, "resume", false, "in the end let all come back with initial_resource_versions")
	flag.BoolVar(&o.endpoints, "endpoints", false, "print what endpoints each stream holds")
	flag.IntVar(&o.procs, "procs", 1, "processors to use: one leaves the others to the server")
	flag.Parse()
	f.Resume = o.resume
	return &o
}

func addProcess(f *fleet.Config, s string) error {
	name, pid, ok := strings.Cut(s, "=")
	n, err := strconv.Atoi(pid)
	if !ok || err != nil {
		return fmt.Errorf("%q is not name=PID", s)
	}
	f.Processes = append(f.Processes, fleet.Process{Name: name, PID: n})
	return nil
}

func run(ctx context.Context, o *options) int {
	runtime.GOMAXPROCS(o.procs)
	const rarely = 400
	debug.SetGCPercent(rarely)
	consul := catalog.NewConsul(o.consul, o.token)
	defer consul.Close()
	watched := catalog.Watched()
	o.fleet.Node = o.size.Node
	o.fleet.Watched = fleet.Endpoint{Service: watched.Service(), Address: watched.Address(), Port: watched.Port()}
	o.fleet.Flip = func(ctx context.Context, healthy bool) error { return consul.SetHealth(ctx, watched, healthy) }
	result, err := fleet.Run(ctx, o.fleet)
	if err != nil {
		fmt.Fprintln(os.Stderr, "xdsload:", err)
		return 2
	}
	if !o.endpoints {
		result.Endpoints = nil
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(result); err != nil {
		fmt.Fprintln(os.Stderr, "xdsload:", err)
		return 2
	}
	if result.Failed() {
		return 1
	}
	return 0
}
