package bulk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Consumer groups of jobs and of their chunks.
const (
	JobGroup   = "muster.query-api.bulk"
	ChunkGroup = "muster.query-api.bulk-chunks"
)

const (
	// maxRunning is the number of jobs of one partition that run at a time; more are queued.
	maxRunning = 32
	// retryDelay is the pause before a task is tried again.
	retryDelay = time.Second
	// stopTimeout is how long handlers may take to stop.
	stopTimeout = 3 * time.Second
)

// Run runs jobs until ctx ends.
func (j *Jobs) Run(ctx context.Context, answerer Answerer) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: stopTimeout}, bus.RouterLogger(ctx, j.cfg.Logger))
	if err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	for _, c := range []struct {
		name, group, topic string
		inFlight           int
		handle             message.NoPublishHandlerFunc
	}{
		{"bulk", JobGroup, event.TopicBulkJobTask, maxRunning,
			func(m *message.Message) error { return j.runJob(m, ctx.Done()) }}, //nolint:contextcheck // the message has it
		{"bulk-chunks", ChunkGroup, event.TopicBulkChunkTask, j.cfg.Concurrency,
			func(m *message.Message) error { return j.answerChunk(m, answerer) }}, //nolint:contextcheck // the message has it
	} {
		subscriber, err := bus.NewSubscriber(bus.SubscriberConfig{
			Config: j.cfg.Bus, Group: c.group, MaxInFlight: c.inFlight, NackDelay: retryDelay, Logger: j.cfg.Logger,
		})
		if err != nil {
			return fmt.Errorf("bulk: %w", err)
		}
		router.AddConsumerHandler(c.name, c.topic, subscriber, c.handle).AddMiddleware(middleware.Recoverer,
			j.logErrors(ctx, c.name))
	}
	inserting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var inserts sync.WaitGroup
	inserts.Go(func() { j.table.runInserts(inserting) })
	defer inserts.Wait()
	defer stop()
	if err := router.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("bulk: %w", err)
	}
	return nil
}

// logErrors logs the errors of a handler, which is called again, until ctx ends.
func (j *Jobs) logErrors(ctx context.Context, name string) message.HandlerMiddleware {
	return func(handle message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			out, err := handle(m)
			if err != nil && m.Context().Err() == nil && ctx.Err() == nil {
				//nolint:contextcheck // the message has it
				j.cfg.Logger.LogAttrs(m.Context(), slog.LevelWarn, "bulk: task failed, will retry",
					slog.String("handler", name), slog.Any("error", err))
			}
			return out, err
		}
	}
}

// runJob publishes the chunks of a job, a window at a time, until all are answered. It then publishes the webhook.
// When stop is closed, it leaves the job to another process.
func (j *Jobs) runJob(m *message.Message, stop <-chan struct{}) error {
	ctx := m.Context()
	var task event.BulkJobTask
	if err := decode(m.Payload, &task); err != nil {
		j.cfg.Logger.WarnContext(ctx, "bulk: invalid job task skipped", slog.Any("error", err))
		return nil
	}
	job, failed, err := j.find(ctx, task.JobID, task.At)
	if err != nil || job == nil {
		return err
	}
	published := make(map[int]bool) // and not answered
	ticker := time.NewTicker(j.cfg.Poll)
	defer ticker.Stop()
	for moved, done := j.cfg.Now(), -1; ; {
		s, err := j.progress(ctx, job, failed)
		if err != nil {
			return err
		}
		switch {
		case s.Status == event.BulkDone || s.Status == event.BulkFailed:
			return j.finish(ctx, s)
		case !j.isActive(job):
			failed = "the organization was deactivated"
			if err := j.fail(ctx, job, failed); err != nil {
				return err
			}
			continue
		}
		if s.Done != done {
			moved, done = j.cfg.Now(), s.Done
		} else if j.cfg.Now().Sub(moved) > j.cfg.Stalled {
			j.cfg.Logger.WarnContext(ctx, "bulk: no chunk was answered, publishing them again",
				slog.String("job_id", job.JobID), slog.Int("rows_done", s.Done))
			clear(published)
			moved = j.cfg.Now()
		}
		if err := j.publishChunks(ctx, s, published); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-stop:
			return errStopping
		case <-ctx.Done():
			return fmt.Errorf("bulk job %s: %w", job.JobID, context.Cause(ctx))
		}
	}
}

// errStopping leaves a job to another process.
var errStopping = errors.New("service is stopping")

func (j *Jobs) isActive(job *event.BulkJob) bool {
	return j.cfg.Active == nil || j.cfg.Active(job.OrganizationID)
}

// find returns the job of a task, nil if it has expired.
func (j *Jobs) find(ctx context.Context, id string, at time.Time) (*event.BulkJob, string, error) {
	job, failed, err := j.table.job(ctx, id)
	switch {
	case j.cfg.Now().Sub(at) > event.BulkRetention:
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case job == nil && j.cfg.Now().Sub(at) > event.BulkDeadline:
		j.cfg.Logger.ErrorContext(ctx, "bulk: job is not in its table, skipped", slog.String("job_id", id))
		return nil, "", nil
	case job == nil:
		return nil, "", fmt.Errorf("bulk job %s is not in its table yet", id)
	}
	return job, failed, nil
}

// publishChunks publishes the next chunks, so that a window of them is to be answered.
func (j *Jobs) publishChunks(ctx context.Context, s *Status, published map[int]bool) error {
	for number := range published {
		if s.answered[number] {
			delete(published, number)
		}
	}
	var messages []kafka.Message
	for number := range s.Job.Chunks() {
		if len(published) >= j.cfg.Window {
			break
		}
		if s.answered[number] || published[number] {
			continue
		}
		task := event.BulkChunkTask{JobID: s.Job.JobID, At: s.Job.At, Chunk: number}
		m, err := taskMessage(event.TopicBulkChunkTask, event.TypeBulkChunkTask, task.Key(), s.Job.JobID, task)
		if err != nil {
			return err
		}
		published[number] = true
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil
	}
	if err := bus.WriteAll(ctx, j.writer, messages); err != nil {
		return fmt.Errorf("publish chunks of bulk job %s: %w", s.Job.JobID, err)
	}
	return nil
}

// fail stores that a job has failed.
func (j *Jobs) fail(ctx context.Context, job *event.BulkJob, detail string) error {
	r, err := j.table.row(job, readmodel.BulkKindJob, failureNumber, finished(j.cfg.Now()), failure{Detail: detail})
	if err != nil {
		return err
	}
	return j.table.insert(ctx, []readmodel.BulkRow{r})
}

// finish releases what a failed job has reserved, and publishes the webhook.
func (j *Jobs) finish(ctx context.Context, s *Status) error {
	if s.Status == event.BulkFailed && j.cfg.Release != nil {
		var open []int
		for number := range s.Job.Chunks() {
			if !s.answered[number] {
				open = append(open, number)
			}
		}
		if err := j.cfg.Release(ctx, s.Job, open); err != nil {
			return err
		}
	}
	if err := j.deliver(ctx, s); err != nil {
		return err
	}
	j.jobs.WithLabelValues(s.Status).Inc()
	return nil
}

// deliver hands the status of a finished job to the webhook-sender, which delivers a job once.
func (j *Jobs) deliver(ctx context.Context, s *Status) error {
	if s.Job.WebhookURL == "" || !j.isActive(s.Job) {
		return nil
	}
	body, err := json.Marshal(s.Public(), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode webhook of bulk job %s: %w", s.Job.JobID, err)
	}
	task := event.WebhookTask{
		DeliveryID: s.Job.JobID, OrganizationID: s.Job.OrganizationID, URL: s.Job.WebhookURL, RequestID: s.Job.JobID,
		Body: body, CreatedAt: j.cfg.Now().UTC(),
	}
	key, id, value, err := task.Message()
	// The address was valid when the job was accepted and will not change.
	if err != nil {
		j.cfg.Logger.ErrorContext(ctx, "bulk: job cannot be delivered", slog.String("job_id", s.Job.JobID),
			slog.Any("error", err))
		return nil
	}
	return bus.WriteAll(ctx, j.writer, []kafka.Message{{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value, Headers: bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: source, Subject: task.DeliveryID, Time: task.CreatedAt,
			ContentType: "application/json",
		}),
	}})
}

// answerChunk answers the rows of a chunk, stores the answers and charges them.
func (j *Jobs) answerChunk(m *message.Message, answerer Answerer) error {
	ctx := m.Context()
	var task event.BulkChunkTask
	if err := decode(m.Payload, &task); err != nil {
		j.cfg.Logger.WarnContext(ctx, "bulk: invalid chunk task skipped", slog.Any("error", err))
		return nil
	}
	// A chunk may be published twice, as after a restart. Both messages are in one partition, and so in this process:
	// their charges must not overlap (metering.Meter.ChargeHold).
	_, err, _ := j.answering.Do(task.Key(), func() (any, error) { return nil, j.answer(ctx, task, answerer) })
	return err
}

func (j *Jobs) answer(ctx context.Context, task event.BulkChunkTask, answerer Answerer) error {
	job, failed, err := j.find(ctx, task.JobID, task.At)
	if err != nil || job == nil {
		return err
	}
	if failed != "" || task.Chunk >= job.Chunks() || j.cfg.Now().Sub(job.At) > event.BulkDeadline || !j.isActive(job) {
		return nil // the handler of the job releases what is reserved
	}
	rows, answered, err := j.table.chunk(ctx, job.JobID, task.Chunk)
	if err != nil {
		return err
	}
	first, end := job.ChunkRows(task.Chunk)
	if len(rows) != end-first {
		return fmt.Errorf("bulk job %s: chunk %d has %d rows", job.JobID, task.Chunk, len(rows))
	}
	answers := make([]*Answer, end-first)
	if !answered {
		var asOf time.Time
		if j.cfg.AsOf != nil { // before anything is read
			asOf, _ = j.cfg.AsOf()
		}
		made, err := answerer.AnswerRows(ctx, job, rows)
		if err != nil {
			return err
		}
		insert, err := j.table.answeredRows(job, task.Chunk, rows, made, asOf, j.cfg.Now())
		if err != nil {
			return err
		}
		if err := j.table.insert(ctx, insert); err != nil {
			return err
		}
		for i := range made {
			answers[i] = &made[i]
		}
		j.rows.WithLabelValues(string(job.Operation)).Add(float64(len(rows)))
	}
	if j.cfg.Charge == nil {
		return nil
	}
	// What is stored is charged: an earlier attempt may have ended before the charge, and while partitions move another
	// process may have answered first.
	stored, err := j.table.answers(ctx, job.JobID, first, end)
	if err != nil {
		return err
	}
	for i := range answers {
		if a := stored[first+i]; a != nil {
			answers[i] = a
		}
	}
	return j.cfg.Charge(ctx, job, task.Chunk, answers)
}

// decode decodes and validates a task.
func decode(payload []byte, task interface{ Validate() error }) error {
	if err := json.Unmarshal(payload, task); err != nil {
		return err
	}
	return task.Validate()
}

// PublicStatus is the status of a job as callers see it.
type PublicStatus struct {
	JobID     string `json:"job_id"`
	Operation string `json:"operation"`
	Status    string `json:"status"`
	Rows      int    `json:"rows"`
	Done      int    `json:"done"`
	Credits   int64  `json:"credits"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
	Detail    string `json:"detail,omitempty"`
}

// Public returns the status as callers see it.
func (s *Status) Public() PublicStatus {
	return PublicStatus{
		JobID: s.Job.JobID, Operation: string(s.Job.Operation), Status: s.Status, Rows: s.Job.Rows, Done: s.Done,
		Credits: s.Credits, CreatedAt: s.Job.At.UTC().Format(time.RFC3339),
		ExpiresAt: s.Job.At.Add(event.BulkRetention).UTC().Format(time.RFC3339), Detail: s.Detail,
	}
}
