package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/erasure"
	"muster/ingest"
	"muster/schemas/suppress"
)

func (c *command) eraseImport() *cobra.Command {
	var opts erasure.ImportOptions
	var exempt, responses string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "import-drop FILE...",
		Short: "Import California deletion lists (DROP)",
		Long: `Reads the response of the platform's GET /data/download, a ZIP file or its CSV files
(` + strings.Join(suppress.DropLists(), ", ") + ` and Removed), matches each row to people,
erases these, and stores every hash, so that people who are not found today are suppressed later. Rows of a Removed file
end the suppression, unless another request has the same identifier.

--response DIR waits until the people found are deleted from every table, and writes one file per list, with the
list's name, for POST /data/upload: Id,Status with 3 (one person, deleted), 4 (several people have the
identifier: all opted out), 5 (not found) or 2 (exempt, by --exempt). Running the command again imports nothing
twice and writes the same files. deploy/docs/erasure.md lists the fields of records that are compared.

Exit status: 0 done; 1 done, but some rows are invalid and have no response; 2 failed.`,
		Example: `  muster erase import-drop 20260312_4821_DROP.zip --response responses/
  muster erase import-drop 20260312_4821_Email.csv --dry-run`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lists, err := erasure.ReadLists(args)
			if err != nil {
				return err
			}
			if opts.Exempt, err = readExempt(exempt); err != nil {
				return err
			}
			if opts.By == "" {
				opts.By = operatorName()
			}
			var out *erasure.ImportResult
			var written []string
			err = c.withEraser(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				return c.withReadModels(ctx, func(conn driver.Conn) (err error) {
					out, err = erasure.ImportLists(
						ctx, erasure.Source{Conn: conn, Bus: cfg.Bus}, deps.Suppressed, lists, opts,
					)
					if err != nil || responses == "" || opts.DryRun {
						return err
					}
					if err := erasure.AwaitSuppressed(ctx, cfg.Bus, out.Requests, wait, func() {}); err != nil {
						return err
					}
					written, err = out.Respond(responses)
					return err
				})
			})
			if err != nil {
				return err
			}
			return printImported(cmd, out, written)
		},
	}
	cmd.Flags().StringVar(&responses, "response", "", "output directory of the responses")
	cmd.Flags().StringVar(&exempt, "exempt", "", "file with the IDs of exempt rows, one per line")
	cmd.Flags().StringVar(&opts.By, "requested-by", "", "requester, for the log (default: the operator's user name)")
	cmd.Flags().BoolVar(&opts.Urgent, "now", false, "delete stored data immediately, not within a day")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "read and compare, without changing anything")
	cmd.Flags().DurationVar(&wait, "timeout", 10*time.Minute, "maximum time that --response waits for deletions")
	addJSONFlag(cmd)
	return cmd
}

// readExempt reads the row IDs in a file, one per line. An empty path gives nil.
func readExempt(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read --exempt: %w", err)
	}
	defer f.Close()
	out := make(map[string]bool)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" {
			out[id] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read --exempt: %w", err)
	}
	return out, nil
}

func printImported(cmd *cobra.Command, out *erasure.ImportResult, written []string) error {
	bad := 0
	for _, l := range out.Lists {
		bad += len(l.Bad)
	}
	if wantsJSON(cmd) {
		if err := printJSON(cmd,
			map[string]any{"lists": out.Lists, "requests": len(out.Requests), "responses": written}); err != nil {
			return err
		}
	} else {
		tw := newTable(cmd.OutOrStdout(),
			"LIST\tROWS\tKNOWN BEFORE\tDELETED\tOPTED OUT\tNOT FOUND\tEXEMPT\tWITHDRAWN\tINVALID")
		for _, l := range out.Lists {
			fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", l.Name, l.Rows, l.Known, l.Statuses[erasure.Deleted],
				l.Statuses[erasure.OptedOut],
				l.Statuses[erasure.NotFound], l.Statuses[erasure.Exempted], l.Withdrawn, len(l.Bad))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		for _, path := range written {
			fmt.Fprintf(cmd.OutOrStdout(), "response: %s\n", path)
		}
	}
	if bad == 0 {
		return nil
	}
	const shown = 20
	for _, l := range out.Lists {
		for i, b := range l.Bad {
			if i == shown {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: and %d more\n", l.Name, len(l.Bad)-shown)
				break
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: %s\n", l.Name, b.Line, b.Reason)
		}
	}
	return partlyError{fmt.Errorf("%d rows are invalid", bad)}
}
