package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/render"
)

func newDump() *cobra.Command {
	var from sourceFlags
	format := render.NewFormat(render.FormatJSON, render.FormatYAML, render.FormatTable)
	cmd := &cobra.Command{
		Use:   "dump SERVICE",
		Short: "Print the compiled chain of a service",
		Long: `Print the discovery chain of SERVICE, compiled from the config entries of the source, in the shape of
Consul's /v1/discovery-chain. When the entries do not compile the reason goes to stderr, nothing to
stdout, and the exit code is 1.`,
		Example: "  catenary dump api --from examples/shop -o table",
		Args:    exactly("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := from.once(cmd, onlyEntries)
			if err != nil {
				return err
			}
			compiled, problems := chain.Compile(chain.Request{
				Service: args[0], Datacenter: r.datacenter, TrustDomain: r.trustDomain,
			}, r.Read())
			for _, p := range problems {
				fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %s\n", p)
			}
			if compiled == nil {
				return found()
			}
			return writeChain(cmd.OutOrStdout(), format.String(), compiled)
		},
	}
	from.register(cmd)
	formatFlag(cmd, format)
	return cmd
}

func writeChain(w io.Writer, format string, c *chain.Chain) error {
	answer := struct{ Chain *chain.Chain }{c}
	switch format {
	case render.FormatYAML:
		return render.YAML(w, answer)
	case render.FormatTable:
		return render.Table(w, []string{"node", "type", "when", "then"}, chainRows(c))
	}
	return render.JSON(w, answer)
}
