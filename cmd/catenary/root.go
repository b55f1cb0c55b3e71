package main

import (
	"fmt"

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
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
			return fmt.Errorf("name a verb")
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newBootstrap(),
		newCompletion(),
		newDemo(),
		newDump(),
		newEndpoints(),
		newJanitor(),
		newProxies(),
		newServe(),
		newTranslate(),
		newValidate(),
		newVersion(),
	)
	return root
}

// exactly is a verb's number of arguments, with an error that names them.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("%s takes %v, not %d arguments; see %s --help",
			cmd.CommandPath(), names, len(args), cmd.CommandPath())
	}
}
