package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/snapshot"
)

func newDump() *cobra.Command {
	d := &dumping{format: render.NewFormat(render.FormatJSON, render.FormatYAML, render.FormatTable,
		render.FormatTree, render.FormatDot, render.FormatMermaid, formatLinkerd)}
	cmd := &cobra.Command{
		Use:   "dump SERVICE",
		Short: "Print the compiled chain of a service",
		Long: `Print the discovery chain of SERVICE, compiled from the config entries of the source, in the shape of
Consul's /v1/discovery-chain. When the entries do not compile the reason goes to stderr, nothing to
stdout, and the exit code is 1.

The forms tree, dot and mermaid are for people: they keep the redirects, which the compiled chain no
longer shows, and say which entry made each part. The tree says too which defaults applied. The form
linkerd is what Linkerd's proxies are told, and what of the chain cannot be told to them.`,
		Example: `  catenary dump api --from examples/shop -o tree
  catenary dump api --admin-addr 127.0.0.1:18001 --override-protocol tcp`,
		Args: exactly("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.format.String() == formatLinkerd {
				return d.linkerd(cmd, args[0])
			}
			return d.run(cmd, args[0])
		},
	}
	d.from.register(cmd)
	formatFlag(cmd, d.format)
	flags := cmd.Flags()
	flags.Lookup("datacenter").Usage = "the `datacenter` to compile for: that of every entry which names none (default that of the Consul agent or the server; " + chain.DefaultDatacenter + " with files)"
	flags.Var(newAdminAddr(&d.adminAddr, ""), "admin-addr", "ask the running server whose HTTP side has this `address`")
	flags.StringVar(&d.overrides.Protocol, "override-protocol", "", "compile as for a downstream that speaks this `protocol`")
	flags.DurationVar(&d.overrides.ConnectTimeout, "override-connect-timeout", 0, "compile as for a downstream with this `timeout`, such as 7s")
	flags.StringVar(&d.gateway, "override-mesh-gateway", "", "compile as for a downstream with this `mode` of mesh gateways: none, local or remote")
	for _, other := range []string{"from", "consul-addr", "trust-domain"} {
		cmd.MarkFlagsMutuallyExclusive("admin-addr", other)
	}
	return cmd
}

// dumping is which chain is printed, and how.
type dumping struct {
	from      sourceFlags
	adminAddr string
	gateway   string
	overrides chain.Overrides
	format    *render.Format
}

func (d *dumping) run(cmd *cobra.Command, service string) error {
	key, err := d.key(service)
	if err != nil {
		return err
	}
	var v chainView
	if d.adminAddr != "" {
		v, err = d.ask(cmd, key)
	} else {
		v, err = d.compile(cmd, key)
	}
	if err != nil {
		return err
	}
	return v.write(cmd.OutOrStdout(), d.format.String())
}

// key is the chain that the flags name.
func (d *dumping) key(service string) (snapshot.ChainKey, error) {
	key := snapshot.ChainKey{Service: service, Datacenter: strings.ToLower(d.from.datacenter), Overrides: d.overrides}
	key.Overrides.MeshGateway = chain.MeshGatewayMode(d.gateway)
	switch key.Overrides.MeshGateway {
	case chain.MeshGatewayDefault, chain.MeshGatewayNone, chain.MeshGatewayLocal, chain.MeshGatewayRemote:
	default:
		return key, fmt.Errorf("--override-mesh-gateway %s: must be one of: none, local, remote", d.gateway)
	}
	switch {
	case service == "":
		return key, errors.New("SERVICE is empty: name a service")
	case d.overrides.ConnectTimeout < 0:
		return key, fmt.Errorf("--override-connect-timeout %s: must not be negative", d.overrides.ConnectTimeout)
	}
	return key, nil
}

// compile makes the chain from the entries of a source.
func (d *dumping) compile(cmd *cobra.Command, key snapshot.ChainKey) (chainView, error) {
	// The entries are those of the source's own datacenter, whichever they are compiled for.
	from := d.from
	if from.from == "" {
		from.datacenter = ""
	}
	r, err := from.once(cmd, onlyEntries)
	if err != nil {
		return chainView{}, err
	}
	req := chain.Request{
		Service: key.Service, Datacenter: key.Datacenter, TrustDomain: r.trustDomain, Overrides: key.Overrides,
	}
	if req.Datacenter == "" {
		req.Datacenter = r.datacenter
	}
	entries := r.Read()
	compiled, problems := chain.Compile(req, entries)
	for _, p := range problems {
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %s\n", p)
	}
	if compiled == nil {
		return chainView{}, found()
	}
	return chainView{compiled, explain.Explain(req, compiled, entries)}, nil
}

// ask has a running server compile the chain.
func (d *dumping) ask(cmd *cobra.Command, key snapshot.ChainKey) (chainView, error) {
	client := admin.NewClient(d.adminAddr)
	var v chainView
	var err error
	switch d.format.String() {
	case render.FormatTree, render.FormatDot, render.FormatMermaid:
		v.explanation, err = client.Explanation(cmd.Context(), key)
	default:
		v.chain, err = client.DiscoveryChain(cmd.Context(), key)
	}
	refused, ok := errors.AsType[*admin.RefusedError](err)
	switch {
	case err == nil:
		return v, nil
	case ok && refused.Status != http.StatusServiceUnavailable:
		return v, finding(err)
	}
	return v, unreachable(err)
}

// chainView is a chain to print, and how it came about.
type chainView struct {
	chain       *chain.Chain
	explanation *explain.Explanation
}

func (v chainView) write(w io.Writer, format string) error {
	answer := struct{ Chain *chain.Chain }{v.chain}
	switch format {
	case render.FormatYAML:
		return render.YAML(w, answer)
	case render.FormatTable:
		return render.Table(w, []string{"node", "type", "when", "then"}, chainRows(v.chain))
	case render.FormatTree:
		return render.Tree(w, chainTree(v.explanation))
	case render.FormatDot:
		return render.Dot(w, chainGraph(v.explanation))
	case render.FormatMermaid:
		return render.Mermaid(w, chainGraph(v.explanation))
	}
	return render.JSON(w, answer)
}
