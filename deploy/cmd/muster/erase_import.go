package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/drop"
	"muster/ingest"
	"muster/schemas/suppress"
)

func (c *command) eraseImport() *cobra.Command {
	var opts drop.Options
	var exempt, responses string
	var asJSON bool
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
			lists, err := drop.Read(args)
			if err != nil {
				return err
			}
			if opts.Exempt, err = readExempt(exempt); err != nil {
				return err
			}
			if opts.By == "" {
				opts.By = operatorName()
			}
			var out *drop.Outcome
			var written []string
			err = c.withEraser(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				return c.withReadModels(ctx, func(conn driver.Conn) (err error) {
					out, err = drop.Import(ctx,
						drop.Deps{Conn: conn, Bus: cfg.Bus, Suppressed: deps.Suppressed, Now: time.Now}, opts, lists)
					if err != nil || responses == "" || opts.DryRun {
						return err
					}
					if err := awaitMasked(ctx, cfg, out.Requests, wait, func() {}); err != nil {
						return err
					}
					written, err = out.Respond(responses)
					return err
				})
			})
			if err != nil {
				return err
			}
			return printImported(cmd, out, written, asJSON)
		},
	}
	cmd.Flags().StringVar(&responses, "response", "", "output directory of the responses")
	cmd.Flags().StringVar(&exempt, "exempt", "", "file with the IDs of exempt rows, one per line")
	cmd.Flags().StringVar(&opts.By, "requested-by", "", "requester, for the log (default: the operator's user name)")
	cmd.Flags().BoolVar(&opts.Urgent, "now", false, "delete stored data immediately, not within a day")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "read and compare, without changing anything")
	cmd.Flags().DurationVar(&wait, "timeout", 10*time.Minute, "maximum time that --response waits for deletions")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
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

// awaitMasked waits until the requests are in force in every table. It calls waiting after each poll.
func awaitMasked(ctx context.Context, cfg ingest.Config, requests []string, timeout time.Duration,
	waiting func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf(
			"the people found are not deleted after %s: is a projector running? Run the command again to continue",
			timeout))
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := ingest.Erasures(ctx, cfg.Bus)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		done := make(map[string]bool)
		for _, s := range all {
			done[s.RequestID] = s.State != ingest.ErasurePending
		}
		left := 0
		for _, id := range requests {
			if !done[id] {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			waiting()
		}
	}
}

func printImported(cmd *cobra.Command, out *drop.Outcome, written []string, asJSON bool) error {
	bad := 0
	for _, l := range out.Lists {
		bad += len(l.Bad)
	}
	if asJSON {
		if err := printJSON(cmd,
			map[string]any{"lists": out.Lists, "requests": len(out.Requests), "responses": written}); err != nil {
			return err
		}
	} else {
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "LIST\tROWS\tKNOWN BEFORE\tDELETED\tOPTED OUT\tNOT FOUND\tEXEMPT\tWITHDRAWN\tINVALID")
		for _, l := range out.Lists {
			fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", l.Name, l.Rows, l.Known, l.Statuses[drop.Deleted],
				l.Statuses[drop.OptedOut],
				l.Statuses[drop.NotFound], l.Statuses[drop.Exempted], l.Withdrawn, len(l.Bad))
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
