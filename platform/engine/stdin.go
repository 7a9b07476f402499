package engine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// closeStdin replaces standard input by the null device: the engine reads the rows of some INSERTs from standard
// input, as clickhouse-local does.
func closeStdin() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("engine: replace standard input: %w", err)
	}
	defer null.Close()
	if err := unix.Dup2(int(null.Fd()), 0); err != nil {
		return fmt.Errorf("engine: replace standard input: %w", err)
	}
	return nil
}
