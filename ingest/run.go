package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/checkpoint"
	"muster/ingest/internal/convert"
	"muster/ingest/internal/dedup"
	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

const progressInterval = 200 * time.Millisecond

// errDrained is the cause of stopping writes when DrainTimeout has passed.
var errDrained = errors.New("timed out waiting for broker acknowledgments")

// run is one run over a list of inputs. Readers each read one input at a time, workers decode, one
// goroutine publishes in reading order, and the publisher's lanes write to Kafka.
//
//	read -> jobs -> decode -> ordered -> publish -> onComplete
type run struct {
	cfg       Config
	deps      Deps
	meters    *metrics
	startTime time.Time
	inputs    []*input

	// callerCtx ends when the caller stops the run. readCtx ends with it, and when publishing
	// fails. writeCtx ends up to DrainTimeout after callerCtx.
	callerCtx   context.Context
	readCtx     context.Context
	stopReading context.CancelCauseFunc
	writeCtx    context.Context
	stopWriting context.CancelCauseFunc

	writer            *bus.Writer
	ownWriter         bool
	publisher         *publish.Publisher
	mapper            convert.Mapper       // nil without a mapping
	rejected          func(event.Rejected) // nil if there is no listener
	unknown           *convert.Unknown     // nil except in a dry run
	requestedErasures *suppress.Set        // erasures published by this run
	via               string               // channel through which erasures arrive: file, http or command
	jobs              chan *job
	ordered           chan *job

	current    atomic.Pointer[input] // the input opened last
	storedSize int64

	mu          sync.Mutex
	checkpoint  *checkpoint.Writer // nil without Config.StateDir
	counts      convert.CountsByKind
	readBefore  int64     // records read by earlier processes of the run
	outstanding int       // jobs published but not completed
	lastAck     time.Time // or the time of the first publish after an idle phase
	failure     error
}

// input is one input of a run.
type input struct {
	path string
	kind record.Kind
	open func(context.Context, source.Position) (source.Source, error)

	source   atomic.Pointer[source.Source] // while it is open
	consumed atomic.Int64                  // stored bytes, after it is closed
	number   int                           // index in run.inputs
	summary  FileSummary                   // Lines, Bytes, Blank, Complete and Err under run.mu
	read     source.Position               // under run.mu
	ended    bool                          // under run.mu
	queue    []*job                        // published, in order; under run.mu
}

// job is one chunk in the pipeline.
type job struct {
	input     *input
	converter *convert.Converter
	chunk     *source.Chunk
	batch     *publish.Batch
	converted chan struct{}
	counts    convert.CountsByKind
	err       error
	stored    bool // under run.mu
}

// newRun returns a run that has not started. If writer is nil, the run creates and closes its own.
// If store is not nil, unchanged and stale records are not published.
func newRun(ctx context.Context, cfg Config, deps Deps, meters *metrics, writer *bus.Writer, store *dedup.Store) *run {
	r := &run{
		cfg: cfg, deps: deps, meters: meters, callerCtx: ctx, startTime: time.Now(),
		counts: make(convert.CountsByKind), rejected: deps.Rejected,
		requestedErasures: suppress.NewSet(deps.suppressionKey()), via: "file",
	}
	r.readCtx, r.stopReading = context.WithCancelCause(ctx)
	r.writeCtx, r.stopWriting = context.WithCancelCause(context.WithoutCancel(ctx))
	r.writer, r.ownWriter = writer, writer == nil && !cfg.DryRun
	if r.ownWriter {
		r.writer = newWriter(cfg, deps)
	}
	//nolint:contextcheck // what has been read is still published after ctx has ended
	r.publisher = publish.New(r.writeCtx, r.writer, cfg.Lanes,
		publish.Options{Store: store, Republish: cfg.Republish, Whole: cfg.FullRecords, Dry: cfg.DryRun})
	r.jobs = make(chan *job, cfg.Workers)
	r.ordered = make(chan *job, 2*cfg.Workers)
	return r
}

// add appends an input of size stored bytes, or -1 if the size is not known.
func (r *run) add(
	path string,
	kind record.Kind,
	size int64,
	open func(context.Context, source.Position) (source.Source, error),
) {
	if kind == record.KindErasure {
		// Workers compare two entries of one hash while decoding, and compaction retains the one
		// published last: decode in publishing order.
		r.cfg.Workers, r.cfg.Readers = 1, 1
	}
	r.inputs = append(r.inputs,
		&input{number: len(r.inputs), path: path, kind: kind, open: open, summary: FileSummary{Path: path}})
	if size < 0 || r.storedSize < 0 {
		r.storedSize = -1
	} else {
		r.storedSize += size
	}
}

// restore resumes the run at its checkpoint and records further progress there. The inputs have been added.
func (r *run) restore(checkpoint *checkpoint.Writer) {
	if checkpoint == nil {
		return
	}
	r.checkpoint = checkpoint
	before := checkpoint.Run()
	for kind, c := range before.Counts {
		r.readBefore += c.Read
		r.counts.Add(kind, c)
	}
	for i, f := range before.Files {
		in := r.inputs[i]
		// Locations must read as before.
		in.path, in.summary.Path = f.Path, f.Path
		in.read = source.Position{Line: f.Line, Offset: f.Offset}
		in.summary.Lines, in.summary.Bytes, in.summary.Blank = f.Line, f.Offset, f.Blank
		in.summary.Complete = f.Complete
		if f.Complete {
			in.consumed.Store(f.Size)
		}
		if f.Line > 0 {
			r.deps.Logger.Info("ingest: run resumed", slog.String("run_id", before.ID),
				slog.String("path", f.Path), slog.Int64("line", f.Line), slog.Bool("complete", f.Complete))
		}
	}
}

// finish runs the pipeline and waits until all goroutines have ended.
func (r *run) finish() (Summary, error) {
	done := make(chan struct{})
	var watching, decoding, publishing sync.WaitGroup
	watching.Go(func() { r.watch(done) })
	watching.Go(func() { r.report(done) })
	for range r.cfg.Workers {
		decoding.Go(r.decode)
	}
	publishing.Go(r.publishInOrder)

	r.read()
	close(r.jobs)
	close(r.ordered)
	decoding.Wait()
	publishing.Wait()
	err := r.publisher.Close()
	close(done)
	watching.Wait()
	r.stopWriting(nil)
	r.stopReading(nil)
	if r.ownWriter {
		if closeErr := r.writer.Close(); closeErr != nil {
			r.deps.Logger.Warn("ingest: closing the Kafka writer failed", slog.Any("error", closeErr))
		}
	}
	r.deps.Progress.Finish(r.snapshot())
	s := r.summary()
	return s, r.outcome(s, err)
}

// read reads all inputs, up to Config.Readers of them concurrently, started in order.
func (r *run) read() {
	waiting := make(chan *input, len(r.inputs))
	for _, in := range r.inputs {
		waiting <- in
	}
	close(waiting)
	var readers sync.WaitGroup
	for range min(r.cfg.Readers, len(r.inputs)) {
		readers.Go(func() {
			for in := range waiting {
				if r.readCtx.Err() != nil {
					return
				}
				if in.summary.Complete {
					continue
				}
				if err := r.readInput(in); err != nil {
					r.mu.Lock()
					in.summary.Err = err
					r.mu.Unlock()
					if r.readCtx.Err() == nil {
						r.deps.Logger.Error("ingest: reading an input failed", slog.Any("error", err))
					}
				}
			}
		})
	}
	readers.Wait()
}

func (r *run) readInput(in *input) (err error) {
	s, err := in.open(r.readCtx, in.read)
	if err != nil {
		return err
	}
	in.source.Store(&s)
	r.current.Store(in)
	defer func() {
		err = errors.Join(err, s.Close())
		in.consumed.Store(s.Consumed())
		in.source.Store(nil)
	}()
	converter := convert.New(convert.Config{
		Kind: in.kind, Run: r.cfg.RunID, File: in.path, Revision: r.cfg.revision, Now: r.deps.Now,
		Mapper: r.mapper, Rejected: r.rejected, Unknown: r.unknown,
		Suppressed: r.deps.Suppressed, Requested: r.requestedErasures, Erased: r.deps.Erased, Via: r.via,
	})
	for {
		chunk, err := s.Next()
		if errors.Is(err, io.EOF) {
			r.mu.Lock()
			defer r.mu.Unlock()
			in.ended = true
			r.complete(in)
			return nil
		}
		if err != nil {
			if r.readCtx.Err() != nil {
				// Reading was stopped; the input is not at fault.
				return nil
			}
			return err
		}
		r.mu.Lock()
		in.read = chunk.End
		r.mu.Unlock()
		j := &job{input: in, converter: converter, chunk: chunk, converted: make(chan struct{})}
		j.batch = r.publisher.NewBatch(func(err error) { r.onComplete(j, err) })
		r.ordered <- j
		r.jobs <- j
	}
}

// decode converts chunks, concurrently with other workers.
func (r *run) decode() {
	for j := range r.jobs {
		j.counts, j.err = j.converter.Chunk(r.writeCtx, j.chunk, j.batch)
		close(j.converted)
	}
}

// publishInOrder publishes converted jobs in reading order.
func (r *run) publishInOrder() {
	for j := range r.ordered {
		<-j.converted
		r.mu.Lock()
		if j.err != nil && r.failure == nil {
			r.failure = j.err
			r.stopReading(j.err)
		}
		for kind, c := range j.counts {
			r.counts.Add(kind, convert.Counts{Read: c.Read, Split: c.Split})
		}
		stopped := r.failure != nil
		if !stopped {
			if r.outstanding == 0 {
				r.lastAck = time.Now()
			}
			r.outstanding++
			j.input.queue = append(j.input.queue, j)
		}
		r.mu.Unlock()
		if !stopped {
			r.publisher.Publish(j.batch)
		}
	}
}

// onComplete records the outcome of a published job.
func (r *run) onComplete(j *job, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outstanding--
	if err != nil {
		// The chunk is not released: an aborted write may still use its memory.
		return
	}
	r.lastAck = time.Now()
	j.counts.ApplyOutcomes(j.batch.Outcomes())
	for kind, c := range j.counts {
		c.Read, c.Split = 0, 0 // counted when it was read
		r.counts.Add(kind, c)
	}
	r.meters.add(j.counts)
	r.meters.blank.Add(float64(j.chunk.Blank))
	if j.input.kind == record.KindErasure && !r.cfg.DryRun {
		// Apply erasures immediately: the next comparison may run before the set's follower
		// receives them.
		j.batch.Each(event.TopicErasure,
			func(m kafka.Message) { r.checkRecorded(r.deps.Suppressed.Apply(m.Key, m.Value)) })
	}
	j.input.summary.Blank += j.chunk.Blank
	j.stored = true
	r.advance(j.input)
	j.chunk.Release()
}

// advance moves the position up to which all of an input is stored, and records it.
func (r *run) advance(in *input) {
	var blank int64
	var counts convert.CountsByKind
	for len(in.queue) > 0 && in.queue[0].stored {
		j := in.queue[0]
		in.summary.Lines, in.summary.Bytes = j.chunk.End.Line, j.chunk.End.Offset
		blank += j.chunk.Blank
		if counts == nil {
			counts = j.counts
		} else {
			for kind, c := range j.counts {
				counts.Add(kind, c)
			}
		}
		in.queue[0] = nil
		in.queue = in.queue[1:]
	}
	if counts != nil && r.checkpoint != nil {
		r.checkRecorded(r.checkpoint.Advance(in.number, in.summary.Lines, in.summary.Bytes, blank, counts))
	}
	r.complete(in)
}

// complete marks an input complete if it has been read and stored to its end.
func (r *run) complete(in *input) {
	if in.summary.Complete || !in.ended || in.summary.Lines != in.read.Line {
		return
	}
	in.summary.Complete = true
	if r.checkpoint != nil {
		r.checkRecorded(r.checkpoint.Complete(in.number))
	}
}

// checkRecorded stops the run if its progress could not be recorded.
func (r *run) checkRecorded(err error) {
	if err != nil && r.failure == nil {
		r.failure = err
		r.stopReading(err)
	}
}

// watch stops reading when publishing fails, and stops writing DrainTimeout after the caller has
// stopped the run.
func (r *run) watch(done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-r.publisher.Stopped():
		r.stopReading(publish.ErrStopped)
		return
	case <-r.callerCtx.Done():
	}
	timer := time.NewTimer(r.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		r.stopWriting(errDrained)
	}
}

// report updates the progress until the run ends.
func (r *run) report(done <-chan struct{}) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			r.deps.Progress.Update(r.snapshot())
		}
	}
}

func (r *run) snapshot() Snapshot {
	s := Snapshot{
		StoredBytes: r.stored(),
		StoredSize:  r.storedSize,
		Elapsed:     time.Since(r.startTime),
		ReadBefore:  r.readBefore,
	}
	if in := r.current.Load(); in != nil {
		s.File = in.path
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.counts {
		s.Read += c.Read
		s.Published += c.Published
		s.AlreadyPublished += c.Seen + c.Unchanged + c.Stale
		s.Rejected += c.Rejected
	}
	if r.outstanding > 0 {
		s.Stalled = time.Since(r.lastAck)
	}
	return s
}

// stored returns the number of stored bytes read.
func (r *run) stored() int64 {
	var n int64
	for _, in := range r.inputs {
		if s := in.source.Load(); s != nil {
			n += (*s).Consumed()
		} else {
			n += in.consumed.Load()
		}
	}
	return n
}

// summary returns what the run did. It is valid after the run has ended.
func (r *run) summary() Summary {
	s := Summary{Run: r.cfg.RunID, Remap: r.cfg.revision > 0, StoredBytes: r.stored(), Elapsed: time.Since(r.startTime)}
	s.Unknown, s.MoreUnknown = r.unknown.Fields()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Kinds = kindCounts(r.counts)
	for _, in := range r.inputs {
		f := in.summary
		f.Complete = f.Complete && f.Err == nil
		s.Interrupted = s.Interrupted || r.callerCtx.Err() != nil && !f.Complete
		s.Files = append(s.Files, f)
	}
	return s
}

// outcome returns the error that the run ends with.
func (r *run) outcome(s Summary, published error) error {
	var errs []error
	for _, f := range s.Files {
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	r.mu.Lock()
	errs = append(errs, r.failure)
	r.mu.Unlock()
	if published != nil {
		errs = append(errs, fmt.Errorf("publish records: %w", published))
	}
	if s.Interrupted {
		errs = append(errs, fmt.Errorf("interrupted: %w", context.Cause(r.callerCtx)))
	}
	if err := errors.Join(errs...); err != nil {
		return &ExitError{Code: ExitFailed, Err: err}
	}
	if n := s.Total().Rejected; n > 0 {
		noun := "records were"
		if n == 1 {
			noun = "record was"
		}
		return &ExitError{Code: ExitRejected, Err: fmt.Errorf("%s %s rejected", groupDigits(n), noun)}
	}
	return nil
}
