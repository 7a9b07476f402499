package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/singleflight"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// ErrUnavailable is returned if a job cannot be stored, accepted or read at present. It is retryable.
var ErrUnavailable = errors.New("bulk jobs unavailable")

// ErrUncertain is returned if the brokers may have stored a job, but did not acknowledge it.
var ErrUncertain = errors.New("bulk job acceptance uncertain")

// source is the CloudEvents source of tasks.
const source = "/muster/query-api"

// Answerer answers rows.
type Answerer interface {
	// AnswerRows answers rows of a job in order. Rows with a Detail are answered with it. An invalid row does not
	// affect the others. The error is temporary.
	AnswerRows(ctx context.Context, job *event.BulkJob, rows []Row) ([]Answer, error)
}

// Config configures [Jobs]. Zero fields after Key are optional or take their defaults.
type Config struct {
	Bus  bus.Config
	Conn driver.Conn
	// Key encrypts the content of jobs; it has KeyBytes bytes and is the same for all replicas.
	Key []byte
	// Suppressed is the set of erased people; nil if there are none.
	Suppressed *suppress.Set
	// Charge charges the rows of an answered chunk, once. Release frees the reservations of chunks that will not be
	// answered. Nil charges and releases nothing.
	Charge  func(ctx context.Context, job *event.BulkJob, chunk int, answers []*Answer) error
	Release func(ctx context.Context, job *event.BulkJob, chunks []int) error
	// Active reports whether an organization is active; nil means always.
	Active func(organization string) bool
	// AsOf returns the time as of which the read models have every published record; nil: it is unknown.
	AsOf func() (asOf time.Time, ok bool)
	// Concurrency is the number of chunks of one partition that are answered at a time; default 2.
	Concurrency int
	// Window is the number of chunks of one job that are published and not answered; default 32.
	Window int
	// Poll is how often a running job is looked at; default 200 ms.
	Poll time.Duration
	// Stalled is how long no chunk of a job may be answered until its tasks are published again; default 5 min.
	Stalled    time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Jobs accepts and runs bulk jobs. It is safe for concurrent use. [Jobs.Run] must be running.
type Jobs struct {
	cfg    Config
	table  *table
	writer *bus.Writer
	// answering has the chunks that are being answered, by the key of their task.
	answering singleflight.Group
	rows      *prometheus.CounterVec
	jobs      *prometheus.CounterVec
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// New returns Jobs. It does not connect. The caller must call Run or Close.
func New(cfg Config) (*Jobs, error) {
	setDefault(&cfg.Concurrency, 2)
	setDefault(&cfg.Window, 32)
	setDefault(&cfg.Poll, 200*time.Millisecond)
	setDefault(&cfg.Stalled, 5*time.Minute)
	sealer, err := newSealer(cfg.Key)
	if err != nil {
		return nil, err
	}
	j := &Jobs{
		cfg: cfg,
		table: &table{
			conn: cfg.Conn, sealer: sealer, suppressed: cfg.Suppressed, inserts: make(chan insertRequest),
		},
		writer: bus.NewWriter(cfg.Bus, bus.WithWriterLogger(cfg.Logger)),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_query_api_bulk_rows_total", Help: "Rows of bulk jobs that were answered and stored, by operation.",
		}, []string{"operation"}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_query_api_bulk_jobs_total", Help: "Bulk jobs by outcome (accepted, done, failed).",
		}, []string{"outcome"}),
	}
	for _, c := range []prometheus.Collector{j.rows, j.jobs} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("bulk: register metrics: %w", err)
		}
	}
	return j, nil
}

// Close closes the connections to the brokers, after the last call.
func (j *Jobs) Close() error {
	if err := j.writer.Close(); err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	return nil
}

// uploadChunks is the number of chunks stored with one statement, at most 8 MiB of rows.
const uploadChunks = 8

// Store stores the rows of a job, before it is accepted. Storing the same job again changes nothing.
func (j *Jobs) Store(ctx context.Context, job *event.BulkJob, upload io.Reader, format Format) error {
	var pending []readmodel.BulkRow
	var rows []Row
	number := 0
	flush := func() error {
		if err := j.table.insertNow(ctx, pending); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		pending = pending[:0]
		return nil
	}
	endChunk := func() error {
		r, err := j.table.row(job, readmodel.BulkKindChunk, number, 0, chunk{Rows: rows})
		if err != nil {
			return err
		}
		r.Rows = int32(len(rows)) //nolint:gosec // at most event.BulkChunkRows
		pending, rows, number = append(pending, r), rows[:0], number+1
		if len(pending) < uploadChunks {
			return nil
		}
		return flush()
	}
	_, err := ReadRows(upload, format, job.Operation, func(r Row) error {
		if rows = append(rows, r); len(rows) < event.BulkChunkRows {
			return nil
		}
		return endChunk()
	})
	if err == nil && len(rows) > 0 {
		err = endChunk()
	}
	if err != nil {
		return err
	}
	if number != job.Chunks() {
		return fmt.Errorf("bulk job %s: %d chunks stored of %d", job.JobID, number, job.Chunks())
	}
	r, err := j.table.row(job, readmodel.BulkKindJob, jobNumber, 0, job)
	if err != nil {
		return err
	}
	pending = append(pending, r)
	return flush()
}

// acceptTimeout bounds the publication of a job.
const acceptTimeout = 10 * time.Second

// Accept publishes a stored job: when it returns nil, the job runs. Repeating it does no harm. The error may be
// [ErrUncertain].
func (j *Jobs) Accept(ctx context.Context, job *event.BulkJob) error {
	m, err := taskMessage(event.TopicBulkJobTask, event.TypeBulkJobTask, job.JobID, job.JobID,
		event.BulkJobTask{JobID: job.JobID, At: job.At})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTimeout)
	defer cancel()
	if err := bus.WriteAll(ctx, j.writer, []kafka.Message{m}); err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	j.jobs.WithLabelValues("accepted").Inc()
	return nil
}

func taskMessage(topic, kind, key, subject string, task any) (kafka.Message, error) {
	value, err := json.Marshal(task, json.Deterministic(true))
	if err != nil {
		return kafka.Message{}, fmt.Errorf("encode bulk task: %w", err)
	}
	return kafka.Message{Topic: topic, Key: []byte(key), Value: value, Headers: bus.SetEvent(nil, bus.Event{
		ID: key, Type: kind, Source: source, Subject: subject, Time: time.Now(), ContentType: "application/json",
	})}, nil
}

// Status is the state of a job.
type Status struct {
	Job *event.BulkJob
	// Status is event.BulkQueued, BulkRunning, BulkDone or BulkFailed.
	Status string
	// Done is the number of answered rows, Credits their price.
	Done    int
	Credits int64
	// AsOf is the time as of which all answers have every published record; the epoch if it is unknown.
	AsOf time.Time
	// Detail is why the job has failed.
	Detail string

	answered map[int]bool // chunks
}

// Status returns the state of a job of an organization. It returns nil if there is no such job, or it has expired.
func (j *Jobs) Status(ctx context.Context, organization, id string) (*Status, error) {
	if !event.ValidDeliveryID(id) {
		return nil, nil
	}
	s, err := j.status(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if s == nil || s.Job.OrganizationID != organization {
		return nil, nil
	}
	return s, nil
}

func (j *Jobs) status(ctx context.Context, id string) (*Status, error) {
	job, failed, err := j.table.job(ctx, id)
	if err != nil || job == nil || j.cfg.Now().Sub(job.At) > event.BulkRetention {
		return nil, err
	}
	return j.progress(ctx, job, failed)
}

// progress derives the state of a job from its chunks.
func (j *Jobs) progress(ctx context.Context, job *event.BulkJob, failed string) (*Status, error) {
	chunks, err := readmodel.ReadBulkChunks(ctx, j.table.conn, job.JobID)
	if err != nil {
		return nil, err
	}
	s := &Status{Job: job, Status: event.BulkQueued, Detail: failed, answered: make(map[int]bool, len(chunks))}
	for i := range chunks {
		if chunks[i].Version > 0 {
			s.answered[int(chunks[i].Number)] = true
			s.Done += int(chunks[i].Rows)
			s.Credits += chunks[i].Credits
			if len(s.answered) == 1 || chunks[i].AsOf.Before(s.AsOf) {
				s.AsOf = chunks[i].AsOf
			}
		}
	}
	switch {
	case s.Done == job.Rows:
		s.Status, s.Detail = event.BulkDone, ""
	case failed != "":
		s.Status = event.BulkFailed
	case j.cfg.Now().Sub(job.At) > event.BulkDeadline:
		s.Status, s.Detail = event.BulkFailed, overdue
	case s.Done > 0:
		s.Status = event.BulkRunning
	}
	return s, nil
}

// overdue is the failure of a job that takes too long.
const overdue = "the job was not finished within 24 hours: submit the rows without an answer again"

// Results calls handle with the rows of a job's answered chunks, in order, each with its answer, or nil if the answer
// was deleted because a person in it was erased. It reads one chunk at a time.
func (j *Jobs) Results(ctx context.Context, s *Status, handle func(number int, row Row, answer *Answer) error) error {
	for number := range s.Job.Chunks() {
		if !s.answered[number] {
			continue
		}
		rows, _, err := j.table.chunk(ctx, s.Job.JobID, number)
		first, end := s.Job.ChunkRows(number)
		var answers map[int]*Answer
		if err == nil {
			answers, err = j.table.answers(ctx, s.Job.JobID, first, end)
		}
		if err == nil && len(rows) != end-first {
			err = fmt.Errorf("bulk job %s: chunk %d has %d rows", s.Job.JobID, number, len(rows))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		for i, row := range rows {
			if err := handle(first+i, row, answers[first+i]); err != nil {
				return err
			}
		}
	}
	return nil
}
