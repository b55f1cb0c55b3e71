package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/snapshot"
)

func newExplain() *cobra.Command {
	e := &explaining{format: render.NewFormat(render.FormatText, render.FormatJSON)}
	var mesh bool
	cmd := &cobra.Command{
		Use:   "explain SERVICE",
		Short: "Say what becomes of a request to a service, and why",
		Long: `Say what becomes of a request to SERVICE: the route it takes and why earlier ones do not take it, the
targets it may go to and with which share, the endpoints behind each with what decided their health,
what failover would do without a target, and which config entries, by file and line, made all that.
Without --method, --path, --header and --query it says so for every route.

The answer is that of the source: Consul, or --from; or of the running server that --admin-addr names,
which also minds what it last had of entries that do not compile any more.

The exit code is 1 when the entries do not compile, and when some of the requests find no healthy
endpoint.`,
		Example: `  catenary explain api --from examples/shop
  catenary explain api --method GET --path /cart --header x-canary=1 --admin-addr 127.0.0.1:18001
  catenary explain api --without v2.api`,
		Args: exactly("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.words.Service, e.words.Datacenter = args[0], e.from.datacenter
			if mesh {
				e.words.Kind = string(snapshot.Mesh)
			}
			return e.run(cmd)
		},
	}
	e.from.register(cmd)
	formatFlag(cmd, e.format)
	flags := cmd.Flags()
	flags.Lookup("datacenter").Usage = "the `datacenter` to compile for: that of every entry which names none (default that of the Consul agent or the server; " + chain.DefaultDatacenter + " with files)"
	flags.Var(newAdminAddr(&e.adminAddr, ""), "admin-addr", "ask the running server whose HTTP side has this `address`")
	flags.StringVar(&e.words.Method, "method", "", "the `method` of the request (default GET)")
	flags.StringVar(&e.words.Path, "path", "", "the `path` of the request, with its query if you like (default /)")
	flags.StringArrayVar(&e.words.Headers, "header", nil, "a header of the request, `name=value`; may be repeated")
	flags.StringArrayVar(&e.words.Query, "query", nil, "a query parameter of the request, `name=value`; may be repeated")
	flags.StringArrayVar(&e.words.Without, "without", nil, "as if this `target` had no healthy endpoint: its ID, or the beginning of it; may be repeated")
	flags.BoolVar(&mesh, "mesh", false, "as a sidecar of the mesh reaches it, and not a plain client")
	for _, other := range []string{"from", "consul-addr", "trust-domain", "default-intention-policy"} {
		cmd.MarkFlagsMutuallyExclusive("admin-addr", other)
	}
	return cmd
}

// explaining is what is asked, of whom, and how it is printed.
type explaining struct {
	from      sourceFlags
	adminAddr string
	words     journey.Words
	format    *render.Format
}

func (e *explaining) run(cmd *cobra.Command) error {
	q, err := e.words.Question()
	if err != nil {
		return err
	}
	var j journey.Journey
	if e.adminAddr != "" {
		j, err = e.ask(cmd.Context())
	} else {
		j, err = e.find(cmd, q)
	}
	if err != nil {
		return err
	}
	if e.format.String() == render.FormatJSON {
		err = render.JSON(cmd.OutOrStdout(), j)
	} else {
		err = writeJourney(cmd.OutOrStdout(), &j)
	}
	if err != nil {
		return err
	}
	return judgeJourney(cmd.ErrOrStderr(), &j)
}

// ask has a running server answer.
func (e *explaining) ask(ctx context.Context) (journey.Journey, error) {
	j, err := admin.NewClient(e.adminAddr).Journey(ctx, e.words)
	refused, ok := errors.AsType[*admin.RefusedError](err)
	switch {
	case err == nil:
		return j, nil
	case ok && refused.Status == http.StatusBadRequest:
		return j, err
	}
	return j, unreachable(err)
}

// find answers from a source that is read once.
func (e *explaining) find(cmd *cobra.Command, q journey.Question) (journey.Journey, error) {
	// The entries are those of the source's own datacenter, whichever they are compiled for.
	from := e.from
	if from.from == "" {
		from.datacenter = ""
	}
	var last journey.Journey
	answer := func(r reading) ([]facts.Topic, error) {
		j, needs, err := journey.Make(snapshot.Config{Datacenter: r.datacenter, TrustDomain: r.trustDomain, Dry: true}, r.View, q, nil)
		last = j
		return needs, err
	}
	r, err := from.once(cmd, func(r reading) (needs []facts.Topic, missing string) {
		needs, _ = answer(r) // a wrong target is told of below
		for _, t := range needs {
			if !r.Known(t) {
				missing = r.Why(facts.ID{Topic: t})
			}
		}
		return needs, missing
	})
	if err != nil {
		return last, err
	}
	if _, err = answer(r); err != nil {
		return last, fmt.Errorf("--without: %w", err)
	}
	return last, nil
}

// judgeJourney says on talk what is not well, and returns whether anything is.
func judgeJourney(talk io.Writer, j *journey.Journey) error {
	bad := j.Refused != "" || j.Pending != ""
	for _, p := range j.Problems {
		fmt.Fprintf(talk, "catenary: %s\n", p)
		bad = bad || p.IsError()
	}
	if j.LastGood {
		fmt.Fprintln(talk, "catenary: the entries do not compile: this is about what they were before, which is still served")
	}
	if j.Pending != "" {
		fmt.Fprintf(talk, "catenary: %s is not served yet: %s\n", j.Service, j.Pending)
	}
	for _, text := range append(slices.Clone(j.Missing), j.Notes...) {
		fmt.Fprintf(talk, "catenary: %s\n", text)
	}
	for _, r := range j.Routes {
		bad = bad || slices.ContainsFunc(r.Traffic, func(s journey.Share) bool { return s.Fails != "" })
	}
	if bad {
		return found()
	}
	return nil
}

// journey answers from what the server knows.
func (p *plane) journey(asker *admin.Asker) func(context.Context, journey.Question) (journey.Journey, error) {
	return func(ctx context.Context, q journey.Question) (journey.Journey, error) {
		x := p.xds.Load()
		if x == nil {
			return journey.Journey{}, fmt.Errorf("nothing is known yet: %s", p.silent())
		}
		var last *chain.Chain
		if c := x.Chain(q.Service, q.Datacenter); c.LastGood {
			last = c.Chain
		}
		return asker.Journey(ctx, snapshot.Config{Datacenter: x.datacenter, TrustDomain: x.trustDomain}, q, last)
	}
}
