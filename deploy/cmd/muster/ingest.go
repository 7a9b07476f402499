package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"muster/deploy/instance"
	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/record"
)

// kafka reaches the brokers of the instance, or those that the environment names.
func (c *command) kafka() (bus.Config, error) {
	cfg, err := bus.ConfigFromEnv(c.getenv)
	if err != nil {
		return cfg, err
	}
	if len(cfg.Brokers) > 0 {
		return cfg, nil
	}
	in, err := instance.Read(c.dataDir)
	if err != nil || !instance.Alive(in.PID) {
		return cfg, fmt.Errorf("%w at data folder %q: start one with `muster up`, name its folder with --data-dir, or set KAFKA_BROKERS",
			instance.ErrNotRunning, c.dataDir)
	}
	cfg.Brokers = strings.Split(in.Kafka, ",")
	return cfg, nil
}

func ingestibleKinds() []string {
	var kinds []string
	for _, d := range record.Definitions() {
		if !d.Internal {
			kinds = append(kinds, string(d.Kind))
		}
	}
	return kinds
}

func (c *command) ingestCommand() *cobra.Command {
	kinds := ingestibleKinds()
	cfg := ingest.Config{}
	cmd := &cobra.Command{
		Use:   "ingest KIND FILE...",
		Short: "Stream records of one kind in from files or standard input",
		Long: `Reads newline-delimited JSON records (plain, gzip or zstd, found out from the content) and
publishes them. "-" is standard input.

Kinds: ` + strings.Join(kinds, ", ") + `.

A record that does not fit is kept on the topic muster.record.rejected.v1 with the reason and
its place, and stops nothing.

Exit status: 0 everything was published; 1 some records were rejected; 2 the run could not start,
was interrupted, or could not read an input to its end. Running it again is safe.`,
		Example: `  muster ingest network-person people.ndjson.gz
  zcat dump.gz | muster ingest codehost-person -`,
		GroupID:   "data",
		Args:      cobra.MinimumNArgs(2),
		ValidArgs: kinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := record.Kind(args[0])
			if d, ok := record.Lookup(kind); !ok || d.Internal {
				return fmt.Errorf("%q is no kind of record; the kinds are %s", args[0], strings.Join(kinds, ", "))
			}
			tel, err := c.telemetry(cmd.Context(), "ingest")
			if err != nil {
				return err
			}
			if cfg.Bus, err = c.kafka(); err != nil {
				return err
			}
			deps := ingest.Deps{Logger: tel.Logger, Stdin: c.std.in}
			if file, ok := c.std.err.(*os.File); ok {
				deps.Progress = ingest.NewProgress(file, tel.Logger)
			}
			summary, err := ingest.Files(cmd.Context(), cfg, deps, kind, args[1:])
			if summary.Run != "" {
				fmt.Fprint(cmd.OutOrStdout(), summary.String())
			}
			return err
		},
	}
	cmd.Flags().IntVar(&cfg.Workers, "workers", 0, "goroutines that decode (0: one for each CPU)")
	return cmd
}
