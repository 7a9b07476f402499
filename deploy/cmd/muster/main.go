// Command muster is the whole platform in one binary: `muster up` runs
// everything, `muster run` one service, and the other commands are the operators'.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // what libraries print there is thrown away
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

// streams are the standard streams of the process. Commands write to those of cobra, which may be shown what
// others wrote; logs and progress know by themselves what a terminal is shown.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitCoder is an error that asks for its own exit status.
type exitCoder interface{ ExitCode() int }

// run executes one command line and returns the process's exit status: 0, 1
// when the work was done but not all of it went well, 2 when it could not be done.
func run(args []string, std streams, getenv func(string) string) int {
	// Whoever is called over HTTP can have the standard library print there what it sends
	// after its answer, which may be what it was sent. Nothing of ours is said there.
	log.SetOutput(io.Discard)
	c := &command{std: std, getenv: getenv, connectTimeout: 15 * time.Second, signals: new(lateHandler)}
	ctx, release := service.WithSignals(context.Background(), slog.New(c.signals), os.Exit)
	defer release()

	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(std.in)
	told := console.Writer(std.err)
	root.SetOut(console.Writer(std.out))
	root.SetErr(told)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coder exitCoder
	if errors.As(err, &coder) {
		if message := err.Error(); message != "" {
			fmt.Fprintln(told, "muster:", message)
		}
		return coder.ExitCode()
	}
	fmt.Fprintln(told, "muster:", err)
	return 2
}

// command holds what the commands share: the persistent flags and the process's surroundings.
type command struct {
	std       streams
	getenv    func(string) string
	dataDir   string
	logLevel  string
	logFormat string
	// config is --config, file what the configuration file holds, fromFile its values by their variables.
	config   string
	file     configFile
	fromFile map[string]string
	// connectTimeout bounds how long a command waits for the brokers, and for topics to be there.
	connectTimeout time.Duration
	// signals is where it is said that a signal came.
	signals *lateHandler
}

func newRoot(c *command) *cobra.Command {
	root := &cobra.Command{
		Use:     "muster",
		Version: version(),
		Short:   "Answers who a person is and what a company is, from your own machine",
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
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// The engine's process can read no configuration, and needs none.
			if !cmd.Hidden && cmd.Name() != "version" {
				if err := c.loadSettings(cmd); err != nil {
					return err
				}
			}
			if _, err := filepath.Abs(c.dataDir); err != nil {
				return fmt.Errorf("the working directory does not exist any more: change to another one, or give an absolute --data-dir: %w", err)
			}
			cfg, err := c.telemetryConfig("muster")
			if err != nil {
				return err
			}
			logger, err := service.NewLogger(cfg)
			if err == nil {
				c.signals.is(logger.Handler())
			}
			return err
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.config, "config", "", "configuration file, YAML (MUSTER_CONFIG; see muster config)")
	flags.StringVar(&c.dataDir, "data-dir", ".muster", "data folder of the instance (MUSTER_DATA_DIR)")
	flags.StringVar(&c.logLevel, "log-level", "info", "least severe level to log: debug, info, warn or error")
	flags.StringVar(&c.logFormat, "log-format", "auto", "log format: text, json, or auto (text on a terminal)")

	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run the platform:"},
		&cobra.Group{ID: "data", Title: "Bring records in and look after them:"},
		&cobra.Group{ID: "people", Title: "Look after callers:"},
	)
	root.AddCommand(
		c.upCommand(), c.stopCommand(), c.runCommand(), c.engineCommand(), c.migrateCommand(), c.statusCommand(), c.backupCommand(),
		c.configCommand(),
		c.generateCommand(), c.ingestCommand(), c.rejectedCommand(), c.deadCommand(), c.replayCommand(),
		c.sqlCommand(), c.exportCommand(),
		c.accountCommand(),
		c.webhookCommand(),
		c.eraseCommand(), c.subjectCommand(),
		c.versionCommand(),
	)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.InitDefaultVersionFlag()
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
	cfg, err := c.telemetryConfig(name)
	if err != nil {
		return nil, err
	}
	return service.NewTelemetry(ctx, cfg)
}

// logStopped logs that a command ended as a signal asked, so that its last line says so.
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
		return service.TelemetryConfig{Service: name, Version: version(), LogLevel: level, LogFormat: format, Output: c.std.err}, nil
	default:
		return cfg, fmt.Errorf("--log-format: %q is none of auto, text and json", c.logFormat)
	}
}

// lateHandler is a log whose level and format are known once the command line is
// read. Until then it is silent.
type lateHandler struct{ to atomic.Pointer[slog.Handler] }

func (h *lateHandler) is(handler slog.Handler) { h.to.Store(&handler) }

func (h *lateHandler) now() slog.Handler {
	if to := h.to.Load(); to != nil {
		return *to
	}
	return slog.DiscardHandler
}

func (h *lateHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.now().Enabled(ctx, level)
}

func (h *lateHandler) Handle(ctx context.Context, r slog.Record) error { return h.now().Handle(ctx, r) }

func (h *lateHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.now().WithAttrs(attrs) }

func (h *lateHandler) WithGroup(name string) slog.Handler { return h.now().WithGroup(name) }
