package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/platform/suggest"
)

// groupAnnotation marks a command that only has subcommands.
const groupAnnotation = "group"

// setUpGroups makes the commands of the tree that only have subcommands show their help without arguments, and reject
// an unknown subcommand. Cobra shows the help of such a command whatever its arguments are, with exit status 0.
func setUpGroups(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	markGroups(root)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}",
		"{{if and .Runnable (not .Annotations."+groupAnnotation+")}}", 1))
	// A flag of the intended subcommand is unknown to the group, but is not the mistake.
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if isGroup(cmd) {
			if unknown := onlySubcommands(cmd, cmd.Flags().Args()); unknown != nil {
				return unknown
			}
		}
		return err
	})
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, args []string) error {
				topic, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return onlySubcommands(topic, rest)
			}
		}
	}
}

// isGroup reports whether a command only has subcommands.
func isGroup(cmd *cobra.Command) bool { return cmd.Annotations[groupAnnotation] != "" }

func markGroups(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		markGroups(child)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[groupAnnotation] = "true"
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return pflag.ErrHelp // before the settings are read
		}
		return onlySubcommands(cmd, args)
	}
	// Cobra checks the arguments of a runnable command only.
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// onlySubcommands is the check of a command's arguments that accepts none: the first one is a misspelled subcommand.
func onlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			known = append(known, child.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(),
		suggest.Hint(args[0], known, fmt.Sprintf("See `%s --help`", cmd.CommandPath())))
}
