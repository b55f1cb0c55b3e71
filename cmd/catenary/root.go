package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "catenary",
		Short: "A control plane for fleets on Consul",
		Long: `Catenary follows a Consul catalog, or a directory of files in Consul's formats, and configures
the proxies of the fleet.

Data goes to stdout, talk to stderr. The exit code is 0 when all is well, 1 when something is found
wrong, such as an invalid entry, 2 for a command line that cannot be understood or a path that cannot
be read, and 3 for a source that cannot be reached or denies access.`,
		Args: verbs,

		SuggestionsMinimumDistance: typos,

		PersistentPreRunE: flagGroups,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
			return fmt.Errorf("name a verb; see %s --help", cmd.CommandPath())
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newBootstrap(),
		newCerts(),
		newCheckers(),
		newCompletion(),
		newDemo(),
		newDestination(),
		newDump(),
		newEndpoints(),
		newExplain(),
		newHealth(),
		newJanitor(),
		newProxies(),
		newWatches(),
		newServe(),
		newTranslate(),
		newValidate(),
		newVersion(),
	)
	return root
}

// typos is how many letters may be wrong in what is meant to be a verb.
const typos = 2

// flagGroups refuses flags that exclude each other, before cobra does, which would not say where to look.
func flagGroups(cmd *cobra.Command, _ []string) error {
	if err := cmd.ValidateFlagGroups(); err != nil {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	return nil
}

// verbs refuses what is no verb, with those that look like it.
func verbs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	if list := cmd.SuggestionsFor(args[0]); len(list) > 0 {
		near = fmt.Sprintf(" (did you mean %s?)", strings.Join(list, " or "))
	}
	return fmt.Errorf("there is no %s %s%s; see %[1]s --help", cmd.CommandPath(), args[0], near)
}

// exactly is a verb's number of arguments, with an error that names them.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		takes := strings.Join(names, " ")
		if takes == "" {
			takes = "no arguments"
		}
		return fmt.Errorf("%s takes %s, not %q; see %[1]s --help", cmd.CommandPath(), takes, args)
	}
}

// atMost is exactly for a verb whose argument may be left out.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return fmt.Errorf("%s takes one %s at most, not %q; see %[1]s --help", cmd.CommandPath(), name, args)
	}
}

// some is a verb's arguments of which there is one at least.
func some(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return fmt.Errorf("name at least one %s; see %s --help", name, cmd.CommandPath())
	}
}
