package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/render"
)

func newHealth() *cobra.Command {
	var addr, tokenFile string
	var release bool
	format := render.NewFormat(render.FormatTable, render.FormatJSON)
	cmd := &cobra.Command{
		Use:   "health [SERVICE]",
		Short: "Show what the checkers of the fleet find out about endpoints",
		Long: `Show what health discovery knows of a service, or of all that is probed: of each endpoint what Consul says,
the votes of its checkers, and the verdict with why it is so.

With --release the verdicts of SERVICE, which are frozen because too many went down at once, follow the votes
again. That needs the operator's token (--token-file) unless the server is on this machine.

The exit code is 1 when an endpoint is down, cannot be probed, or a service is frozen, and 3 when the server
does not answer.`,
		Example: "  catenary health api\n  catenary health --release api",
		Args:    atMost("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, service := admin.NewClient(addr), ""
			if len(args) > 0 {
				service = args[0]
			}
			if release {
				return releaseService(cmd, client, service, tokenFile)
			}
			list, err := client.Health(cmd.Context(), service)
			if err != nil {
				return refusedOrUnreachable(err)
			}
			if err := writeHealth(cmd.OutOrStdout(), format.String(), list); err != nil {
				return err
			}
			return judgeHealth(cmd.ErrOrStderr(), format.String(), service, list)
		},
	}
	cmd.Flags().BoolVar(&release, "release", false, "end the freeze of the service")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "the `file` with the operator's token, for --release")
	adminFlag(cmd, &addr)
	formatFlag(cmd, format)
	return cmd
}

func releaseService(cmd *cobra.Command, client *admin.Client, service, tokenFile string) error {
	if service == "" {
		return fmt.Errorf("--release is about one service: name it; see %s --help", cmd.CommandPath())
	}
	token := ""
	if tokenFile != "" {
		read, err := readToken(tokenFile)
		if err != nil {
			return err
		}
		token = string(read)
	}
	if err := client.Release(cmd.Context(), service, token); err != nil {
		return refusedOrUnreachable(err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "the verdicts of %s follow the votes again\n", service)
	return err
}

func writeHealth(w io.Writer, format string, list []admin.ServiceHealth) error {
	if format == render.FormatJSON {
		return render.JSON(w, list)
	}
	var rows [][]string
	for i := range list {
		s := &list[i]
		for j := range s.Endpoints {
			e := &s.Endpoints[j]
			verdict := e.Verdict
			if s.Frozen != "" {
				verdict += " (frozen)"
			}
			rows = append(rows, []string{s.Service, e.Address, e.Probe, e.Consul, verdict, e.Policy, votesText(e.Votes), e.Why})
		}
		for _, r := range s.Refused {
			rows = append(rows, []string{s.Service, r.Address, "none", "", "", "", "", r.Reason})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return render.Table(w, []string{"service", "endpoint", "probe", "consul", "verdict", "policy", "votes", "why"}, rows)
}

// votesText is who says what, for how long, and why where it is not that all is well.
func votesText(votes []admin.Vote) string {
	texts := make([]string, 0, len(votes))
	for _, v := range votes {
		text := v.Checker + "=" + v.Vote
		if v.AgeSeconds >= 0 {
			text += " " + ageOf(v.AgeSeconds, time.Second)
		}
		if v.Reason != "" {
			text += " (" + v.Reason + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// judgeHealth says what the table does not, and whether all is well.
func judgeHealth(talk io.Writer, format, service string, list []admin.ServiceHealth) error {
	bad := false
	for i := range list {
		s := &list[i]
		bad = bad || s.Frozen != "" || len(s.Refused) > 0 ||
			slices.ContainsFunc(s.Endpoints, func(e admin.EndpointHealth) bool { return e.Verdict == "down" })
		if format == render.FormatJSON {
			continue
		}
		if s.Frozen != "" {
			fmt.Fprintf(talk, "catenary: the verdicts of %s are kept as they were: %s; catenary health --release %[1]s ends it\n", s.Service, s.Frozen)
		}
		for _, note := range s.Notes {
			fmt.Fprintf(talk, "catenary: %s: %s\n", s.Service, note)
		}
	}
	switch {
	case service != "" && len(list) == 0:
		return finding(fmt.Errorf("nothing of %s is probed: no client has it and its service-defaults do not ask for it, or it has no hds- keys (docs/hds.md)", service))
	case bad:
		return found()
	}
	return nil
}

func newCheckers() *cobra.Command {
	var addr string
	format := render.NewFormat(render.FormatTable, render.FormatJSON)
	cmd := &cobra.Command{
		Use:   "checkers",
		Short: "Show the Envoys that probe endpoints",
		Long: `Show the Envoys that are connected to probe endpoints: as whom they vote, where they are, how many endpoints they
have, and when they last reported.

The exit code is 1 when one is broken, and 3 when the server does not answer.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := admin.NewClient(addr).Checkers(cmd.Context())
			if err != nil {
				return refusedOrUnreachable(err)
			}
			if err := writeCheckers(cmd.OutOrStdout(), format.String(), list); err != nil {
				return err
			}
			if slices.ContainsFunc(list, func(c admin.Checker) bool { return c.State == "broken" }) {
				return found()
			}
			return nil
		},
	}
	adminFlag(cmd, &addr)
	formatFlag(cmd, format)
	return cmd
}

func writeCheckers(w io.Writer, format string, list []admin.Checker) error {
	if format == render.FormatJSON {
		return render.JSON(w, list)
	}
	if len(list) == 0 {
		return nil
	}
	rows := make([][]string, 0, len(list))
	for i := range list {
		c := &list[i]
		rows = append(rows, []string{
			c.Checker, c.NodeID, c.Address, strings.Trim(c.Region+"/"+c.Zone, "/"), c.Version, c.Form, c.State,
			strconv.Itoa(c.Duties), ageOf(c.ReportAgeSeconds, time.Millisecond), c.Reason,
		})
	}
	return render.Table(w, []string{"checker", "node id", "address", "locality", "version", "form", "state", "endpoints", "report age", "reason"}, rows)
}
