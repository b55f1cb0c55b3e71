package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/render"
)

func newEndpoints() *cobra.Command {
	var addr string
	format := render.NewFormat(render.FormatTable, render.FormatJSON)
	cmd := &cobra.Command{
		Use:   "endpoints SERVICE",
		Short: "Show the instances of a service, and what clients are told of them",
		Long: `Show the instances of a service as a running server knows them, and what it tells clients of each.

The exit code is 1 when there is nothing to show, and 3 when the server does not answer.`,
		Args: exactly("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := admin.NewClient(addr).Endpoints(cmd.Context(), args[0])
			if err != nil {
				return refusedOrUnreachable(err)
			}
			if err := writeEndpoints(cmd.OutOrStdout(), format.String(), e); err != nil {
				return err
			}
			return judgeEndpoints(cmd.ErrOrStderr(), e)
		},
	}
	adminFlag(cmd, &addr)
	formatFlag(cmd, format)
	return cmd
}

func writeEndpoints(w io.Writer, format string, e admin.Endpoints) error {
	if format == render.FormatJSON {
		return render.JSON(w, e)
	}
	if len(e.Instances) == 0 {
		return nil
	}
	rows := make([][]string, 0, len(e.Instances))
	for _, in := range e.Instances {
		var checks, meta []string
		for _, c := range in.Checks {
			checks = append(checks, c.ID+"="+c.Status)
		}
		for _, k := range slices.Sorted(maps.Keys(in.Meta)) {
			meta = append(meta, k+"="+in.Meta[k])
		}
		rows = append(rows, []string{
			in.ID, in.Node, net.JoinHostPort(in.Address, strconv.Itoa(in.Port)), in.Health,
			strconv.FormatUint(uint64(in.Weight), 10), strings.Join(checks, ","), strings.Join(meta, ","),
		})
	}
	return render.Table(w, []string{"id", "node", "address", "health", "weight", "checks", "meta"}, rows)
}

// judgeEndpoints says what the list itself does not.
func judgeEndpoints(talk io.Writer, e admin.Endpoints) error {
	what := e.Service
	if e.Datacenter != "" {
		what += " in " + e.Datacenter
	}
	switch e.State {
	case facts.Unknown.String():
		return finding(fmt.Errorf("the instances of %s are not known: %s", what, e.Reason))
	case facts.Absent.String():
		return finding(fmt.Errorf("there is no instance of %s", what))
	case facts.Suspect.String():
		fmt.Fprintf(talk, "catenary: the source does not show these instances any more, but cannot be trusted in that: they are still served\n")
	}
	return nil
}
