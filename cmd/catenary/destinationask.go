package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/destination"
	"github.com/catenary-mesh/catenary/internal/identity"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/render"
)

// aboutAsking is what the verbs that ask have in common.
const aboutAsking = `A server that asks who its clients are (--grpc-auth) wants a certificate, by --grpc-cert-file and
--grpc-key-file, or a token of Consul, by --token-file, CONSUL_HTTP_TOKEN_FILE or CONSUL_HTTP_TOKEN.

The exit code is 0 when it is ended, 1 when the server finds that the question has no answer, 2 when it takes
NAME for no name, and 3 when it refuses the client, and with --once when it does not answer.`

// asking is how a question is asked.
type asking struct {
	dial             grpcDialFlags
	token, tokenFile string
	once             bool
	patience         time.Duration // for the first answer, with once
	format           *render.Format
}

func newAsking() *asking {
	return &asking{patience: onceTimeout, format: render.NewFormat(formatText, render.FormatJSON)}
}

// formatText is lines for people.
const formatText = "text"

func (a *asking) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	a.dial.register(flags)
	flags.StringVar(&a.token, "context", "", "the context `token` to send, which says where a proxy runs, such as {\"nodeName\":\"n1\"}")
	flags.StringVar(&a.tokenFile, "token-file", "", "the `file` with a token of Consul to show to the server (default $CONSUL_HTTP_TOKEN_FILE, else $CONSUL_HTTP_TOKEN)")
	flags.BoolVar(&a.once, "once", false, "end after the first answer")
	formatFlag(cmd, a.format)
}

func (a *asking) question(path string) *pb.GetDestination {
	return &pb.GetDestination{Path: path, ContextToken: a.token}
}

// receive takes one message, and reports whether it said something.
type receive func() (said bool, err error)

// subscribe opens a stream.
type subscribe func(context.Context, pb.DestinationClient) (receive, error)

// The times of a client.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
	// longSilence is after how long it is said that the server says nothing.
	longSilence = 5 * time.Second
)

var errSilent = errors.New("nothing was said in time: a server says nothing while it does not know; " +
	"on its machine catenary proxies says for what it waits")

// follow asks, and asks again whenever a stream ends, until the question turns out to be wrong.
func (a *asking) follow(cmd *cobra.Command, ask subscribe) error {
	token, err := readToken(a.tokenFile)
	if err != nil {
		return err
	}
	conn, err := a.dial.open()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx := cmd.Context()
	if token != "" {
		if !a.dial.private() {
			return fmt.Errorf("a token of Consul is not sent unencrypted to %s: give --grpc-ca-file, or ask without a token "+
				"(no --token-file, and CONSUL_HTTP_TOKEN and CONSUL_HTTP_TOKEN_FILE empty)", a.dial.addr)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, identity.MetadataToken, string(token))
	}
	if a.once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.patience, errSilent)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		heard, err := a.stream(ctx, cmd, pb.NewDestinationClient(conn), ask)
		if err == nil || cmd.Context().Err() != nil {
			return nil
		}
		if done := a.over(ctx, err); done != nil {
			return done
		}
		if heard {
			pause = firstPause
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: the stream ended: %s; asking again in %s\n", advise(err), pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// over is the result of the verb where asking again would be answered alike, or is not wanted; nil else.
func (a *asking) over(ctx context.Context, err error) error {
	// The server counts down too, and may be the first to give up.
	if errors.Is(context.Cause(ctx), errSilent) || a.once && status.Code(err) == codes.DeadlineExceeded {
		err = errSilent
	}
	if _, ok := status.FromError(err); !ok && !errors.Is(err, io.EOF) && !errors.Is(err, errSilent) {
		return err // of what is written
	}
	said := fmt.Errorf("%s: %s", a.dial.addr, advise(err))
	switch status.Code(err) {
	case codes.InvalidArgument:
		return said
	case codes.FailedPrecondition:
		return finding(said)
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return unreachable(said)
	default:
		if a.once {
			return unreachable(said)
		}
		return nil // the server may come back
	}
}

// stream follows one stream; heard is whether it said something.
func (a *asking) stream(ctx context.Context, cmd *cobra.Command, client pb.DestinationClient, ask subscribe) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(longSilence, func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %s says nothing yet\n", a.dial.addr)
	})
	defer silence.Stop()
	recv, err := ask(ctx, client)
	for err == nil {
		var said bool
		if said, err = recv(); err != nil {
			break
		}
		silence.Stop()
		heard = true
		if said && a.once {
			return true, nil
		}
	}
	return heard, err
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

// profile takes in one profile, and returns it. One that is as the last is not printed as text.
func (a *asking) profile(w io.Writer, st grpc.ServerStreamingClient[pb.DestinationProfile], last *pb.DestinationProfile) (*pb.DestinationProfile, bool, error) {
	p, err := st.Recv()
	if err != nil {
		return last, false, err
	}
	said := last == nil || !proto.Equal(p, last)
	if !said && a.format.String() == formatText {
		return p, false, nil
	}
	return p, said, a.write(w, p, func(w io.Writer) error { return writeProfile(w, p) })
}

// write writes a message: as JSON a line, so that a stream can be read line by line.
func (a *asking) write(w io.Writer, m proto.Message, asText func(io.Writer) error) error {
	if a.format.String() == formatText {
		return asText(w)
	}
	value, err := plainJSON(m)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// plainJSON is a message as a value for writers, which set it alike wherever it is printed.
func plainJSON(m proto.Message) (any, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(raw), nil
}
