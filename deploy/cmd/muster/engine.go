package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"muster/deploy/internal/backup"
	"muster/deploy/internal/instance"
	"muster/deploy/internal/standalone"
	"muster/platform/engine"
	"muster/platform/service"
)

func (c *command) engineCommand() *cobra.Command {
	cfg := engine.ServerConfig{AnalystDatabases: standalone.AnalystDatabases()}
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Serve the embedded ClickHouse engine alone",
		Long: `Serves the ClickHouse HTTP interface on loopback, with the engine of the data directory and without the
rest of the platform; "muster up" includes it. Requests without credentials run as an analyst, who can read only the
analyst views. MUSTER_ENGINE_PASSWORD is the password of the service user "muster", and of the user "analyst", who can
read every table.`,
		Example: `  MUSTER_ENGINE_PASSWORD=secret muster engine --data-dir /srv/muster
  curl http://127.0.0.1:8123/ -d 'SELECT version()'`,
		GroupID: "run",
		Args:    onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tel, err := c.telemetry(cmd.Context(), "engine")
			if err != nil {
				return err
			}
			cfg.User, cfg.Password = "muster", c.getenv("MUSTER_ENGINE_PASSWORD")
			if cfg.Password == "" {
				return errors.New("MUSTER_ENGINE_PASSWORD is empty: set it to the password of the service user")
			}
			if err := os.MkdirAll(c.dataDir, 0o700); err != nil {
				return fmt.Errorf("create the data directory: %w", err)
			}
			release, err := instance.Lock(c.dataDir)
			if err != nil {
				return err
			}
			defer release()
			if _, err := backup.Finish(c.dataDir, time.Now()); err != nil {
				return err
			}
			cfg.Dir = filepath.Join(c.dataDir, "clickhouse")
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the executable: %w", err)
			}
			// A child process as in "muster up": its sandbox allows only the files of the engine, and it does not
			// inherit this environment.
			process, err := engine.Start(cmd.Context(), engine.SupervisorConfig{
				Command: c.engineChild(executable), Server: cfg, Logger: tel.Logger,
				// Many parts on a cold disk take long; the log shows the progress.
				StartTimeout: 10 * time.Minute,
			})
			if err == nil {
				tel.Logger.Info("engine: ready", "url", "http://"+process.Addr())
				<-cmd.Context().Done()
				err = process.Stop(context.WithoutCancel(cmd.Context()))
			}
			err = service.IgnoreInterrupt(cmd.Context(), err)
			logStopped(cmd.Context(), tel.Logger, err)
			return err
		},
	}
	cmd.Flags().StringVar(&cfg.Addr, "clickhouse-addr", "127.0.0.1:8123", "listen address")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "fetch",
			Short: "Install the engine library into the cache",
			Long: `Finds the engine library: MUSTER_LIBCHDB, else the cache. Otherwise it fetches the pinned package
with npm, checks it against the hash in this binary, and unpacks it into the cache. It prints the path of the library.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				tel, err := c.telemetry(cmd.Context(), "engine")
				if err != nil {
					return err
				}
				path, err := engine.EnsureLibrary(cmd.Context(), engine.LibraryConfig{Logger: tel.Logger})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
				return err
			},
		},
		&cobra.Command{
			Use:   "child",
			Short: "Serve the engine as a child process (internal)",
			Long: `Started by "muster up" and "muster engine" only: it reads its configuration from an inherited file
descriptor, reports its address on another, and exits with its parent.`,
			Hidden: true,
			Args:   cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				// The parent logs the signal.
				c.signals.set(slog.DiscardHandler)
				tel, err := c.telemetry(cmd.Context(), "engine")
				if err != nil {
					return err
				}
				return engine.RunChild(cmd.Context(), tel.Logger)
			},
		},
	)
	return cmd
}

// engineChild returns the command line of the engine process.
func (c *command) engineChild(executable string) []string {
	return []string{executable, "engine", "child", "--log-level", c.logLevel, "--log-format", string(service.LogJSON)}
}
