package main

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

// identityFlags say where the certificates of services come from.
type identityFlags struct{ grpcAddr string }

func (f *identityFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.grpcAddr, "consul-grpc-addr", "", "the `ADDRESS` of Consul's gRPC port, which signs the certificates of sidecars: HOST:PORT, https://HOST:PORT or unix:///PATH "+
		"(default $CONSUL_GRPC_ADDR; without either the agent makes them, and their keys)")
}

// certificates are those of the services, from Consul. There are none with files; nil has none either.
type certificates struct {
	leafs *identity.Leafs // nil with files
	close func()
}

// open makes what the flags choose. It connects to nothing.
func (f *identityFlags) open(from source, log hclog.Logger, counts *metrics.Metrics) (*certificates, error) {
	switch {
	case from.consul == nil && f.grpcAddr != "":
		return nil, errors.New("--consul-grpc-addr asks Consul for certificates, and with --from there is none: leave it out")
	case from.consul == nil:
		return &certificates{}, nil
	}
	issuer, err := from.consul.Issuer(f.grpcAddr)
	if err != nil {
		return nil, err
	}
	log.Debug("where the certificates of sidecars come from", "from", issuer.Way)
	return &certificates{close: issuer.Close, leafs: identity.NewLeafs(identity.LeafsConfig{
		Issuer: issuer, Datacenter: from.consul.Datacenter, Logger: log, Metrics: counts,
	})}, nil
}

// run keeps up the certificates that are needed until ctx ends.
func (c *certificates) run(ctx context.Context, store *facts.Store) error {
	if c == nil || c.leafs == nil {
		return nil
	}
	defer c.close()
	return c.leafs.Run(ctx, store)
}

// renew has all certificates renewed.
func (c *certificates) renew() {
	if c != nil && c.leafs != nil {
		c.leafs.Renew()
	}
}

// Pair returns the certificate and the key of a fact.
func (c *certificates) Pair(leaf facts.Leaf) (chain, key []byte, ok bool) {
	if c == nil || c.leafs == nil {
		return nil, nil, false
	}
	return c.leafs.Pair(leaf)
}

// codeLate is the code of a certificate that was not renewed in time; docs/codes.md says what to do.
const codeLate = "CAT1952"

// problems lists what is wrong with certificates.
func (c *certificates) problems() []chain.Problem {
	if c == nil || c.leafs == nil {
		return nil
	}
	var list []chain.Problem
	for _, text := range c.leafs.Problems() {
		list = append(list, chain.Problem{Code: codeLate, Severity: chain.SeverityError, Origin: "consul", Message: text})
	}
	return list
}
