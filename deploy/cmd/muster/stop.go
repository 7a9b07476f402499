package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"muster/deploy/standalone"
)

func (c *command) stopCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the muster up, or muster engine, of the data folder, in order",
		Long: `Asks the process that has locked the data folder to stop, as Ctrl-C does, and returns when it has ended. Whoever
starts it again by itself, such as systemd, is to be told instead. What runs in a container is stopped from within it.

Exit status: 0 nothing serves from the folder any more, or did; 2 it could not be stopped, --wait passed, or other work
has the folder, such as a backup, a restore or "erase foreign", which is left to end.`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pid, work, err := standalone.Holder(c.dataDir)
			if err != nil {
				return err
			}
			if pid == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "nothing serves from %s\n", c.dataDir)
				return err
			}
			if work != "" {
				return fmt.Errorf("nothing serves from %s, but process %d (%s) has it: it ends by itself, and is not stopped half way", c.dataDir, pid, work)
			}
			if !standalone.Holds(c.dataDir, pid) {
				return fmt.Errorf("process %d here is not the one that has locked %s: stop it in its own container", pid, c.dataDir)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return fmt.Errorf("stop process %d: %w", pid, err)
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), wait, fmt.Errorf("process %d still runs after --wait of %s", pid, wait))
			defer cancel()
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				switch now, _, err := standalone.Holder(c.dataDir); {
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
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait until it has ended")
	return cmd
}
