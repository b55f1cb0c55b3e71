package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
)

func newBootstrap() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print what a client is started with",
		Args:  verbs,

		SuggestionsMinimumDistance: typos,

		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("name the client: %s envoy, grpc or linkerd; see %[1]s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(newBootstrapEnvoy(), newBootstrapGRPC(), newBootstrapLinkerd())
	return cmd
}

func newBootstrapEnvoy() *cobra.Command {
	b := &envoyBootstrap{}
	cmd := &cobra.Command{
		Use:   "envoy --service SERVICE [--upstream " + bootstrap.UpstreamForm + "]... | --sidecar-for ID",
		Short: "Print the bootstrap of an Envoy",
		Long: `Print the bootstrap of an Envoy that is the proxy of SERVICE, as JSON.

With --sidecar-for it is a sidecar that is registered in the source, and gets what its registration says; else
it reaches the upstreams that are named here. A token, from --token-file, CONSUL_HTTP_TOKEN_FILE or
CONSUL_HTTP_TOKEN, becomes part of the bootstrap: keep that from others.`,
		Example: `  catenary bootstrap envoy --service web --upstream api:9191 > envoy.json
  catenary bootstrap envoy --sidecar-for web-1 > envoy.json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.print(cmd) },
	}
	b.register(cmd)
	return cmd
}

// envoyBootstrap is what the flags of the bootstrap of an Envoy say.
type envoyBootstrap struct {
	config            bootstrap.EnvoyConfig
	upstreams         []string
	tokenFile, caFile string
	locality          string
	sidecar           sidecarOf
	from              sourceFlags
}

func (b *envoyBootstrap) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.config.Service, "service", "", "the `service` the proxy speaks for (required without --sidecar-for)")
	flags.StringArrayVar(&b.upstreams, "upstream", nil,
		"what the proxy reaches and where it listens for it: `"+bootstrap.UpstreamForm+"`; may be repeated")
	flags.StringVar(&b.config.ProxyID, "proxy-id", "", "the proxy's `ID`, for a registered one that of its registration (default SERVICE-proxy)")
	flags.StringVar(&b.config.GRPCAddr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` of the control plane")
	flags.StringVar(&b.config.AdminBind, "admin-bind", bootstrap.DefaultAdminBind, "the `address` of Envoy's own admin API")
	flags.StringVar(&b.tokenFile, "token-file", "", "the `file` with the token to send")
	flags.StringVar(&b.caFile, "grpc-ca-file", "", "the `file` with the certificates to verify the control plane by, which become part of the bootstrap; without it the connection is not encrypted")
	flags.BoolVar(&b.config.LoadReports, "load-reports", false, "report to the control plane what becomes of requests, for its metrics")
	flags.BoolVar(&b.config.HDS, "hds", false, "probe endpoints for the control plane, as a checker of its health discovery")
	flags.StringVar(&b.locality, "locality", "", "where the proxy runs, as `REGION/ZONE` (default not said)")
	flags.BoolVar(&b.config.SotW, "sotw", false, "speak the state of the world variant of the protocol instead of delta")
	b.sidecar.register(cmd)
	b.from.register(cmd)
	for _, of := range []string{"trust-domain", "default-intention-policy"} {
		flags.Lookup(of).Hidden = true // nothing of them is in a bootstrap
	}
	cmd.MarkFlagsMutuallyExclusive("sidecar-for", "upstream")
}

func (b *envoyBootstrap) print(cmd *cobra.Command) error {
	if b.config.Service == "" && b.sidecar.id == "" {
		return fmt.Errorf("--service or --sidecar-for is required; see %s --help", cmd.CommandPath())
	}
	for _, text := range b.upstreams {
		u, err := bootstrap.ParseUpstream(text)
		if err != nil {
			return err
		}
		b.config.Upstreams = append(b.config.Upstreams, u)
	}
	b.config.Region, b.config.Zone, _ = strings.Cut(b.locality, "/")
	token, err := readToken(b.tokenFile)
	if err != nil {
		return err
	}
	b.config.Token = token
	if b.caFile != "" {
		pem, err := os.ReadFile(b.caFile)
		if err != nil {
			return fmt.Errorf("the certificates cannot be read: %w", err)
		}
		b.config.GRPCCA = string(pem)
	}
	if b.sidecar.id != "" {
		if b.tokenFile != "" { // whom the proxy is known as may read its registration
			if err := os.Setenv("CONSUL_HTTP_TOKEN_FILE", b.tokenFile); err != nil {
				return err
			}
		}
		if err := b.sidecar.apply(cmd, &b.from, &b.config); err != nil {
			return err
		}
	}
	out, err := bootstrap.Envoy(b.config)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(out)
	return err
}

// readToken returns the token of the file, or without one what the environment names. As with Consul's
// own client, a file wins over the variable that holds the token itself.
func readToken(file string) (bootstrap.Token, error) {
	file = cmp.Or(file, os.Getenv("CONSUL_HTTP_TOKEN_FILE"))
	if file == "" {
		return bootstrap.Token(os.Getenv("CONSUL_HTTP_TOKEN")), nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty", file)
	}
	return bootstrap.Token(token), nil
}
