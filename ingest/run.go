package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/publish"
	"muster/ingest/internal/runstate"
	"muster/ingest/internal/source"
	"muster/ingest/internal/versions"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

const progressInterval = 200 * time.Millisecond

// errDrained ends writing when an interrupted run has waited long enough.
var errDrained = errors.New("the brokers did not acknowledge in time")

// run is one run over a list of inputs: some goroutines read, each one input at a
// time, several decode, one hands over in the order of reading, and the
// publisher's lanes write.
//
//	read -> jobs -> decode -> ordered -> publish -> settled
type run struct {
	cfg    Config
	deps   Deps
	meters *metrics
	began  time.Time
	inputs []*input

	// asked ends when the run's caller wants it to stop. reading ends with it,
	// and when publishing has failed. writing ends some time after asked.
	asked       context.Context
	reading     context.Context
	stopReading context.CancelCauseFunc
	writing     context.Context
	stopWriting context.CancelCauseFunc

	writer    *bus.Writer
	ownWriter bool
	publisher *publish.Publisher
	mapper    convert.Mapper       // nil without a mapping
	rejected  func(event.Rejected) // nil if nobody wants to know
	unknown   *convert.Unknown     // nil but in a dry run
	askedFor  *suppress.Set        // erasures of this run
	via       string               // the way in of erasures
	jobs      chan *job
	ordered   chan *job

	current    atomic.Pointer[input] // the one opened last
	storedSize int64

	mu          sync.Mutex
	handle      *runstate.Handle // nil when nothing is kept
	tally       convert.Tally
	readBefore  int64     // records that earlier processes of the run have read
	outstanding int       // jobs handed over and not settled
	lastAck     time.Time // or when the first of the outstanding was handed over
	failure     error
}

// input is one input of a run.
type input struct {
	path string
	kind record.Kind
	open func(context.Context, source.Position) (source.Source, error)

	source  atomic.Pointer[source.Source] // while it is open
	taken   atomic.Int64                  // stored bytes, once it is closed
	number  int                           // among the run's inputs
	summary FileSummary                   // Lines, Bytes, Blank, Complete and Err under run.mu
	read    source.Position               // under run.mu
	ended   bool                          // under run.mu
	queue   []*job                        // handed over, in order; under run.mu
}

// job is one chunk on its way.
type job struct {
	input     *input
	converter *convert.Converter
	chunk     *source.Chunk
	batch     *publish.Batch
	converted chan struct{}
	tally     convert.Tally
	err       error
	stored    bool // under run.mu
}

// newRun begins a run. It writes with the given writer, or with one of its own
// if that is nil. What is known of identities, if not nil, is left out.
func newRun(ctx context.Context, cfg Config, deps Deps, meters *metrics, writer *bus.Writer, known *versions.Store) *run {
	r := &run{
		cfg: cfg, deps: deps, meters: meters, asked: ctx, began: time.Now(), tally: make(convert.Tally), rejected: deps.Rejected,
		askedFor: suppress.NewSet(deps.suppressionKey()), via: "file",
	}
	r.reading, r.stopReading = context.WithCancelCause(ctx)
	r.writing, r.stopWriting = context.WithCancelCause(context.WithoutCancel(ctx))
	r.writer, r.ownWriter = writer, writer == nil && !cfg.DryRun
	if r.ownWriter {
		r.writer = newWriter(cfg, deps)
	}
	//nolint:contextcheck // what has been read is still published after ctx has ended
	r.publisher = publish.New(r.writing, r.writer, cfg.Lanes, publish.Options{Versions: known, Again: cfg.Again, Whole: cfg.Whole, Dry: cfg.DryRun})
	r.jobs = make(chan *job, cfg.Workers)
	r.ordered = make(chan *job, 2*cfg.Workers)
	return r
}

// add appends an input of a number of stored bytes, -1 if that is not known.
func (r *run) add(path string, kind record.Kind, size int64, open func(context.Context, source.Position) (source.Source, error)) {
	if kind == record.KindErasure {
		// Which of two entries of a hash is the newer is said when they are decoded, and compaction
		// keeps the one that is published last: they are decoded in the order of publishing.
		r.cfg.Workers, r.cfg.Readers = 1, 1
	}
	r.inputs = append(r.inputs, &input{number: len(r.inputs), path: path, kind: kind, open: open, summary: FileSummary{Path: path}})
	if size < 0 || r.storedSize < 0 {
		r.storedSize = -1
	} else {
		r.storedSize += size
	}
}

// keep makes the run go on where it stopped, and note how far it comes. The
// inputs are added.
func (r *run) keep(handle *runstate.Handle) {
	if handle == nil {
		return
	}
	r.handle = handle
	before := handle.Run()
	for kind, c := range before.Counts {
		r.readBefore += c.Read
		r.tally.Add(kind, c)
	}
	for i, f := range before.Files {
		in := r.inputs[i]
		in.path, in.summary.Path = f.Path, f.Path // places read as they did before
		in.read = source.Position{Line: f.Line, Offset: f.Offset}
		in.summary.Lines, in.summary.Bytes, in.summary.Blank, in.summary.Complete = f.Line, f.Offset, f.Blank, f.Complete
		if f.Complete {
			in.taken.Store(f.Size)
		}
		if f.Line > 0 {
			r.deps.Logger.Info("the run goes on where it stopped", "run", before.ID, "file", f.Path, "line", f.Line, "complete", f.Complete)
		}
	}
}

// finish runs everything and waits until all of it has ended.
func (r *run) finish() (Summary, error) {
	over := make(chan struct{})
	var watching, decoding, handing sync.WaitGroup
	watching.Go(func() { r.watch(over) })
	watching.Go(func() { r.report(over) })
	for range r.cfg.Workers {
		decoding.Go(r.decode)
	}
	handing.Go(r.handOver)

	r.read()
	close(r.jobs)
	close(r.ordered)
	decoding.Wait()
	handing.Wait()
	err := r.publisher.Close()
	close(over)
	watching.Wait()
	r.stopWriting(nil)
	r.stopReading(nil)
	if r.ownWriter {
		if closeErr := r.writer.Close(); closeErr != nil {
			r.deps.Logger.Warn("close the Kafka writer", "error", closeErr)
		}
	}
	r.deps.Progress.Finish(r.snapshot())
	s := r.summary()
	return s, r.outcome(s, err)
}

// read reads all inputs, some of them beside one another, begun in their order.
func (r *run) read() {
	waiting := make(chan *input, len(r.inputs))
	for _, in := range r.inputs {
		waiting <- in
	}
	close(waiting)
	var reading sync.WaitGroup
	for range min(r.cfg.Readers, len(r.inputs)) {
		reading.Go(func() {
			for in := range waiting {
				if r.reading.Err() != nil {
					return
				}
				if in.summary.Complete {
					continue
				}
				if err := r.readInput(in); err != nil {
					r.mu.Lock()
					in.summary.Err = err
					r.mu.Unlock()
					if r.reading.Err() == nil {
						r.deps.Logger.Error("input could not be read to its end", "error", err)
					}
				}
			}
		})
	}
	reading.Wait()
}

func (r *run) readInput(in *input) (err error) {
	s, err := in.open(r.reading, in.read)
	if err != nil {
		return err
	}
	in.source.Store(&s)
	r.current.Store(in)
	defer func() {
		err = errors.Join(err, s.Close())
		in.taken.Store(s.Consumed())
		in.source.Store(nil)
	}()
	converter := convert.New(convert.Config{
		Kind: in.kind, Run: r.cfg.RunID, File: in.path, Revision: r.cfg.revision, Now: r.deps.Now, Mapper: r.mapper, Rejected: r.rejected, Unknown: r.unknown,
		Suppressed: r.deps.Suppressed, Asked: r.askedFor, Erased: r.deps.Erased, Via: r.via,
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
			if r.reading.Err() != nil {
				return nil // the reading was stopped, nothing is wrong with the input
			}
			return err
		}
		r.mu.Lock()
		in.read = chunk.End
		r.mu.Unlock()
		j := &job{input: in, converter: converter, chunk: chunk, converted: make(chan struct{})}
		j.batch = r.publisher.NewBatch(func(err error) { r.settled(j, err) })
		r.ordered <- j
		r.jobs <- j
	}
}

// decode converts chunks, beside other goroutines that do.
func (r *run) decode() {
	for j := range r.jobs {
		j.tally, j.err = j.converter.Chunk(r.writing, j.chunk, j.batch)
		close(j.converted)
	}
}

// handOver publishes what is converted, in the order of reading.
func (r *run) handOver() {
	for j := range r.ordered {
		<-j.converted
		r.mu.Lock()
		if j.err != nil && r.failure == nil {
			r.failure = j.err
			r.stopReading(j.err)
		}
		for kind, c := range j.tally {
			r.tally.Add(kind, convert.Counts{Read: c.Read, Split: c.Split})
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

// settled takes the publisher's word about a chunk.
func (r *run) settled(j *job, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outstanding--
	if err != nil {
		// Its memory is not given back: a write that was cut off may still
		// use it.
		return
	}
	r.lastAck = time.Now()
	j.tally.Settle(j.batch.Outcomes())
	for kind, c := range j.tally {
		c.Read, c.Split = 0, 0 // counted when it was read
		r.tally.Add(kind, c)
	}
	r.meters.add(j.tally)
	r.meters.blank.Add(float64(j.chunk.Blank))
	if j.input.kind == record.KindErasure && !r.cfg.DryRun {
		// Whoever compares next may be faster than who follows the topic.
		j.batch.Each(event.TopicErasure, func(m kafka.Message) { r.noted(r.deps.Suppressed.Apply(m.Key, m.Value)) })
	}
	j.input.summary.Blank += j.chunk.Blank
	j.stored = true
	r.advance(j.input)
	j.chunk.Release()
}

// advance moves the place up to which all of an input is stored, and notes it.
func (r *run) advance(in *input) {
	var blank int64
	var tally convert.Tally
	for len(in.queue) > 0 && in.queue[0].stored {
		j := in.queue[0]
		in.summary.Lines, in.summary.Bytes = j.chunk.End.Line, j.chunk.End.Offset
		blank += j.chunk.Blank
		if tally == nil {
			tally = j.tally
		} else {
			for kind, c := range j.tally {
				tally.Add(kind, c)
			}
		}
		in.queue[0] = nil
		in.queue = in.queue[1:]
	}
	if tally != nil && r.handle != nil {
		r.noted(r.handle.Advance(in.number, in.summary.Lines, in.summary.Bytes, blank, tally))
	}
	r.complete(in)
}

// complete notes that an input is stored to its end, when it is.
func (r *run) complete(in *input) {
	if in.summary.Complete || !in.ended || in.summary.Lines != in.read.Line {
		return
	}
	in.summary.Complete = true
	if r.handle != nil {
		r.noted(r.handle.Complete(in.number))
	}
}

// noted stops the run when what it did cannot be noted.
func (r *run) noted(err error) {
	if err != nil && r.failure == nil {
		r.failure = err
		r.stopReading(err)
	}
}

// watch ends reading when publishing has failed, and writing when the run was
// asked to stop and its time to do so is over.
func (r *run) watch(over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-r.publisher.Stopped():
		r.stopReading(publish.ErrStopped)
		return
	case <-r.asked.Done():
	}
	timer := time.NewTimer(r.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		r.stopWriting(errDrained)
	}
}

// report tells the progress until the run is over.
func (r *run) report(over <-chan struct{}) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
			r.deps.Progress.Update(r.snapshot())
		}
	}
}

func (r *run) snapshot() Snapshot {
	s := Snapshot{StoredBytes: r.stored(), StoredSize: r.storedSize, Elapsed: time.Since(r.began), ReadBefore: r.readBefore}
	if in := r.current.Load(); in != nil {
		s.File = in.path
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.tally {
		s.Read += c.Read
		s.Published += c.Published
		s.Known += c.Seen + c.Unchanged + c.Stale
		s.Rejected += c.Rejected
	}
	if r.outstanding > 0 {
		s.Stalled = time.Since(r.lastAck)
	}
	return s
}

// stored is the number of stored bytes read.
func (r *run) stored() int64 {
	var n int64
	for _, in := range r.inputs {
		if s := in.source.Load(); s != nil {
			n += (*s).Consumed()
		} else {
			n += in.taken.Load()
		}
	}
	return n
}

// summary says what the run did, once it is over.
func (r *run) summary() Summary {
	s := Summary{Run: r.cfg.RunID, Remap: r.cfg.revision > 0, StoredBytes: r.stored(), Elapsed: time.Since(r.began)}
	s.Unknown, s.MoreUnknown = r.unknown.Members()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Kinds = kindCounts(r.tally)
	for _, in := range r.inputs {
		f := in.summary
		f.Complete = f.Complete && f.Err == nil
		s.Interrupted = s.Interrupted || r.asked.Err() != nil && !f.Complete
		s.Files = append(s.Files, f)
	}
	return s
}

// outcome is the error that the run ends with.
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
		errs = append(errs, fmt.Errorf("interrupted: %w", context.Cause(r.asked)))
	}
	if err := errors.Join(errs...); err != nil {
		return &ExitError{Code: ExitFailed, Err: err}
	}
	if n := s.Total().Rejected; n > 0 {
		noun := "records were"
		if n == 1 {
			noun = "record was"
		}
		return &ExitError{Code: ExitRejected, Err: fmt.Errorf("%s %s rejected", grouped(n), noun)}
	}
	return nil
}
