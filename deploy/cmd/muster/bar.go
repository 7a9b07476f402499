package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"

	"muster/platform/console"
)

// bar shows the progress of long work: a progress bar on a terminal, else log lines.
type bar struct {
	out      io.Writer
	terminal bool
	logger   *slog.Logger

	label  string
	total  int64
	began  time.Time
	logged time.Time // time of the last log line
	bar    *progressbar.ProgressBar
}

// progressLogInterval is the interval of progress lines in a log.
const progressLogInterval = 10 * time.Second

func newBar(out io.Writer, logger *slog.Logger) *bar {
	return &bar{out: out, terminal: console.IsTerminal(out), logger: logger}
}

// Begin implements standalone.Progress.
func (b *bar) Begin(label string, total int64) {
	b.label, b.total, b.began = label, total, time.Now()
	b.logged = b.began
	if !b.terminal {
		b.logger.Info(label)
		return
	}
	b.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(b.out),
		progressbar.OptionSetDescription(label),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionOnCompletion(func() {}),
	)
}

// Set implements standalone.Progress. Drawing errors are ignored.
func (b *bar) Set(done int64) {
	if b.bar != nil {
		_ = b.bar.Set64(done)
		return
	}
	if now := time.Now(); b.total > 0 && done > 0 && now.Sub(b.logged) >= progressLogInterval {
		b.logged = now
		passed := now.Sub(b.began)
		left := time.Duration(float64(passed) * float64(max(0, b.total-done)) / float64(done))
		b.logger.Info(b.label, "done", done, "of", b.total, "seconds_left", int(left.Seconds()))
	}
}

// End implements standalone.Progress.
func (b *bar) End() {
	if b.bar != nil {
		_ = b.bar.Finish()
		_, _ = io.WriteString(b.out, "\n")
		b.bar = nil
		return
	}
	b.logger.Info(b.label+": done", "seconds", time.Since(b.began).Seconds())
}
