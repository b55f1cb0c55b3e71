package main

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/xds"
)

// defaultAdminAddr is where a server's HTTP side is, unless told otherwise.
const defaultAdminAddr = "127.0.0.1:18001"

func newProxies() *cobra.Command {
	var addr, envoyAdmin string
	var diff bool
	format := render.NewFormat(render.FormatTable, render.FormatJSON)
	cmd := &cobra.Command{
		Use:   "proxies [ID]",
		Short: "Show who is connected, and what each has accepted",
		Long: `Show who is connected to a running server. A resource type's version is shown as SENT where the
proxy has accepted it, as SENT/ACCEPTED where that differs, and as held where the proxy had it before it
connected and nothing needed to be sent. A Linkerd proxy, whose protocol has no versions, shows how many
endpoints it was told of. With ID, each type has a row.

With --diff, what the proxy ID was sent is held against what the Envoy at --envoy-admin says that it runs,
resource by resource. Only differences are printed.

The exit code is 1 when a proxy refuses what it is sent or with --diff runs something else, and 3 when the
server or that Envoy does not answer.`,
		Example: "  catenary proxies web-proxy --diff --envoy-admin " + bootstrap.DefaultAdminBind,
		Args:    atMost("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := strings.Join(args, "")
			if diff {
				return (&drifting{id: id, admin: admin.NewClient(addr), envoy: envoyAdmin, format: format.String()}).run(cmd)
			}
			list, err := admin.NewClient(addr).Proxies(cmd.Context(), id)
			if err != nil {
				return refusedOrUnreachable(err)
			}
			if err := writeProxies(cmd.OutOrStdout(), format.String(), id, list); err != nil {
				return err
			}
			if slices.ContainsFunc(list, func(p admin.Proxy) bool { return p.State == xds.StateNacked }) {
				return found()
			}
			return nil
		},
	}
	adminFlag(cmd, &addr)
	formatFlag(cmd, format)
	cmd.Flags().BoolVar(&diff, "diff", false, "hold what the proxy was sent against what its Envoy runs")
	cmd.Flags().Var(newAdminAddr(&envoyAdmin, bootstrap.DefaultAdminBind), "envoy-admin", "the `address` of the Envoy's own admin API, for --diff")
	return cmd
}

func adminFlag(cmd *cobra.Command, addr *string) {
	cmd.Flags().Var(newAdminAddr(addr, defaultAdminAddr), "admin-addr", "the `address` of the server's HTTP side")
}

func formatFlag(cmd *cobra.Command, format *render.Format) {
	cmd.Flags().VarP(format, "output", "o", "the form of the output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(format.Allowed(), cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
}

// refusedOrUnreachable tells an answer that says no from no answer.
func refusedOrUnreachable(err error) error {
	if _, ok := errors.AsType[*admin.RefusedError](err); ok {
		return finding(err)
	}
	return unreachable(err)
}

func writeProxies(w io.Writer, format, id string, list []admin.Proxy) error {
	switch {
	case format == render.FormatJSON:
		return render.JSON(w, list)
	case id == "":
		return proxyTable(w, list, time.Now())
	}
	for _, p := range list {
		if err := typeTable(w, p, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// resourceTypes are those that every proxy is sent, in the order of the columns.
func resourceTypes() []string { return []string{"cluster", "endpoint", "listener", "route"} }

func proxyTable(w io.Writer, list []admin.Proxy, now time.Time) error {
	header := []string{"id", "service", "state", "protocol", "address", "version", "age"}
	header = append(header, resourceTypes()...)
	header = append(header, "reason")
	rows := make([][]string, 0, len(list))
	for _, p := range list {
		row := []string{p.ID, p.Service, p.State, p.Protocol, p.Address, p.Version, age(now, p.ConnectedAt)}
		for _, name := range resourceTypes() {
			row = append(row, versions(p, name))
		}
		rows = append(rows, append(row, p.Reason))
	}
	return render.Table(w, header, rows)
}

func versions(p admin.Proxy, name string) string {
	for i := range p.Types {
		t := &p.Types[i]
		switch {
		case t.Type != name:
		case t.Sent == t.Acked:
			return short(sent(t))
		default:
			return short(t.Sent) + "/" + short(t.Acked)
		}
	}
	return "-"
}

// held stands for the version of what was not sent on this connection, because the client brought it
// from the one before and nothing of it has changed.
const held = "held"

// sent is the version that a type was sent, or that it needed none. What Linkerd's proxies are sent has no
// versions: of that it is how many there are.
func sent(t *xds.TypeStatus) string {
	switch {
	case t.Sent == "" && t.Responses > 0:
		return strconv.Itoa(t.Resources)
	case t.Sent == "" && t.Resources > 0:
		return held
	}
	return t.Sent
}

// short is the beginning of a version, which tells it from others well enough for a table.
func short(version string) string {
	const enough = 8
	if version == "" {
		return "-"
	}
	return version[:min(len(version), enough)]
}

func typeTable(w io.Writer, p admin.Proxy, now time.Time) error {
	about := [][]string{
		{"id", p.ID},
		{"service", p.Service},
		{"kind", p.Kind},
		{"address", p.Address},
		{"protocol", p.Protocol},
		{"version", p.Version},
		{"connected", age(now, p.ConnectedAt)},
		{"state", p.State},
	}
	if p.Reason != "" {
		about = append(about, []string{"reason", p.Reason})
	}
	for _, pending := range p.Pending {
		about = append(about, []string{"pending", pending.Upstream + ": " + pending.Reason})
	}
	for _, note := range p.Notes {
		about = append(about, []string{"note", note})
	}
	for _, problem := range p.Problems {
		about = append(about, []string{"problem", problem})
	}
	if err := render.Table(w, []string{"property", "value"}, about); err != nil {
		return err
	}
	rows := make([][]string, 0, len(p.Types))
	for _, t := range p.Types {
		nack := ""
		if t.Nack != nil {
			nack = t.Nack.Message
		}
		since := ""
		if t.SentAt != nil {
			since = age(now, *t.SentAt)
		}
		rows = append(rows, []string{
			t.Type, t.State, strconv.Itoa(t.Resources), sent(&t), t.Acked, since, strconv.Itoa(t.Nacks), nack,
		})
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return render.Table(w, []string{"type", "state", "resources", "sent", "acked", "age", "nacks", "nack"}, rows)
}

// ageOf is an age of the API to the grain; negative ones are not known.
func ageOf(seconds float64, grain time.Duration) string {
	if seconds < 0 {
		return "-"
	}
	return time.Duration(seconds * float64(time.Second)).Truncate(grain).String()
}

func age(now, since time.Time) string {
	d := now.Sub(since)
	if d < time.Minute {
		return d.Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}
