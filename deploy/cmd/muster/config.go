package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"muster/platform/suggest"
)

func (c *command) configCommand() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "config [SETTING...]",
		Short: "List settings with their values and sources",
		Long: `Lists the settings of the commands up, run and engine: flag, environment variable, default, current value
and source. Named settings are explained. Secrets and passwords in URLs are masked.

A value comes from the flag, else from the environment variable, else from the configuration file, else it is the
default. The configuration file is --config, else MUSTER_CONFIG, else, for the program installed by a package,
/etc/muster/muster.yaml. It is YAML: "api-addr: 0.0.0.0:8080" or "kafka-brokers: [a:9092, b:9092]".`,
		Example: `  muster config
  muster config api-addr kafka-brokers
  muster --config muster.yaml config --json`,
		GroupID: "run",
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := selectSettings(c.currentSettings(cmd), args)
			if err != nil {
				return err
			}
			switch out := cmd.OutOrStdout(); {
			case wantsJSON(cmd):
				return printJSON(cmd, map[string]any{"file": c.file.path, "settings": settings})
			case len(args) > 0:
				return explainSettings(out, settings)
			default:
				return c.listSettings(out, settings)
			}
		},
	})
}

// currentSettings returns every setting with its value and source. Flags of other commands are unknown here.
func (c *command) currentSettings(cmd *cobra.Command) []setting {
	out := allSettings(cmd.Root())
	for i := range out {
		s := &out[i]
		values, source := c.lookup(*s)
		s.Source, s.Value = source, s.Default
		if len(values) > 0 {
			s.Value = strings.Join(values, ",")
		}
		if source == sourceEnvironment && s.Flag == "" && c.fromFile[s.Variable] != "" {
			s.Source = sourceFile
		}
		if flag := cmd.Flags().Lookup(s.Name); flag != nil && flag.Changed {
			s.Source, s.Value = sourceFlag, flag.Value.String()
		}
		s.Value = maskValue(*s, s.Value)
	}
	return out
}

func selectSettings(all []setting, names []string) ([]setting, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []setting
	known := make([]string, len(all))
	for i, s := range all {
		known[i] = s.Name
	}
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("unknown setting %q: %s", name,
				suggest.Hint(name, known, "See `muster config` for all settings"))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (c *command) listSettings(out io.Writer, settings []setting) error {
	fmt.Fprintf(out, "configuration file: %s\n\n", cmp.Or(c.file.path, "none"))
	table := newTable(out, "SETTING\tFLAG\tVARIABLE\tDEFAULT\tVALUE\tSOURCE")
	for _, s := range settings {
		row := []string{s.Name, orDash(s.Flag), s.Variable, orDash(s.Default), orDash(s.Value), s.Source}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

func explainSettings(out io.Writer, settings []setting) error {
	for i, s := range settings {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: %s\n", s.Name, s.Description)
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range [][2]string{
			{"flag", s.Flag}, {"commands", strings.Join(s.Commands, ", ")}, {"variable", s.Variable},
			{"default", s.Default}, {"value", s.Value}, {"source", s.Source},
		} {
			if row[1] != "" {
				fmt.Fprintf(table, "  %s\t%s\n", row[0], row[1])
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
