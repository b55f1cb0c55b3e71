package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/destination"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

func newDestination() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "destination",
		Short: "Ask as one of Linkerd's proxies does",
		Args:  verbs,

		SuggestionsMinimumDistance: typos,

		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("name the question: %s get or profile; see %[1]s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(newDestinationGet(), newDestinationProfile())
	return cmd
}

func newDestinationGet() *cobra.Command {
	a := newAsking()
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Print the endpoints of a name, and every change of them",
		Long: `Print the endpoints that a running server tells Linkerd's proxies of NAME, such as
api.service.consul:80, and then every change, until it is ended. What was heard stays when the server is
gone, until the next one says something. With -o json each message is a line.

` + aboutAsking,
		Example: `  catenary destination get api.service.consul
  catenary destination get v2.api.service.dc1.consul:80 --once -o json
  catenary destination get api.service.consul --grpc-addr 10.0.0.5:18000 --grpc-ca-file ca.pem --grpc-cert-file me.pem --grpc-key-file me-key.pem`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seen := &destination.Seen{}
			return a.follow(cmd, func(ctx context.Context, client pb.DestinationClient) (receive, error) {
				st, err := client.Get(ctx, a.question(args[0]))
				if err != nil {
					return nil, err
				}
				seen.Subscribed()
				return func() (bool, error) { return a.update(cmd.OutOrStdout(), st, seen) }, nil
			})
		},
	}
	a.register(cmd)
	return cmd
}

func newDestinationProfile() *cobra.Command {
	a := newAsking()
	cmd := &cobra.Command{
		Use:   "profile NAME",
		Short: "Print how requests to a name or an address are treated",
		Long: `Print the profile that a running server tells Linkerd's proxies of NAME, which is a name such as
api.service.consul:80, or an address with its port, and then every other one, until it is ended. With -o json
each message is a line.

` + aboutAsking,
		Example: `  catenary destination profile api.service.consul
  catenary destination profile 240.0.0.1:80 --once -o json`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var last *pb.DestinationProfile // also of a stream before
			return a.follow(cmd, func(ctx context.Context, client pb.DestinationClient) (receive, error) {
				st, err := client.GetProfile(ctx, a.question(args[0]))
				if err != nil {
					return nil, err
				}
				return func() (said bool, err error) {
					last, said, err = a.profile(cmd.OutOrStdout(), st, last)
					return said, err
				}, nil
			})
		},
	}
	a.register(cmd)
	return cmd
}
