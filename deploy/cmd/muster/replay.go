package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/internal/instance"
	"muster/deploy/internal/searchcluster"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector/project"
	"muster/projector/replay"
	"muster/projector/searchsink"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// replayAnswers is the argument of muster replay that rebuilds the stored answers.
const replayAnswers = "answers"

// replaySearch is the argument of muster replay that fills a new search index.
const replaySearch = "search"

func (c *command) replayCommand() *cobra.Command {
	var cfg replay.Config
	var dropOld, abort bool
	cmd := &cobra.Command{
		Use:   "replay [TABLE... | answers | search]",
		Short: "Rebuild read models from the topics, without downtime",
		Long: `Rebuilds read models (all, or the given tables) from the record topics in new tables, compares these
with the live tables, and exchanges them. The API reads the live tables until the exchange and the new ones after it;
no record disappears and no answer returns to an older version. Records that arrive during the replay are in the new
tables too.

Rows that the topics no longer have, or have only in an older version, are copied from the live table. A replay that
would lose a record, or replace one with an older version, does not exchange the tables.

At the end, inserts into the live tables pause, usually for well under a second. Projectors handle this as an
overload of ClickHouse.

An interrupted or killed replay resumes when it is run again with the same tables; --restart starts from scratch,
--abort discards it. The previous tables are kept as <table>__old_<id> until --drop-old, and use as much disk again.

muster replay answers rebuilds what the API returns for code-host accounts, and what person search reads of accounts that
people are linked with, from the read models alone, without the topics: after an upgrade that requires it, or in a
restored backup without it. If interrupted, it starts from scratch.

muster replay search rebuilds the indexes in OpenSearch. It fills a new index from the read models, compares each
document with its row, switches the alias, and deletes the old index. Use it after an upgrade that changes the mapping,
after the index was lost or the projector was stopped for more than a day, and to change the number of shards. If
interrupted, it starts from scratch.

Read models: ` + strings.Join(readmodel.Tables(), ", ") + `.

Exit status: 0 done; 2 it failed, and the live tables are unchanged.`,
		Example: `  muster replay
  muster replay lookups network_people
  muster replay answers
  muster replay --drop-old`,
		GroupID:   "data",
		ValidArgs: append(readmodel.Tables(), replayAnswers, replaySearch),
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
				return errors.New("--drop-old and --abort take no tables: they apply to all tables")
			case dropOld:
				dropped, err := replay.DropRetired(ctx, conn, tel.Logger)
				return dropReport(out, "dropped", dropped, err)
			case abort:
				dropped, err := replay.Abort(ctx, cfg.Projector.Kafka, conn, tel.Logger)
				return dropReport(out, "discarded", dropped, err)
			}
			began := time.Now()
			if slices.Equal(args, []string{replaySearch}) {
				return c.replaySearch(cmd, conn, cfg.Projector.Kafka, tel.Logger)
			}
			if slices.Equal(args, []string{replayAnswers}) {
				return c.withSuppressed(ctx, cfg.Projector.Kafka, tel.Logger,
					func(ctx context.Context, set *suppress.Set) error {
						report, err := replay.Answers(ctx, replay.Deps{
							Deps:     project.Deps{Conn: conn, Logger: tel.Logger, Suppressed: set},
							Progress: newBar(c.std.err, tel.Logger),
						})
						if err != nil {
							return err
						}
						if wantsJSON(cmd) {
							return printJSON(cmd, report)
						}
						_, err = fmt.Fprintf(out, "built the answers of %d accounts in %s\n",
							report.Accounts, time.Since(began).Round(time.Millisecond))
						return err
					})
			}
			cfg.Tables = args
			var report replay.Report
			err = c.withSuppressed(ctx, cfg.Projector.Kafka, tel.Logger,
				func(ctx context.Context, set *suppress.Set) (err error) {
					report, err = replay.Tables(ctx, cfg, replay.Deps{
						Deps:     project.Deps{Conn: conn, Logger: tel.Logger, Suppressed: set},
						Progress: newBar(c.std.err, tel.Logger),
					})
					return err
				})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, report)
			}
			return printReplay(out, report, time.Since(began))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&cfg.Restart, "restart", false, "start from scratch instead of resuming an unfinished replay")
	flags.BoolVar(&dropOld, "drop-old", false, "drop the tables that earlier replays have replaced")
	flags.BoolVar(&abort, "abort", false,
		"discard an unfinished replay, and let projectors insert again if it paused them")
	addJSONFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("restart", "drop-old", "abort")
	return cmd
}

// replaySearch fills a new search index.
func (c *command) replaySearch(cmd *cobra.Command, conn driver.Conn, kafka bus.Config, logger *slog.Logger) (err error) {
	secret, err := c.rootSecret()
	if err != nil {
		return err
	}
	in, err := instance.Find(c.dataDir, c.getenv)
	if err != nil {
		return err
	}
	cluster, err := searchcluster.Open(in.SearchEnv(c.getenv), secret)
	if err != nil {
		return err
	}
	if cluster == nil {
		return errors.New("OPENSEARCH_URL is empty: search is in memory, and has no index to fill")
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	began := time.Now()
	return c.withSuppressed(cmd.Context(), kafka, logger, func(ctx context.Context, set *suppress.Set) error {
		reports, err := searchsink.Replay(ctx, searchsink.Replaying{
			Client: cluster.Client(), Key: cluster.Key(), Conn: conn, Suppressed: set, Logger: logger,
			Progress: newBar(c.std.err, logger), Now: time.Now,
		})
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd, reports)
		}
		for _, report := range reports {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "filled %s with %d documents (checksum %016x); deleted: %s\n",
				report.Index, report.Documents, report.Sum, cmp.Or(strings.Join(report.Replaced, ", "), "none"))
			if err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "replay search took %s\n", time.Since(began).Round(time.Millisecond))
		return err
	})
}

func dropReport(out io.Writer, verb string, tables []string, err error) error {
	for _, name := range tables {
		fmt.Fprintf(out, "%s %s\n", verb, name)
	}
	if err == nil && len(tables) == 0 {
		fmt.Fprintln(out, "nothing to do")
	}
	return err
}

func printReplay(out io.Writer, report replay.Report, took time.Duration) error {
	tw := newTable(out,
		"READ MODEL\tIDENTITIES BEFORE\tAFTER\tADDED\tNEWER\tFROM THE LIVE TABLE\tPARTITIONS EQUAL\tOLD TABLE")
	for _, t := range report.Tables {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d of %d\t%s\n", t.Table, t.Before, t.After, t.Added, t.Newer,
			t.FromLive, t.Equal, t.Partitions, t.Kept)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	again := ""
	if report.Resumed {
		again = ", resumed"
	}
	fmt.Fprintf(out, "\nreplay %s took %s%s; inserts paused for %s\n", report.ID, took.Round(time.Millisecond), again,
		report.InsertsPaused.Round(time.Millisecond))
	_, err := fmt.Fprintln(out, "the old tables use disk until: muster replay --drop-old")
	return err
}
