package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// addJSONFlag adds --json to a command, and returns the command.
func addJSONFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

// wantsJSON reports whether the command line has --json.
func wantsJSON(cmd *cobra.Command) bool {
	given, _ := cmd.Flags().GetBool("json")
	return given
}

func printJSON(cmd *cobra.Command, v any) error {
	raw, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
	return err
}

// newTable writes a header to a table of tab-separated columns, and returns the writer for the rows.
func newTable(out io.Writer, header string) *tabwriter.Writer {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, header)
	return tw
}

// orDash returns s, or "-" if it is empty.
func orDash(s string) string { return cmp.Or(s, "-") }
