package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/catenary-mesh/catenary/test/load/catalog"
	"github.com/catenary-mesh/catenary/test/load/fleet"
)

// round is one run of each server.
type round struct {
	load    string
	results map[string]*fleet.Result // by name of the server
	// void says why the round does not count, or is empty.
	void string
}

// round measures all servers one after the other. Each round begins with another, so that none is always
// the one that follows a certain other.
func (c config) round(ctx context.Context, dir string, s scenario, n int) (round, error) {
	r := round{load: loadAverage(), results: map[string]*fleet.Result{}}
	fmt.Fprintf(c.progress, "%s: round %d of %d, load average %s\n", s.name, n+1, c.rounds, r.load)
	for i := range c.servers {
		server := c.servers[(i+n)%len(c.servers)]
		result, err := c.measure(ctx, dir, s, server)
		if err != nil {
			return round{}, fmt.Errorf("%s: %w", server.name, err)
		}
		r.results[server.name] = result
		fmt.Fprintf(c.progress, "  %-9s all configured %.0f ms, flip to last stream %.1f ms, CPU a flip %.1f ms, missed %d\n",
			server.name, result.AllFullMS, result.Flips.Last.P50, cpuPerFlip(result), result.Flips.Missed)
	}
	if r.void = c.compare(r.results); r.void != "" {
		fmt.Fprintf(c.progress, "  this round is void: %s\n", r.void)
	}
	return r, nil
}

// compare says why a round does not count: a server that failed its streams, or servers that gave them
// different endpoints before the flips.
func (c config) compare(results map[string]*fleet.Result) string {
	const shown = 3
	first := c.servers[0]
	for _, s := range c.servers {
		r := results[s.name]
		if r.Failed() {
			return fmt.Sprintf("%s configured %d of %d streams, which missed %d flips: %s",
				s.title, r.Full, r.Streams, r.Flips.Missed, strings.Join(r.Errors, "; "))
		}
		if d := fleet.Differences(results[first.name].Endpoints, r.Endpoints, shown); len(d) > 0 {
			return fmt.Sprintf("%s and %s give streams different endpoints: %s", first.title, s.title, strings.Join(d, "; "))
		}
	}
	return ""
}

// measure starts what is measured, with a Consul of its own: the memory that one server's run leaves in
// a Consul would hide what the next one adds.
func (c config) measure(ctx context.Context, dir string, s scenario, server server) (*fleet.Result, error) {
	size := s.size
	size.Apps = c.run.apps
	consul, at, err := startConsul(ctx, dir, c.consul, server.hcl)
	if err != nil {
		return nil, err
	}
	defer consul.stop()
	api := catalog.NewConsul(at.http, server.token())
	defer api.Close()
	if _, err := api.Seed(ctx, size); err != nil {
		return nil, err
	}
	args := []string{"-process", fmt.Sprintf("consul=%d", consul.pid())}
	xds := at.grpc
	if server.catenary {
		catenary, address, err := c.startCatenary(ctx, dir, at, server)
		if err != nil {
			return nil, err
		}
		defer catenary.stop()
		args = append(args, "-process", fmt.Sprintf("catenary=%d", catenary.pid()))
		xds = address
	}
	args = append(args, generatorArgs(c.run, size, xds, at.http)...)
	return c.generate(ctx, append(args, fmt.Sprintf("-tls=%t", server.tls), "-token", server.token(), "-consul-token", server.token()))
}

func generatorArgs(run runConfig, size catalog.Config, xds, consul string) []string {
	args := []string{"-address", xds, "-consul", consul, "-resume", "-endpoints"}
	for name, value := range map[string]int{
		"streams": size.Sidecars, "upstreams": size.Upstreams, "apps": size.Apps,
		"flips": run.flips, "warmup": run.warmup, "reconnects": run.reconnects,
	} {
		args = append(args, fmt.Sprintf("-%s=%d", name, value))
	}
	return append(args, "-full-timeout", "5m", "-flip-timeout", "1m", "-settle", run.settle.String(), "-gap", run.gap.String())
}

// generate runs the load generator, which ends with an error when a stream was failed and prints what
// it measured all the same.
func (c config) generate(ctx context.Context, args []string) (*fleet.Result, error) {
	cmd := command(ctx, c.generator, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("the load generator: %w: %s", err, errs.String())
	}
	var result fleet.Result
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return nil, fmt.Errorf("the load generator's result: %w: %s", err, errs.String())
	}
	return &result, nil
}

// addresses are those of a Consul.
type addresses struct {
	http string // a URL
	grpc string // host:port
}

func startConsul(ctx context.Context, dir, program, hcl string) (*process, addresses, error) {
	flags := []string{"http-port", "grpc-port", "server-port", "serf-lan-port", "serf-wan-port"}
	ports, err := freePorts(len(flags))
	if err != nil {
		return nil, addresses{}, err
	}
	args := []string{
		"agent", "-dev", "-node", "bench", "-log-level", "warn", "-bind", "127.0.0.1", "-client", "127.0.0.1",
		"-dns-port", "-1", "-grpc-tls-port", "-1", "-hcl", `performance { raft_multiplier = 1 }`,
	}
	for i, name := range flags {
		args = append(args, fmt.Sprintf("-%s=%d", name, ports[i]))
	}
	if hcl != "" {
		args = append(args, "-hcl", hcl)
	}
	p, err := start(dir, "consul", "", program, args...)
	if err != nil {
		return nil, addresses{}, err
	}
	at := addresses{fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])}
	if err := p.await(ctx, at.http+"/v1/status/leader", at.http+"/v1/connect/ca/roots"); err != nil {
		p.stop()
		return nil, addresses{}, err
	}
	return p, at, nil
}

func (c config) startCatenary(ctx context.Context, dir string, consul addresses, as server) (*process, string, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, "", err
	}
	flags, err := knownFlags(ctx, c.catenary, []string{"--consul-grpc-addr", consul.grpc})
	if err != nil {
		return nil, "", err
	}
	if as.tls {
		cert, key, err := certify(dir)
		if err != nil {
			return nil, "", err
		}
		flags = append(flags, "--grpc-tls-cert", cert, "--grpc-tls-key", key)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	admin := fmt.Sprintf("127.0.0.1:%d", ports[1])
	args := append([]string{"serve", "--consul-addr", consul.http, "--grpc-addr", address, "--admin-addr", admin, "--log-level", "warn"}, flags...)
	p, err := start(dir, "catenary", as.token(), c.catenary, args...)
	if err != nil {
		return nil, "", err
	}
	if err := p.await(ctx, "http://"+admin+"/readyz"); err != nil {
		p.stop()
		return nil, "", err
	}
	return p, address, nil
}

// knownFlags are those of the flags, each with its value, that this catenary knows.
func knownFlags(ctx context.Context, program string, wanted ...[]string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	help, err := command(ctx, program, "serve", "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s serve --help: %w: %s", filepath.Base(program), err, help)
	}
	var flags []string
	for _, f := range wanted {
		if bytes.Contains(help, []byte(f[0]+" ")) {
			flags = append(flags, f...)
		}
	}
	return flags, nil
}

// loadAverage is that of the last 1, 5 and 15 minutes.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
