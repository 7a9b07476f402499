package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"muster/deploy/internal/standalone"
	"muster/platform/console"
	queryapi "muster/query-api"
)

func (c *command) upCommand() *cobra.Command {
	cfg := standalone.Config{}
	var noSample bool
	var accounts string
	var allow []string
	var memory searchMemory
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the whole platform on this machine",
		Long: `Runs every service in one process, with an embedded Kafka broker and an embedded ClickHouse engine.
An empty data directory is filled with synthetic sample data. When all services are ready, it prints curl
commands that work as they are, and writes the addresses and keys to DATA_DIR/standalone.json for the other
commands. Ctrl-C stops everything in order; the next start finds the data.

KAFKA_BROKERS and CLICKHOUSE_DSN replace the embedded engines with external servers (KAFKA_TLS, KAFKA_TLS_CA_FILE,
KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD). KAFKA_SESSION_TIMEOUT (default 10s) is how long the
partitions of a killed consumer stay unassigned.
Client certificates: KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE are PEM files with the certificate of muster and its
key; renewed files are used without a restart. CLICKHOUSE_TLS_... and REDIS_TLS_... with CA_FILE, CERT_FILE and KEY_FILE
work the same way.
OPENSEARCH_URL lets search use an OpenSearch cluster instead of memory (deploy/docs/opensearch.md).
MUSTER_LIBCHDB is the path of a libchdb library to use instead of the one that npm fetches.
MUSTER_SECRET_KEY replaces the root secret in the data directory; then the other commands need it too.`,
		Example: `  muster up
  muster up --data-dir /srv/muster --no-sample --api-addr 127.0.0.1:0`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			tel, err := c.telemetry(ctx, "muster")
			if err != nil {
				return err
			}
			defer flush(ctx, tel)
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the executable to start the engine with: %w", err)
			}
			cfg.DataDir, cfg.SearchPostings = c.dataDir, memory.bytes()
			if cfg.WebhookAllow, err = parseAllow(allow); err != nil {
				return err
			}
			if accounts != "" {
				content, err := readInput(cmd, accounts)
				if err != nil {
					return fmt.Errorf("--accounts: %w", err)
				}
				if cfg.Accounts, err = queryapi.ReadAccountsFile(content); err != nil {
					return err
				}
			}
			if noSample {
				cfg.Sample = 0
			}
			bar := newBar(c.std.err, tel.Logger)
			var greetErr error
			err = standalone.Run(ctx, cfg, standalone.Deps{
				Version:       version(),
				Telemetry:     tel,
				EngineCommand: c.engineChild(executable),
				Getenv:        c.getenv,
				Progress:      bar,
				Applied:       func(done []queryapi.Applied) error { return printApplied(cmd, done) },
				Started: func(w standalone.StartupSummary) {
					w.KeepKey = !console.IsTerminal(c.std.out)
					greetErr = w.WriteText(cmd.OutOrStdout())
				},
			})
			if err == nil {
				err = greetErr
			}
			logStopped(ctx, tel.Logger, err)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.APIAddr, "api-addr", "127.0.0.1:8080", "listen address of the HTTP API")
	flags.StringVar(&cfg.IngestAddr, "ingest-addr", "127.0.0.1:8081", "listen address of HTTP push")
	flags.StringVar(&cfg.AdminAddr, "admin-addr", "127.0.0.1:8082",
		"listen address of the status page, metrics, health and profiles")
	c.addAdminHostsFlag(flags, &cfg.AdminHosts)
	flags.StringVar(&cfg.ClickHouseAddr, "clickhouse-addr", "127.0.0.1:8123",
		"listen address of the embedded ClickHouse engine")
	flags.StringVar(&cfg.KafkaAddr, "kafka-addr", "127.0.0.1:9092", "listen address of the embedded Kafka broker")
	flags.IntVar(&cfg.Sample, "sample", 2000, "number of synthetic people to fill an empty data directory with")
	flags.BoolVar(&cfg.Compact, "compact", false, "compact the log of the embedded broker once it is projected")
	flags.StringArrayVar(&cfg.AcceptDataLoss, "accept-data-loss", nil,
		"start although messages of this `TOPIC` of the embedded broker are lost (repeatable; see backup.md)")
	flags.StringVar(&accounts, "accounts", "",
		"YAML file of plans, organizations and keys to apply (see muster account apply)")
	addAllowFlag(flags, &allow)
	addOriginFlag(flags, &cfg.Origins)
	addSearchMemoryFlag(flags, &memory)
	addWithinFlag(flags, &cfg.EraseWithin)
	flags.BoolVar(&noSample, "no-sample", false, "leave an empty data directory empty")
	return cmd
}
