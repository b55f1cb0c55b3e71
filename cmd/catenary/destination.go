package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/destination"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/render"
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
gone, until the next one says something.`,
		Example: `  catenary destination get api.service.consul
  catenary destination get v2.api.service.dc1.consul:80 --once -o json`,
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
api.service.consul:80, or an address with its port, and then every other one, until it is ended.`,
		Example: `  catenary destination profile api.service.consul
  catenary destination profile 240.0.0.1:80 --once -o json`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.follow(cmd, func(ctx context.Context, client pb.DestinationClient) (receive, error) {
				st, err := client.GetProfile(ctx, a.question(args[0]))
				if err != nil {
					return nil, err
				}
				return func() (bool, error) {
					p, err := st.Recv()
					if err != nil {
						return false, err
					}
					return true, a.write(cmd.OutOrStdout(), p, func(w io.Writer) error { return writeProfile(w, p) })
				}, nil
			})
		},
	}
	a.register(cmd)
	return cmd
}

// asking is how a question is asked.
type asking struct {
	addr, token string
	once        bool
	format      *render.Format
}

func newAsking() *asking { return &asking{format: render.NewFormat(formatText, render.FormatJSON)} }

// formatText is lines for people.
const formatText = "text"

func (a *asking) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&a.addr, "grpc-addr", bootstrap.DefaultGRPCAddr, "the `address` of the server")
	flags.StringVar(&a.token, "context", "", "the context `token` to send, such as {\"nodeName\":\"n1\"}")
	flags.BoolVar(&a.once, "once", false, "end after the first answer")
	formatFlag(cmd, a.format)
}

func (a *asking) question(path string) *pb.GetDestination {
	return &pb.GetDestination{Path: path, ContextToken: a.token}
}

// receive takes one message, and reports whether it said something.
type receive func() (said bool, err error)

// The times between the streams of a client.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
)

// follow asks, and asks again whenever a stream ends, until the question turns out to be wrong.
func (a *asking) follow(cmd *cobra.Command, subscribe func(context.Context, pb.DestinationClient) (receive, error)) error {
	conn, err := grpc.NewClient(a.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("--grpc-addr %s: %w", a.addr, err)
	}
	defer conn.Close()
	pause := firstPause
	for {
		heard, err := a.stream(cmd.Context(), pb.NewDestinationClient(conn), subscribe)
		switch {
		case err == nil:
			return nil
		case cmd.Context().Err() != nil:
			return nil
		case final(err):
			return finding(fmt.Errorf("%s: %s", a.addr, status.Convert(err).Message()))
		case a.once:
			return unreachable(fmt.Errorf("%s: %s", a.addr, status.Convert(err).Message()))
		}
		if heard {
			pause = firstPause
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: the stream ended: %s; asking again in %s\n", status.Convert(err).Message(), pause)
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// final reports whether asking again would be answered alike.
func final(err error) bool {
	return slices.Contains([]codes.Code{
		codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented,
	}, status.Code(err))
}

// stream follows one stream; heard is whether it said something.
func (a *asking) stream(ctx context.Context, client pb.DestinationClient, subscribe func(context.Context, pb.DestinationClient) (receive, error)) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	recv, err := subscribe(ctx, client)
	if err != nil {
		return false, err
	}
	for {
		said, err := recv()
		if err != nil {
			return heard, err
		}
		heard = true
		if said && a.once {
			return true, nil
		}
	}
}

// update takes in one message of endpoints. One that changes nothing of what is known is not printed as text.
func (a *asking) update(w io.Writer, st grpc.ServerStreamingClient[pb.Update], seen *destination.Seen) (bool, error) {
	u, err := st.Recv()
	if err != nil {
		return false, err
	}
	known, exists := seen.Known, seen.Exists
	changes := seen.Apply(u)
	said := len(changes) > 0 || !known || exists != seen.Exists
	if !said && a.format.String() == formatText {
		return false, nil
	}
	return said, a.write(w, u, func(w io.Writer) error { return writeChanges(w, changes, seen) })
}

func (a *asking) write(w io.Writer, m proto.Message, asText func(io.Writer) error) error {
	if a.format.String() == formatText {
		return asText(w)
	}
	value, err := plainJSON(m)
	if err != nil {
		return err
	}
	return render.JSON(w, value)
}

// plainJSON is a message as a value for writers, which set it alike wherever it is printed.
func plainJSON(m proto.Message) (any, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(raw), nil
}
