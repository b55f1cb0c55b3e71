package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
)

func newBootstrapLinkerd() *cobra.Command {
	var cfg bootstrap.LinkerdConfig
	cmd := &cobra.Command{
		Use:   "linkerd",
		Short: "Print the environment of a Linkerd proxy",
		Long: `Print the environment of a Linkerd proxy that asks this control plane, a variable a line, for a file such
as --env-file of containers or EnvironmentFile of systemd.

A proxy of today does not start without a certificate: of SPIRE, by --spire-socket and --identity, or of an
identity service, by LINKERD2_PROXY_IDENTITY_LOCAL_NAME, _SVC_ADDR, _DIR and _TOKEN_FILE. It also wants the roots
that it trusts as LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS, which is PEM of several lines and cannot be in such a file.
What is to be added is said on stderr.`,
		Example: `  catenary bootstrap linkerd --node n1 > proxy.env
  catenary bootstrap linkerd --spire-socket /run/spire/api.sock --identity spiffe://example.org/ns/default/dc/dc1/svc/web > proxy.env
  catenary bootstrap linkerd --grpc-addr 10.0.0.5:18000 --grpc-name catenary.example > proxy.env`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := bootstrap.Linkerd(cfg)
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(out); err != nil {
				return err
			}
			const variable = "LINKERD2_PROXY_IDENTITY_"
			lacks := variable + "TRUST_ANCHORS"
			if cfg.SPIRESocket == "" {
				lacks = fmt.Sprintf("%s, and either --spire-socket and --identity or %sLOCAL_NAME, _SVC_ADDR, _DIR and _TOKEN_FILE", lacks, variable)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "catenary: before a proxy starts it also needs %s\n", lacks)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.GRPCAddr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` of the control plane")
	flags.StringVar(&cfg.ServerName, "grpc-name", "", "the `name` in the certificate of a control plane that is not on loopback")
	flags.StringVar(&cfg.Node, "node", "", "the `name` of the node that the proxy runs on, by which its zone is found")
	flags.StringVar(&cfg.Zone, "zone", "", "the `zone` that the proxy runs in, where it is to be said")
	flags.StringSliceVar(&cfg.Suffixes, "suffix", []string{"consul"}, "the `suffixes` of the names that the proxy asks for")
	flags.StringSliceVar(&cfg.Networks, "network", nil, "the `networks` of the addresses that the proxy asks for (default "+bootstrap.DefaultLinkerdNetworks+")")
	flags.StringVar(&cfg.SPIRESocket, "spire-socket", "", "the `socket` of the Workload API that the proxy gets its certificate from")
	flags.StringVar(&cfg.Identity, "identity", "", "the SPIFFE `ID` that the proxy has, with --spire-socket")
	flags.StringVar(&cfg.IdentityName, "identity-name", "", "the `name` by which other proxies call this one over TLS (default that of a service of Consul's mesh, where --identity is of one)")
	return cmd
}
