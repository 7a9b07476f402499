// Command muster is the whole platform in one binary: `muster up` runs everything in one process, `muster run` runs
// one service, and the other commands are for operators.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // only to discard what libraries print
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"muster/platform/console"
	"muster/platform/service"
)

func main() {
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Getenv))
}

// streams holds the standard streams of the process. Commands write to cobra's streams, which escape control
// characters on a terminal; loggers and progress bars escape on their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitCoder is an error with its own exit status.
type exitCoder interface{ ExitCode() int }

// partlyError is the error of a command that did its work with failures. Its exit status is 1.
type partlyError struct{ error }

func (partlyError) ExitCode() int { return 1 }

func (e partlyError) Unwrap() error { return errors.Unwrap(e.error) }

// run executes one command line and returns the exit status of the process: 0 for success, 1 if the work is done with
// failures, 2 if it could not be done.
func run(args []string, std streams, getenv func(string) string) int {
	// Discard the standard library's log: an HTTP client logs unsolicited response data, which may hold personal data.
	log.SetOutput(io.Discard)
	c := &command{std: std, getenv: getenv, connectTimeout: 15 * time.Second, signals: new(deferredHandler)}
	ctx, release := service.WithSignals(context.Background(), slog.New(c.signals), os.Exit)
	defer release()
	defer service.KeepHeap()()

	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(std.in)
	diagnostics := console.Writer(std.err)
	root.SetOut(console.Writer(std.out))
	root.SetErr(diagnostics)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coder exitCoder
	if errors.As(err, &coder) {
		if message := err.Error(); message != "" {
			fmt.Fprintln(diagnostics, "muster:", message)
		}
		return coder.ExitCode()
	}
	fmt.Fprintln(diagnostics, "muster:", err)
	return 2
}

// command holds what the commands share: the persistent flags and the environment of the process.
type command struct {
	std       streams
	getenv    func(string) string
	dataDir   string
	logLevel  string
	logFormat string
	// config is --config. file has the configuration file's content, and fromFile its values by variable.
	config   string
	file     configFile
	fromFile map[string]string
	// connectTimeout bounds the wait for the brokers and for missing topics.
	connectTimeout time.Duration
	// signals logs the signals that stop the process.
	signals *deferredHandler
}

func newRoot(c *command) *cobra.Command {
	root := &cobra.Command{
		Use:     "muster",
		Version: version(),
		Short:   "Run a person and company enrichment platform",
		Long: `muster streams crawled code-host and professional-network records through Kafka into
ClickHouse read models and answers from them over HTTP.

On one machine, everything in one process:

  muster up                          start the platform with sample data
  muster status                      services, lag, and what the read models hold
  muster ingest network-person FILE  stream records in

The commands find a running instance through its data directory (--data-dir). To use
external servers, set KAFKA_BROKERS and CLICKHOUSE_DSN.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// The engine's process can read no configuration, and needs none.
			if !cmd.Hidden && cmd.Name() != "version" {
				if err := c.loadSettings(cmd); err != nil {
					return err
				}
			}
			if _, err := filepath.Abs(c.dataDir); err != nil {
				return fmt.Errorf(
					"the working directory does not exist any more: change to another one, or pass an absolute "+
						"--data-dir: %w",
					err)
			}
			cfg, err := c.telemetryConfig("muster")
			if err != nil {
				return err
			}
			logger, err := service.NewLogger(cfg)
			if err == nil {
				c.signals.set(logger.Handler())
			}
			return err
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.config, "config", "", "configuration file, YAML (MUSTER_CONFIG; see muster config)")
	flags.StringVar(&c.dataDir, "data-dir", ".muster", "data directory of the instance (MUSTER_DATA_DIR)")
	flags.StringVar(&c.logLevel, "log-level", "info", "minimum level to log: debug, info, warn or error")
	flags.StringVar(&c.logFormat, "log-format", "auto", "log format: text, json, or auto (text on a terminal)")

	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run the platform:"},
		&cobra.Group{ID: "data", Title: "Import and manage data:"},
		&cobra.Group{ID: "people", Title: "Manage callers and data subjects:"},
	)
	root.AddCommand(
		c.upCommand(), c.stopCommand(), c.runCommand(), c.engineCommand(), c.migrateCommand(), c.statusCommand(),
		c.backupCommand(), c.configCommand(),
		c.generateCommand(), c.ingestCommand(), c.enrichCommand(), c.rejectedCommand(), c.deadCommand(), c.replayCommand(),
		c.feedbackCommand(),
		c.sqlCommand(), c.exportCommand(), c.evalCommand(),
		c.accountCommand(), c.mcpCommand(),
		c.webhookCommand(),
		c.eraseCommand(), c.subjectCommand(),
		c.versionCommand(),
	)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.InitDefaultVersionFlag()
	addUsageToErrors(root)
	setUpGroups(root)
	return root
}

// addUsageToErrors appends the usage line to the argument errors of cmd and its subcommands.
func addUsageToErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil && cmd.Runnable() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		addUsageToErrors(child)
	}
}

// telemetry returns the logger, metrics and traces of a command.
func (c *command) telemetry(ctx context.Context, name string) (*service.Telemetry, error) {
	cfg, err := c.telemetryConfig(name)
	if err != nil {
		return nil, err
	}
	return service.NewTelemetry(ctx, cfg)
}

// logStopped logs that a signal stopped the command, unless it failed.
func logStopped(ctx context.Context, logger *slog.Logger, err error) {
	if err == nil && ctx.Err() != nil {
		logger.Info("muster has stopped")
	}
}

func (c *command) telemetryConfig(name string) (cfg service.TelemetryConfig, err error) {
	level, err := service.ParseLogLevel(c.logLevel)
	if err != nil {
		return cfg, fmt.Errorf("--log-level: %w", err)
	}
	switch format := service.LogFormat(c.logFormat); format {
	case service.LogAuto, service.LogText, service.LogJSON:
		return service.TelemetryConfig{Service: name, Version: version(), LogLevel: level, LogFormat: format,
			Output: c.std.err}, nil
	default:
		return cfg, fmt.Errorf("--log-format: invalid value %q: want auto, text or json", c.logFormat)
	}
}

// deferredHandler is a log handler whose level and format are set after the command line is parsed. Until then it
// discards all records.
type deferredHandler struct{ to atomic.Pointer[slog.Handler] }

func (h *deferredHandler) set(handler slog.Handler) { h.to.Store(&handler) }

func (h *deferredHandler) now() slog.Handler {
	if to := h.to.Load(); to != nil {
		return *to
	}
	return slog.DiscardHandler
}

func (h *deferredHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.now().Enabled(ctx, level)
}

func (h *deferredHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.now().Handle(ctx, r)
}

func (h *deferredHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.now().WithAttrs(attrs) }

func (h *deferredHandler) WithGroup(name string) slog.Handler { return h.now().WithGroup(name) }
