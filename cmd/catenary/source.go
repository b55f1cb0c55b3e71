package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

// source is where facts come from.
type source struct {
	// name is how the log calls it.
	name string
	// run commits what there is to the store until the context ends.
	run func(context.Context, *facts.Store) error
	// place returns where the source is, once it is known.
	place func(context.Context) (place, error)
	// problems lists what the source cannot read now.
	problems func() []chain.Problem
	// watches lists what is followed; nil for files, of which the store says it.
	watches func(*facts.Store) []admin.Watch
	// reload reads the token and the certificates again; nil for files.
	reload func() error
	// reach fails when nothing is where the source should be; nil for files, which are looked at by open.
	reach func(context.Context) error
	// measure brings those gauges up to date that do not change by an event; nil when there are none.
	measure func()
	// consul is the Consul that is followed; nil for files.
	consul *consulwatch.Source
}

// place is what every chain is compiled for.
type place struct{ datacenter, trustDomain string }

// sourceFlags are the flags that choose a source.
type sourceFlags struct {
	from, consulAddr, datacenter, trustDomain, intentions string

	consulServers []string
	consulMode    string
	sparse        bool // only what is needed is followed
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "read the file or directory `PATH` in Consul's formats instead of following Consul; - is stdin")
	flags.StringVar(&f.consulAddr, "consul-addr", "", "the `URL` of Consul's HTTP API (default $CONSUL_HTTP_ADDR, else 127.0.0.1:8500)")
	flags.StringVar(&f.datacenter, "datacenter", "", "the `datacenter` to be in (default that of the Consul agent; "+chain.DefaultDatacenter+" with files)")
	flags.StringVar(&f.trustDomain, "trust-domain", "", "the `domain` that ends the names of services (default that of Consul's certificate authority; "+chain.DefaultTrustDomain+" where there is none, and with files)")
	flags.StringVar(&f.intentions, "default-intention-policy", "", "`allow|deny`: what holds between services that no intention is about (default what Consul is configured with; allow with files)")
	cmd.MarkFlagsMutuallyExclusive("from", "consul-addr")
}

// registerFollowing adds the flags of a verb that goes on following Consul.
func (f *sourceFlags) registerFollowing(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.consulServers, "consul-servers", nil, "the `HOST:PORT,...` of the RPC ports of Consul's servers, to get events from (default those that the agent knows)")
	flags.StringVar(&f.consulMode, "consul-mode", string(consulwatch.FollowAuto), "how changes are heard of: auto takes events and falls back to blocking queries, stream and poll take only the one")
	cmd.MarkFlagsMutuallyExclusive("from", "consul-servers")
	cmd.MarkFlagsMutuallyExclusive("from", "consul-mode")
}

// fixed is the place that the flags name, with the defaults of files.
func (f *sourceFlags) fixed() place {
	return place{
		datacenter:  strings.ToLower(cmp.Or(f.datacenter, chain.DefaultDatacenter)),
		trustDomain: strings.ToLower(cmp.Or(f.trustDomain, chain.DefaultTrustDomain)),
	}
}

// open returns the source that the flags choose.
func (f *sourceFlags) open(log hclog.Logger, counts *metrics.Metrics) (source, error) {
	if f.from != "" {
		return f.openFiles(log, counts)
	}
	return f.openConsul(log, log, counts)
}

// openConsul returns the source that follows Consul. How the following goes is logged to follow.
func (f *sourceFlags) openConsul(log, follow hclog.Logger, counts *metrics.Metrics) (source, error) {
	if f.consulAddr != "" {
		// Consul's client completes an address by other variables of its environment, such as
		// CONSUL_HTTP_SSL; there it is found by all who use that client.
		if err := os.Setenv("CONSUL_HTTP_ADDR", f.consulAddr); err != nil {
			return source{}, err
		}
	}
	consul, err := consulwatch.New(consulwatch.Config{
		Datacenter: strings.ToLower(f.datacenter), Logger: follow, Metrics: queries{counts},
		Servers: f.consulServers, Follow: consulwatch.Follow(f.consulMode), DefaultIntentions: f.intentions, Sparse: f.sparse,
	})
	if err != nil {
		return source{}, err
	}
	return source{
		name:     "Consul at " + consul.Address(),
		consul:   consul,
		run:      consul.Run,
		reach:    consul.Reach,
		problems: consul.Problems,
		reload:   consul.Reload,
		watches:  func(store *facts.Store) []admin.Watch { return consulWatches(consul.Status(), store) },
		measure: func() {
			counts.SourceProblems(len(consul.Problems()))
			counts.SourceAge(consul.OldestAnswer())
		},
		place: func(ctx context.Context) (place, error) {
			p := place{trustDomain: strings.ToLower(f.trustDomain)}
			var err error
			if p.datacenter, err = consul.Datacenter(ctx); err == nil && p.trustDomain == "" {
				p.trustDomain, err = consul.TrustDomain(ctx)
			}
			if errors.Is(err, consulwatch.ErrNoConnect) {
				log.Warn("Consul has no service mesh, and so no trust domain of its own: plain services need none, "+
					"but the names of clusters end in one; --trust-domain sets it", "reason", err, "trust_domain", chain.DefaultTrustDomain)
				p.trustDomain, err = chain.DefaultTrustDomain, nil
			}
			if err != nil {
				return place{}, unreachable(err)
			}
			return p, nil
		},
	}, nil
}

// queries counts the queries to Consul.
type queries struct{ *metrics.Metrics }

// Query implements consulwatch.Metrics.
func (q queries) Query(kind facts.TopicKind, result string, _ time.Duration) {
	q.SourceQuery(string(kind), result)
}

// Event implements consulwatch.Metrics.
func (q queries) Event(kind facts.TopicKind, changed bool) { q.SourceEvent(string(kind), changed) }
