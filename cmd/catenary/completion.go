package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	shells := []string{"bash", "fish", "powershell", "zsh"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print a script that completes command lines",
		Long:      "Print a script that completes command lines in SHELL: " + strings.Join(shells, ", ") + ".",
		Example:   "  source <(catenary completion bash)",
		Args:      exactly("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			case "zsh":
				return root.GenZshCompletion(out)
			}
			return fmt.Errorf("the shell %q is none of %s", args[0], strings.Join(shells, ", "))
		},
	}
}
