package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"muster/deploy/internal/instance"
)

func (c *command) stopCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the process that serves a data directory",
		Long: `Sends SIGTERM to the "muster up" or "muster engine" that has locked the data directory, and waits until
it has exited. If a supervisor such as systemd restarts it, stop it there instead. Stop a container from within it.

Exit status: 0 the process has exited, or none was running; 2 it could not be stopped, --wait passed, or another
command such as a backup, a restore or "erase keys" holds the lock. Such a command is not interrupted.`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pid, work, err := instance.LockOwner(c.dataDir)
			if err != nil {
				return err
			}
			if pid == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "no process serves %s\n", c.dataDir)
				return err
			}
			if work != "" {
				return fmt.Errorf(
					"no process serves %s, but process %d (%s) has locked it: wait until that command ends",
					c.dataDir, pid, work)
			}
			if !instance.IsLockOwner(c.dataDir, pid) {
				return fmt.Errorf("process %d does not hold the lock of %s: stop the process in its own container",
					pid, c.dataDir)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return fmt.Errorf("stop process %d: %w", pid, err)
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), wait,
				fmt.Errorf("process %d is still running after --wait of %s", pid, wait))
			defer cancel()
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				switch now, _, err := instance.LockOwner(c.dataDir); {
				case err != nil:
					return err
				case now != pid:
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "process %d has stopped\n", pid)
					return err
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-tick.C:
				}
			}
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "maximum time to wait until the process has exited")
	return cmd
}
