package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar shows the progress of long work: a bar on a terminal, a line in the log
// at the beginning and the end elsewhere.
type bar struct {
	out      io.Writer
	terminal bool
	logger   *slog.Logger

	label string
	began time.Time
	bar   *progressbar.ProgressBar
}

func newBar(out io.Writer, logger *slog.Logger) *bar {
	file, ok := out.(*os.File)
	return &bar{out: out, terminal: ok && term.IsTerminal(int(file.Fd())), logger: logger}
}

// Begin implements standalone.Progress.
func (b *bar) Begin(label string, total int64) {
	b.label, b.began = label, time.Now()
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

// Set implements standalone.Progress. A bar that cannot be drawn is no reason
// to stop the work.
func (b *bar) Set(done int64) {
	if b.bar != nil {
		_ = b.bar.Set64(done)
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
