package main

import (
	"context"
	"fmt"
	"io"
)

// measureFootprint restarts the platform and measures its start time and memory.
func measureFootprint(ctx context.Context, b *bench, out io.Writer) error {
	engine, err := b.enginePID()
	if err != nil {
		return err
	}
	_, engineRSS, err := process(engine)
	if err != nil {
		return err
	}
	_, musterRSS, err := process(b.process.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  start to first answer, with the data of this run: %.1f s\n", b.started.Seconds())
	fmt.Fprintf(out, "  resident after the parts above: muster %d MB, engine %d MB\n", musterRSS>>20, engineRSS>>20)
	if err := b.close(); err != nil {
		return err
	}
	b.conn, b.process = nil, nil
	if err := b.up(ctx); err != nil {
		return err
	}
	if engine, err = b.enginePID(); err != nil {
		return err
	}
	if _, engineRSS, err = process(engine); err != nil {
		return err
	}
	if _, musterRSS, err = process(b.process.Process.Pid); err != nil {
		return err
	}
	fmt.Fprintf(out, "  start to first answer, again: %.1f s; resident then: muster %d MB, engine %d MB\n",
		b.started.Seconds(), musterRSS>>20, engineRSS>>20)
	return nil
}
