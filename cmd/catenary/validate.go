package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/filesource"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/internal/support"
)

func newValidate() *cobra.Command {
	format := render.NewFormat(render.FormatText, render.FormatJSON)
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check files of config entries and service definitions",
		Long: `Check files, or directories of files, in Consul's formats: whether each can be decoded, is valid, and
whether the chains that all of them together make do compile. Fields that Catenary does not act on are
warned of. All findings go to stdout, one a line, with file and line, entry, field and a code that
docs/codes.md explains.

The exit code is 1 when one of them is an error, and 2 when a path cannot be read or is a directory
without such files. Warnings do not fail.`,
		Example: `  catenary validate examples/shop
  catenary validate -o json examples/shop`,
		Args: some("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, problems, err := filesource.Load(args...)
			if err != nil {
				return err
			}
			if err := filesource.Nothing(problems); err != nil {
				return err
			}
			for _, e := range all.Entries {
				problems = append(problems, support.Check(e)...)
			}
			// A chain whose entries are half read would only repeat what is said already.
			if !filesource.HasErrors(problems) {
				problems = append(problems, together(all.Entries)...)
			}
			if err := writeProblems(cmd.OutOrStdout(), format.String(), problems); err != nil {
				return err
			}
			if filesource.HasErrors(problems) {
				return found()
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %d config entries and %d service definitions are valid\n",
				len(all.Entries), len(all.Instances))
			return nil
		},
	}
	formatFlag(cmd, format)
	return cmd
}

// together returns what is wrong with entries that are each right.
func together(entries []chain.Entry) []chain.Problem {
	set := chain.NewEntrySet(entries...)
	var problems []chain.Problem
	for _, e := range entries {
		problems = append(problems, chain.ValidateAmong(e, set)...)
	}
	return append(problems, compileAll(entries, set)...)
}

// compileAll compiles the chain of every service that has an entry, and returns each problem once: a
// chain has those of the chains it leads to.
func compileAll(entries []chain.Entry, set *chain.EntrySet) []chain.Problem {
	var names []string
	for _, e := range entries {
		if slices.Contains(chain.Kinds(), e.Kind()) && e.Kind() != chain.KindProxyDefaults {
			names = append(names, strings.ToLower(e.Head().Name))
		}
	}
	slices.Sort(names)
	var problems []chain.Problem
	for _, name := range slices.Compact(names) {
		_, found := chain.Compile(chain.Request{
			Service: name, Datacenter: chain.DefaultDatacenter, TrustDomain: chain.DefaultTrustDomain,
		}, set)
		for _, p := range found {
			if p.Entry == "" {
				p.Entry = "the chain of " + name
			}
			if !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

func writeProblems(out io.Writer, format string, problems []chain.Problem) error {
	if format == render.FormatJSON {
		if problems == nil {
			problems = []chain.Problem{} // no findings are a list too
		}
		return render.JSON(out, problems)
	}
	for _, p := range problems {
		if _, err := fmt.Fprintf(out, "%s: %s\n", p.Severity, p); err != nil {
			return err
		}
	}
	return nil
}
