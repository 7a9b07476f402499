// Command muster is the whole platform in one binary: `muster up` runs
// everything, `muster run` one service, and the other commands are the operators'.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"muster/platform/service"
)

func main() {
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Getenv))
}

// streams are the standard streams of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitCoder is an error that asks for its own exit status.
type exitCoder interface{ ExitCode() int }

// run executes one command line and returns the process's exit status: 0, 1
// when the work was done but not all of it went well, 2 when it could not be done.
func run(args []string, std streams, getenv func(string) string) int {
	quiet := slog.New(slog.NewTextHandler(std.err, nil))
	ctx, release := service.WithSignals(context.Background(), quiet, os.Exit)
	defer release()

	root := newRoot(std, getenv)
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coder exitCoder
	if errors.As(err, &coder) {
		if message := err.Error(); message != "" {
			fmt.Fprintln(std.err, "muster:", message)
		}
		return coder.ExitCode()
	}
	fmt.Fprintln(std.err, "muster:", err)
	return 2
}

// command holds what the commands share: the persistent flags and the process's surroundings.
type command struct {
	std       streams
	getenv    func(string) string
	dataDir   string
	logLevel  string
	logFormat string
}

func newRoot(std streams, getenv func(string) string) *cobra.Command {
	c := &command{std: std, getenv: getenv}
	root := &cobra.Command{
		Use:   "muster",
		Short: "Answers who a person is and what a company is, from your own machine",
		Long: `muster streams crawled code-host and professional-network records through Kafka into
ClickHouse read models and answers from them over HTTP.

On one machine, everything in one process:

  muster up                          start the platform with sample data
  muster status                      services, lag, and what the read models hold
  muster ingest network-person FILE  stream records in

The commands find a running instance through its data folder (--data-dir). To work
against servers of your own, set KAFKA_BROKERS and CLICKHOUSE_DSN.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dataDir := ".muster"
	if v := getenv("MUSTER_DATA_DIR"); v != "" {
		dataDir = v
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.dataDir, "data-dir", dataDir, "data folder of the instance (MUSTER_DATA_DIR)")
	flags.StringVar(&c.logLevel, "log-level", "info", "least severe level to log: debug, info, warn or error")
	flags.StringVar(&c.logFormat, "log-format", "auto", "log format: text, json, or auto (text on a terminal)")

	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run the platform:"},
		&cobra.Group{ID: "data", Title: "Bring records in and look after them:"},
		&cobra.Group{ID: "people", Title: "Look after callers:"},
	)
	root.AddCommand(
		c.upCommand(), c.runCommand(), c.engineCommand(), c.migrateCommand(), c.statusCommand(), c.backupCommand(),
		c.generateCommand(), c.ingestCommand(), c.rejectedCommand(), c.deadCommand(), c.replayCommand(),
		c.sqlCommand(), c.exportCommand(),
		c.accountCommand(),
		c.webhookCommand(),
		c.eraseCommand(), c.subjectCommand(),
		c.versionCommand(),
	)
	tellUsage(root)
	return root
}

// tellUsage has the errors of wrong arguments say what the command takes.
func tellUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil && cmd.Runnable() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		tellUsage(child)
	}
}

// telemetry makes the logger, metrics and traces of a command.
func (c *command) telemetry(ctx context.Context, name string) (*service.Telemetry, error) {
	level, err := service.ParseLogLevel(c.logLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	switch format := service.LogFormat(c.logFormat); format {
	case service.LogAuto, service.LogText, service.LogJSON:
		return service.NewTelemetry(ctx, service.TelemetryConfig{
			Service: name, Version: version(), LogLevel: level, LogFormat: format, Output: c.std.err,
		})
	default:
		return nil, fmt.Errorf("--log-format: %q is none of auto, text and json", c.logFormat)
	}
}
