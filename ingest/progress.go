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

// Snapshot is how a run stands.
type Snapshot struct {
	// File is the input that is being read.
	File string
	// StoredBytes is how much has been read, compressed as it is, and StoredSize
	// how much there is, or -1 when that is not known.
	StoredBytes, StoredSize int64
	// Read, Published, Known and Rejected count records, those split off included
	// in the latter three. Known ones were published before: seen, unchanged and
	// stale ones.
	Read, Published, Known, Rejected int64
	// ReadBefore is how many of Read were read before the run was resumed.
	ReadBefore int64
	// Elapsed is the time since the run began.
	Elapsed time.Duration
	// Stalled is for how long the brokers have not acknowledged anything, while
	// there is something to acknowledge.
	Stalled time.Duration
}

// Progress shows how a run goes on. Files calls it from one goroutine at a time:
// Update several times a second, and Finish once, at the end.
type Progress interface {
	Update(Snapshot)
	Finish(Snapshot)
}

// NewProgress returns a progress bar when out is a terminal, and otherwise lines
// in the log.
func NewProgress(out *os.File, logger *slog.Logger) Progress {
	if console.IsTerminal(out) {
		return NewBar(out)
	}
	return NewLog(logger, 5*time.Second)
}

// silent is no progress.
type silent struct{}

func (silent) Update(Snapshot) {}
func (silent) Finish(Snapshot) {}

// Bar shows progress on a terminal: how much of the stored bytes is read, how
// fast, what was rejected, and how long it will still take.
type Bar struct {
	out io.Writer
	bar *progressbar.ProgressBar
}

// NewBar returns a progress bar that is drawn on out.
func NewBar(out io.Writer) *Bar { return &Bar{out: out} }

// Update implements [Progress].
func (b *Bar) Update(s Snapshot) { b.draw(s) }

// Finish implements [Progress].
func (b *Bar) Finish(s Snapshot) {
	b.draw(s)
	// Exit leaves the bar as it is, full or not, and Finish would fill it. What
	// fails here is drawing on the terminal, which nothing depends on.
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
			progressbar.OptionSetSpinnerChangeInterval(0), // else it draws in a goroutine nobody waits for
			progressbar.OptionSetWidth(20),
			progressbar.OptionSetRenderBlankState(true),
			progressbar.OptionUseANSICodes(true),
		)
	}
	b.bar.Describe(b.describe(s))
	read := s.StoredBytes
	if s.StoredSize >= 0 {
		read = min(read, s.StoredSize) // a file may grow
	}
	_ = b.bar.Set64(read)
}

func (b *Bar) describe(s Snapshot) string {
	name := filepath.Base(s.File)
	if s.File == source.Stdin {
		name = "standard input"
	}
	text := fmt.Sprintf("%s %s records, %s/s", console.Text(console.Line(name)), grouped(s.Read), grouped(s.perSecond()))
	if s.Rejected > 0 {
		text += fmt.Sprintf(", %s rejected", grouped(s.Rejected))
	}
	if s.Stalled >= stallReported {
		text += fmt.Sprintf(", waiting for Kafka %s", s.Stalled.Round(time.Second))
	}
	return text
}

// stallReported is how long the brokers may be silent before it is mentioned.
const stallReported = 3 * time.Second

// perSecond returns the records read since the run began or was resumed, divided by the time since then. A rate of the last second
// jumps with the batches that the brokers acknowledge.
func (s Snapshot) perSecond() int64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return int64(float64(s.Read-s.ReadBefore) / s.Elapsed.Seconds())
}

// Log reports progress in the log, every so often.
type Log struct {
	logger *slog.Logger
	every  time.Duration
	next   time.Duration
}

// NewLog returns a Progress that logs a line whenever so much time has passed.
func NewLog(logger *slog.Logger, every time.Duration) *Log {
	return &Log{logger: logger, every: every, next: every}
}

// Update implements [Progress].
func (l *Log) Update(s Snapshot) {
	if s.Elapsed < l.next {
		return
	}
	l.next = s.Elapsed + l.every
	args := []any{
		"file", s.File, "stored_bytes", s.StoredBytes,
		"read", s.Read, "published", s.Published, "known", s.Known, "rejected", s.Rejected, "records_per_second", s.perSecond(),
	}
	if s.StoredSize > 0 && s.StoredBytes > 0 {
		left := time.Duration(float64(s.Elapsed) * float64(s.StoredSize-s.StoredBytes) / float64(s.StoredBytes))
		args = append(args, "stored_size", s.StoredSize, "remaining", max(left, 0).Round(time.Second).String())
	}
	if s.Stalled >= stallReported {
		l.logger.Warn("ingest waits for Kafka", append(args, "stalled", s.Stalled.Round(time.Second).String())...)
		return
	}
	l.logger.Info("ingest", args...)
}

// Finish implements [Progress]. The summary of the run says it all.
func (l *Log) Finish(Snapshot) {}
