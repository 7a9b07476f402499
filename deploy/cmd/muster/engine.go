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

	"muster/deploy/backup"
	"muster/deploy/standalone"
	"muster/platform/engine"
	"muster/platform/service"
)

func (c *command) engineCommand() *cobra.Command {
	cfg := engine.ServerConfig{AnalystDatabases: standalone.AnalystDatabases()}
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Serve the embedded ClickHouse engine alone",
		Long: `Serves ClickHouse's HTTP interface on loopback over the data folder's engine, without the rest of the
platform; "muster up" does this by itself. Requests without credentials are an analyst's: they read the
analysts' views and nothing else. MUSTER_ENGINE_PASSWORD is the password of the service user "muster", and of the
user "analyst", who reads every table.`,
		Example: `  MUSTER_ENGINE_PASSWORD=secret muster engine --data-dir /srv/muster
  curl http://127.0.0.1:8123/ -d 'SELECT version()'`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tel, err := c.telemetry(cmd.Context(), "engine")
			if err != nil {
				return err
			}
			cfg.User, cfg.Password = "muster", c.getenv("MUSTER_ENGINE_PASSWORD")
			if cfg.Password == "" {
				return errors.New("MUSTER_ENGINE_PASSWORD is empty: set the service user's password")
			}
			if err := os.MkdirAll(c.dataDir, 0o700); err != nil {
				return fmt.Errorf("make the data folder: %w", err)
			}
			release, err := standalone.Lock(c.dataDir)
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
				return fmt.Errorf("find the own executable: %w", err)
			}
			// A process of its own, as with "muster up": it is kept from files that are
			// not the engine's, and has none of this one's environment.
			process, err := engine.Start(cmd.Context(), engine.SupervisorConfig{
				Command: c.engineChild(executable), Server: cfg, Logger: tel.Logger,
				StartTimeout: 10 * time.Minute, // many parts on a cold disk take long, and whoever waits sees the log
			})
			if err != nil {
				return err
			}
			tel.Logger.Info("the engine serves", "url", "http://"+process.Addr())
			<-cmd.Context().Done()
			err = process.Stop(context.WithoutCancel(cmd.Context()))
			logStopped(cmd.Context(), tel.Logger, err)
			return err
		},
	}
	cmd.Flags().StringVar(&cfg.Addr, "clickhouse-addr", "127.0.0.1:8123", "address to listen on")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "fetch",
			Short: "Fetch and unpack the engine's library into the cache, and print its path",
			Long: `Finds the engine's library: MUSTER_LIBCHDB, else the cache, else it fetches the pinned package with
npm, checks it against the hash that muster was built with, and unpacks it into the cache.`,
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
			Short: "Serve the engine as the child process of `muster up` and `muster engine`",
			Long: `Is started by "muster up" and "muster engine", and by nobody else: it takes its configuration from an inherited file
descriptor, reports its address on another, and ends when its parent does.`,
			Hidden: true,
			Args:   cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c.signals.is(slog.DiscardHandler) // the parent, which sends it the signal, has said so
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

// engineChild is the command line of the engine's process.
func (c *command) engineChild(executable string) []string {
	return []string{executable, "engine", "child", "--log-level", c.logLevel, "--log-format", string(service.LogJSON)}
}
