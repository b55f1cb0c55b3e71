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
			return fmt.Errorf("name the client: %s envoy; see %[1]s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(newBootstrapEnvoy())
	return cmd
}

func newBootstrapEnvoy() *cobra.Command {
	var config bootstrap.EnvoyConfig
	var upstreams []string
	var tokenFile string
	cmd := &cobra.Command{
		Use:   "envoy --service SERVICE [--upstream " + bootstrap.UpstreamForm + "]...",
		Short: "Print the bootstrap of an Envoy",
		Long: `Print the bootstrap of an Envoy that is the proxy of SERVICE, as JSON.

Without --upstream the proxy gets those of its registration in the source. A token, from --token-file,
CONSUL_HTTP_TOKEN_FILE or CONSUL_HTTP_TOKEN, becomes part of the bootstrap: keep that from others.`,
		Example: "  catenary bootstrap envoy --service web --upstream api:9191 > envoy.json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Service == "" {
				return fmt.Errorf("--service is required; see %s --help", cmd.CommandPath())
			}
			for _, text := range upstreams {
				u, err := bootstrap.ParseUpstream(text)
				if err != nil {
					return err
				}
				config.Upstreams = append(config.Upstreams, u)
			}
			token, err := readToken(tokenFile)
			if err != nil {
				return err
			}
			config.Token = token
			out, err := bootstrap.Envoy(config)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Service, "service", "", "the `service` the proxy speaks for (required)")
	flags.StringArrayVar(&upstreams, "upstream", nil,
		"what the proxy reaches and where it listens for it: `"+bootstrap.UpstreamForm+"`; may be repeated")
	flags.StringVar(&config.ProxyID, "proxy-id", "", "the proxy's `ID`, for a registered one that of its registration (default SERVICE-proxy)")
	flags.StringVar(&config.GRPCAddr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` of the control plane")
	flags.StringVar(&config.AdminBind, "admin-bind", bootstrap.DefaultAdminBind, "the `address` of Envoy's own admin API")
	flags.StringVar(&tokenFile, "token-file", "", "the `file` with the token to send")
	flags.StringVar(&config.GRPCCAFile, "grpc-ca-file", "", "the `file`, on the proxy's machine, with the certificates to verify the control plane by; without it the connection is not encrypted")
	flags.BoolVar(&config.SotW, "sotw", false, "speak the state of the world variant of the protocol instead of delta")
	return cmd
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
