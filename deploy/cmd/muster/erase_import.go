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
		Use:   "import FILE...",
		Short: "Import deletion lists of California's platform (DROP), and write the responses that it expects",
		Long: `Reads what the platform's GET /data/download gave, a ZIP file or the CSV files in it (` + strings.Join(suppress.DropLists(), ", ") + `
and Removed), finds out whom each row means, has them erased, and keeps every hash so that those whom nobody
is found for today are kept out tomorrow. Rows of a Removed file are lifted, unless another request names the same.

--response DIR waits until whoever was found is deleted from every table, and writes one file for each list, of
the list's name, for POST /data/upload: Id,Status with 3 (one person, deleted), 4 (several people have the
identifier: all opted out), 5 (nobody found) or 2 (exempt, by --exempt). The same command again imports nothing
twice and writes the same files. deploy/docs/erasure.md says which fields of records are compared.

Exit status: 0 done; 1 done, but some rows could not be read and have no response; 2 failed.`,
		Example: `  muster erase import 20260312_4821_DROP.zip --response responses/
  muster erase import 20260312_4821_Email.csv --dry-run`,
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
			err = c.erasing(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				return c.withReadModels(ctx, func(conn driver.Conn) (err error) {
					out, err = drop.Import(ctx, drop.Deps{Conn: conn, Bus: cfg.Bus, Suppressed: deps.Suppressed, Now: time.Now}, opts, lists)
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
	cmd.Flags().StringVar(&responses, "response", "", "folder to write the responses into")
	cmd.Flags().StringVar(&exempt, "exempt", "", "file with the IDs of rows, one a line, whose people may be kept by law")
	cmd.Flags().StringVar(&opts.By, "by", "", "who imports, for the log (default: the operator's user name)")
	cmd.Flags().BoolVar(&opts.Urgent, "now", false, "remove what is stored at once, and not within the day")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "read and compare, and change nothing")
	cmd.Flags().DurationVar(&wait, "timeout", 10*time.Minute, "how long --response waits for people to be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readExempt reads a list of ids.
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

// awaitMasked waits until requests have taken effect in every table, and calls waiting between looks.
func awaitMasked(ctx context.Context, cfg ingest.Config, requests []string, timeout time.Duration, waiting func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the people found are not deleted yet after %s: is a projector running? The same command again goes on from here", timeout))
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
		if err := printJSON(cmd, map[string]any{"lists": out.Lists, "requests": len(out.Requests), "responses": written}); err != nil {
			return err
		}
	} else {
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "LIST\tROWS\tKNOWN BEFORE\tDELETED\tOPTED OUT\tNOT FOUND\tEXEMPT\tWITHDRAWN\tUNREADABLE")
		for _, l := range out.Lists {
			fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", l.Name, l.Rows, l.Known, l.Statuses[drop.Deleted], l.Statuses[drop.OptedOut],
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
	return partlyError{fmt.Errorf("%d rows could not be read", bad)}
}
