package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/xds"
)

// The ways in which a client can prove who it is.
const (
	authNone   = "none"
	authConsul = "consul"
	authMTLS   = "mtls"
)

// authFlags say how clients prove who they are.
type authFlags struct{ ways string }

func (f *authFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.ways, "grpc-auth", "", "how clients prove who they are: none, or `WAY,...` of consul (a token with service:write on their service) "+
		"and mtls (a certificate of --grpc-tls-ca), of which one suffices (default consul with Consul; none with --from)")
}

// auth is who is served.
type auth struct {
	ways     []string
	verdicts *identity.Verdicts // nil unless by tokens
	close    func()
}

// open makes what the flags choose, for a source of files or a Consul, with or without an authority for
// certificates. It connects to nothing.
func (f *authFlags) open(files, ca bool, log hclog.Logger) (*auth, error) {
	ways, err := f.parse(files, ca)
	a := &auth{ways: ways, close: func() {}}
	if err != nil || !slices.Contains(ways, authConsul) {
		return a, err
	}
	authorizer, err := consulwatch.NewAuthorizer(nil)
	if err != nil {
		return nil, err
	}
	a.close = authorizer.Close
	a.verdicts = identity.NewVerdicts(identity.Config{Authorizer: authorizer, Logger: log})
	return a, nil
}

// parse returns the ways, none of them twice; none at all when clients are believed.
func (f *authFlags) parse(files, ca bool) ([]string, error) {
	var ways []string
	for way := range strings.SplitSeq(f.ways, ",") {
		switch way = strings.TrimSpace(way); way {
		case "":
			continue
		case authNone, authConsul, authMTLS:
			ways = append(ways, way)
		default:
			return nil, fmt.Errorf("--grpc-auth: unknown way %q: want none, consul, mtls or consul,mtls", way)
		}
	}
	slices.Sort(ways)
	ways = slices.Compact(ways)
	switch {
	case f.ways != "" && len(ways) == 0:
		return nil, errors.New("--grpc-auth names no way: want none, consul, mtls or consul,mtls")
	case len(ways) == 0 && !files:
		return []string{authConsul}, nil
	case slices.Contains(ways, authNone) && len(ways) > 1:
		return nil, fmt.Errorf("--grpc-auth %s: with none everyone is believed, so there is nothing to add to it", f.ways)
	case slices.Contains(ways, authConsul) && files:
		return nil, errors.New("--grpc-auth consul asks Consul what tokens may, and with --from there is none: give mtls or none")
	case slices.Contains(ways, authMTLS) && !ca:
		return nil, errors.New("--grpc-auth mtls needs --grpc-tls-ca: the authority whose certificates are believed")
	}
	return slices.DeleteFunc(ways, func(way string) bool { return way == authNone }), nil
}

// run keeps up what tokens may until ctx ends.
func (a *auth) run(ctx context.Context, store *facts.Store) error {
	if a.verdicts == nil {
		return nil
	}
	defer a.close()
	return a.verdicts.Run(ctx, store)
}

// guard returns the guard of the streams.
func (a *auth) guard(place place, log hclog.Logger) xds.Guard {
	cfg := xds.GuardConfig{
		Certificates: slices.Contains(a.ways, authMTLS),
		Datacenter:   place.datacenter, TrustDomain: place.trustDomain, Logger: log,
	}
	if a.verdicts != nil {
		cfg.Tokens = a.verdicts
	}
	return xds.NewGuard(cfg)
}

// warn says what is left open to everyone who reaches an address that is not only this machine's.
func (a *auth) warn(log hclog.Logger, addr string, encrypted bool) {
	switch {
	case len(a.ways) == 0:
		log.Warn("proxies are served without authentication to everyone who reaches this address; --grpc-auth asks who they are", "grpc", addr)
	case !encrypted:
		log.Warn("whoever listens on the way can read the tokens that proxies send to this address and the keys that sidecars get; --grpc-tls-cert encrypts them", "grpc", addr)
	}
}
