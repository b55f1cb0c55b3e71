package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
)

func newBootstrapGRPC() *cobra.Command {
	b := &grpcBootstrap{}
	cmd := &cobra.Command{
		Use:   "grpc --service SERVICE [--cert-dir DIR]",
		Short: "Print the bootstrap of an application with gRPC",
		Long: `Print the bootstrap of an application with gRPC that is SERVICE, as JSON: GRPC_XDS_BOOTSTRAP names it, and
the application dials xds:///api, or serves by xDS.

With --cert-dir the application is part of the mesh: it proves itself by the certificate that catenary certs
keeps in DIR. A bootstrap cannot hold a token, so the control plane is shown a certificate too, or asks for
nothing (--grpc-auth).`,
		Example: `  catenary bootstrap grpc --service web > web.json
  catenary bootstrap grpc --service web --cert-dir /run/web/certs --grpc-ca-file ca.pem > web.json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.print(cmd) },
	}
	b.register(cmd)
	return cmd
}

// grpcBootstrap is what the flags of the bootstrap of an application say.
type grpcBootstrap struct{ config bootstrap.GRPCConfig }

func (b *grpcBootstrap) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.config.Service, "service", "", "the `service` that the application is (required)")
	flags.StringVar(&b.config.NodeID, "node-id", "", "the application's `ID` in catenary proxies (default SERVICE-grpc)")
	flags.StringVar(&b.config.GRPCAddr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` of the control plane")
	flags.StringVar(&b.config.CertDir, "cert-dir", "", "the `directory` of catenary certs --dir, as the application finds it; without it the application is not in the mesh")
	flags.StringVar(&b.config.CAFile, "grpc-ca-file", "", "the `file` with the certificates to verify the control plane by; without it the connection is not encrypted")
	flags.StringVar(&b.config.CertFile, "grpc-cert-file", "", "the `file` with the certificate to show to the control plane (default that of --cert-dir)")
	flags.StringVar(&b.config.KeyFile, "grpc-key-file", "", "the `file` with the key of --grpc-cert-file")
}

func (b *grpcBootstrap) print(cmd *cobra.Command) error {
	if b.config.Service == "" {
		return fmt.Errorf("--service is required; see %s --help", cmd.CommandPath())
	}
	// The application may be started elsewhere.
	for _, file := range []*string{&b.config.CertDir, &b.config.CAFile, &b.config.CertFile, &b.config.KeyFile} {
		if *file == "" {
			continue
		}
		var err error
		if *file, err = filepath.Abs(*file); err != nil {
			return err
		}
	}
	out, err := bootstrap.GRPC(b.config)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(out)
	return err
}
