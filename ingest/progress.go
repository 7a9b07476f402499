package ingest

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"

	"muster/ingest/internal/source"
	"muster/platform/console"
)

// Snapshot is the state of a run at one time.
type Snapshot struct {
	// File is the input being read.
	File string
	// StoredBytes is the number of bytes read, before decompression, and StoredSize the total, or
	// -1 if it is not known.
	StoredBytes, StoredSize int64
	// Read, Published, AlreadyPublished and Rejected count records; the last three include extracted records.
	// AlreadyPublished counts seen, unchanged and stale ones.
	Read, Published, AlreadyPublished, Rejected int64
	// ReadBefore is the part of Read that was read before the run was resumed.
	ReadBefore int64
	// Elapsed is the time since the run started.
	Elapsed time.Duration
	// Stalled is how long the brokers have acknowledged nothing while acknowledgments are
	// outstanding.
	Stalled time.Duration
}

// Progress displays the progress of a run. Files calls it from one goroutine at a time: Update
// several times a second, and Finish once, at the end.
type Progress interface {
	Update(Snapshot)
	Finish(Snapshot)
}

// NewProgress returns a progress bar if out is a terminal, or else log lines every 5 s.
func NewProgress(out *os.File, logger *slog.Logger) Progress {
	if console.IsTerminal(out) {
		return NewBar(out)
	}
	return NewLog(logger, 5*time.Second)
}

// noProgress discards progress.
type noProgress struct{}

func (noProgress) Update(Snapshot) {}
func (noProgress) Finish(Snapshot) {}

// Bar displays progress on a terminal: bytes read, rate, rejected records and remaining time.
type Bar struct {
	out io.Writer
	bar *progressbar.ProgressBar
}

// NewBar returns a progress bar that writes to out.
func NewBar(out io.Writer) *Bar { return &Bar{out: out} }

// Update implements [Progress].
func (b *Bar) Update(s Snapshot) { b.draw(s) }

// Finish implements [Progress].
func (b *Bar) Finish(s Snapshot) {
	b.draw(s)
	// Exit leaves the bar as it is; Finish would fill it. Errors of the terminal do not matter.
	_ = b.bar.Exit()
	_, _ = fmt.Fprintln(b.out)
}

func (b *Bar) draw(s Snapshot) {
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(s.StoredSize,
			progressbar.OptionSetWriter(b.out),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetSpinnerChangeInterval(0), // otherwise it draws in a goroutine that is never joined
			progressbar.OptionSetWidth(20),
			progressbar.OptionSetRenderBlankState(true),
			progressbar.OptionUseANSICodes(true),
		)
	}
	b.bar.Describe(b.describe(s))
	read := s.StoredBytes
	if s.StoredSize >= 0 {
		// A file may grow.
		read = min(read, s.StoredSize)
	}
	_ = b.bar.Set64(read)
}

func (b *Bar) describe(s Snapshot) string {
	name := filepath.Base(s.File)
	if s.File == source.Stdin {
		name = "standard input"
	}
	text := fmt.Sprintf("%s %s records, %s/s", console.Text(console.Line(name)), groupDigits(s.Read),
		groupDigits(s.perSecond()))
	if s.Rejected > 0 {
		text += fmt.Sprintf(", %s rejected", groupDigits(s.Rejected))
	}
	if s.Stalled >= minReportedStall {
		text += fmt.Sprintf(", waiting for Kafka %s", s.Stalled.Round(time.Second))
	}
	return text
}

// minReportedStall is the shortest stall that is reported.
const minReportedStall = 3 * time.Second

// perSecond returns the average rate since the run started or was resumed. The rate of the last
// second would jump with each acknowledged batch.
func (s Snapshot) perSecond() int64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return int64(float64(s.Read-s.ReadBefore) / s.Elapsed.Seconds())
}

// Log logs progress at an interval.
type Log struct {
	logger   *slog.Logger
	interval time.Duration
	next     time.Duration
}

// NewLog returns a Progress that logs once per interval.
func NewLog(logger *slog.Logger, interval time.Duration) *Log {
	return &Log{logger: logger, interval: interval, next: interval}
}

// Update implements [Progress].
func (l *Log) Update(s Snapshot) {
	if s.Elapsed < l.next {
		return
	}
	l.next = s.Elapsed + l.interval
	attrs := []any{
		slog.String("path", s.File), slog.Int64("stored_bytes", s.StoredBytes),
		slog.Int64("read", s.Read), slog.Int64("published", s.Published), slog.Int64("known", s.AlreadyPublished),
		slog.Int64("rejected", s.Rejected), slog.Int64("records_per_second", s.perSecond()),
	}
	if s.StoredSize > 0 && s.StoredBytes > 0 {
		left := time.Duration(float64(s.Elapsed) * float64(s.StoredSize-s.StoredBytes) / float64(s.StoredBytes))
		attrs = append(attrs, slog.Int64("stored_size", s.StoredSize),
			slog.String("remaining", max(left, 0).Round(time.Second).String()))
	}
	if s.Stalled >= minReportedStall {
		attrs = append(attrs, slog.String("stalled", s.Stalled.Round(time.Second).String()))
		l.logger.Warn("ingest: waiting for Kafka", attrs...)
		return
	}
	l.logger.Info("ingest: progress", attrs...)
}

// Finish implements [Progress]. It logs nothing: the summary has the final counts.
func (l *Log) Finish(Snapshot) {}
