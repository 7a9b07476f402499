package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"muster/platform/clickhouse"
	"muster/projector"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// replayAnswers is the argument of muster replay that builds answers.
const replayAnswers = "answers"

func (c *command) replayCommand() *cobra.Command {
	var cfg projector.ReplayConfig
	var dropOld, abort, asJSON bool
	cmd := &cobra.Command{
		Use:   "replay [TABLE... | answers]",
		Short: "Rebuild read models from the topics, while the API answers",
		Long: `Rebuilds read models (all of them, or the tables named) from the record topics in new tables beside
the live ones, compares the two, and exchanges them. The API answers all the while, from the live
tables until the exchange and from the new ones after it; no record vanishes and no answer goes back
to an older version. Records that arrive meanwhile are in the new tables too.

What a live table has and the topics have no more, or only older, is taken over from it. A replay that
would lose a record, or make one older, does not exchange anything.

For a moment at the end, usually well under a second, inserts into the live tables pause. Projectors
wait that out as they do an overload of ClickHouse.

A replay that was interrupted or killed goes on where it was when it is run again with the same
tables; --restart begins anew, --abort gives it up. The tables that were live before keep their
content as <table>__old_<id> until --drop-old: they take as much disk again.

muster replay answers builds what the API answers about accounts of the code host from the read models
alone, without the topics: after an upgrade that says so, or in a restored backup that lacks it. A run
that was interrupted begins anew.

Read models: ` + strings.Join(readmodel.Tables(), ", ") + `.

Exit status: 0 done; 2 it could not be done, and the live tables are as they were.`,
		Example: `  muster replay
  muster replay lookups network_people
  muster replay answers
  muster replay --drop-old`,
		GroupID:   "data",
		ValidArgs: append(readmodel.Tables(), replayAnswers),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			tel, err := c.telemetry(ctx, "replay")
			if err != nil {
				return err
			}
			store, err := c.clickHouse()
			if err != nil {
				return err
			}
			if cfg.Projector.Kafka, err = c.kafka(); err != nil {
				return err
			}
			store.ClientName, store.Logger = "muster replay", tel.Logger
			conn, err := clickhouse.Open(ctx, store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, conn.Close()) }()
			switch {
			case (dropOld || abort) && len(args) > 0:
				return errors.New("--drop-old and --abort take no tables: they are about all of them")
			case dropOld:
				dropped, err := projector.DropOld(ctx, conn, tel.Logger)
				return dropReport(out, "dropped", dropped, err)
			case abort:
				dropped, err := projector.AbortReplay(ctx, cfg.Projector.Kafka, conn, tel.Logger)
				return dropReport(out, "gave up", dropped, err)
			}
			began := time.Now()
			if slices.Equal(args, []string{replayAnswers}) {
				return c.withSuppressed(ctx, cfg.Projector.Kafka, tel, func(ctx context.Context, set *suppress.Set) error {
					report, err := projector.ReplayAnswers(ctx, projector.ReplayDeps{
						Deps: projector.Deps{Conn: conn, Logger: tel.Logger, Suppressed: set}, Progress: newBar(c.std.err, tel.Logger),
					})
					if err != nil {
						return err
					}
					if asJSON {
						return printJSON(cmd, report)
					}
					_, err = fmt.Fprintf(out, "the answers of %d accounts were built in %s\n", report.Accounts, time.Since(began).Round(time.Millisecond))
					return err
				})
			}
			cfg.Tables = args
			var report projector.ReplayReport
			err = c.withSuppressed(ctx, cfg.Projector.Kafka, tel, func(ctx context.Context, set *suppress.Set) (err error) {
				report, err = projector.Replay(ctx, cfg, projector.ReplayDeps{
					Deps: projector.Deps{Conn: conn, Logger: tel.Logger, Suppressed: set}, Progress: newBar(c.std.err, tel.Logger),
				})
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, report)
			}
			return printReplay(out, report, time.Since(began))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&cfg.Restart, "restart", false, "begin anew instead of going on with an unfinished replay")
	flags.BoolVar(&dropOld, "drop-old", false, "remove the tables that earlier replays have replaced")
	flags.BoolVar(&abort, "abort", false, "give an unfinished replay up, and let projectors insert again if it stopped them")
	flags.String("cluster", "", "")
	cobra.CheckErr(flags.MarkDeprecated("cluster", "the tables tell which cluster they are of"))
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("restart", "drop-old", "abort")
	return cmd
}

func dropReport(out io.Writer, verb string, tables []string, err error) error {
	for _, name := range tables {
		fmt.Fprintf(out, "%s %s\n", verb, name)
	}
	if err == nil && len(tables) == 0 {
		fmt.Fprintln(out, "there was nothing to do")
	}
	return err
}

func printReplay(out io.Writer, report projector.ReplayReport, took time.Duration) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "READ MODEL\tIDENTITIES BEFORE\tAFTER\tADDED\tNEWER\tFROM THE LIVE TABLE\tPARTITIONS EQUAL\tOLD TABLE")
	for _, t := range report.Tables {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d of %d\t%s\n", t.Table, t.Before, t.After, t.Added, t.Newer, t.FromLive, t.Equal, t.Partitions, t.Kept)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	again := ""
	if report.Resumed {
		again = ", going on with an unfinished one"
	}
	fmt.Fprintf(out, "\nreplay %s took %s%s; inserts paused for %s\n", report.ID, took.Round(time.Millisecond), again, report.Frozen.Round(time.Millisecond))
	_, err := fmt.Fprintln(out, "the old tables take disk until: muster replay --drop-old")
	return err
}
