package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"
)

// unknownTopicTimeout is how long WriteAll retries an unknown topic: it may have just been created, and is not known to
// all brokers yet.
const unknownTopicTimeout = 15 * time.Second

// Default limits of a partition's batch.
const (
	batchMessages = 1000
	batchWait     = 5 * time.Millisecond
)

// Writer is a [kafka.Writer] whose Close also closes its connections.
type Writer struct {
	*kafka.Writer
	waits *waitReporter // shared by all WriteAll calls; may be nil
}

// Close waits for pending writes and closes the writer's connections. kafka-go's Close leaves them open and continues
// to refresh the metadata every [metadataTTL].
func (w *Writer) Close() error {
	err := w.Writer.Close()
	if t, ok := w.Transport.(*kafka.Transport); ok {
		t.CloseIdleConnections()
	}
	return err
}

// Unbatched returns a writer like w that does not batch. It shares the connections of w, which its Close would close;
// the Close of its [kafka.Writer] does not.
func (w *Writer) Unbatched() *Writer {
	return &Writer{waits: w.waits, Writer: &kafka.Writer{
		Addr: w.Addr, Balancer: w.Balancer, Transport: w.Transport,
		RequiredAcks: w.RequiredAcks, Compression: w.Compression, BatchSize: 1, BatchBytes: w.BatchBytes,
		MaxAttempts: w.MaxAttempts, WriteBackoffMin: w.WriteBackoffMin, WriteBackoffMax: w.WriteBackoffMax,
		ReadTimeout: w.ReadTimeout, WriteTimeout: w.WriteTimeout,
		Logger: w.Logger, ErrorLogger: w.ErrorLogger,
	}}
}

// WriterOption changes a writer made by [NewWriter].
type WriterOption func(*kafka.Writer)

// WithBatch sets the size and wait limits of a partition's batch. The defaults, 1,000 messages and 5 ms, suit bulk
// writes and single events. Larger sizes are slower, since every batch preallocates them.
func WithBatch(messages int, wait time.Duration) WriterOption {
	return func(w *kafka.Writer) { w.BatchSize, w.BatchTimeout = messages, wait }
}

// WithTopics limits the writer to topics. It then caches only their metadata, which matters on clusters with many
// topics. Writes to other topics fail as unknown.
func WithTopics(cfg Config, topics ...string) WriterOption {
	return func(w *kafka.Writer) { w.Transport = cfg.transport(topics...) }
}

// WithWriterLogger logs failed attempts, which the writer retries.
func WithWriterLogger(l *slog.Logger) WriterOption {
	return func(w *kafka.Writer) {
		w.ErrorLogger = kafka.LoggerFunc(func(msg string, args ...any) {
			l.Warn("kafka writer: " + fmt.Sprintf(msg, args...))
		})
	}
}

// WithFixedPartition writes messages whose WriterData is an int to the partition with that number, and others to that
// of their key.
func WithFixedPartition(w *kafka.Writer) { w.Balancer = fixedPartitionBalancer{w.Balancer} }

// fixedPartitionBalancer uses the partition in WriterData, or else another balancer.
type fixedPartitionBalancer struct{ others kafka.Balancer }

// Balance implements kafka.Balancer.
func (b fixedPartitionBalancer) Balance(m kafka.Message, partitions ...int) int {
	if n, ok := m.WriterData.(int); ok {
		return n
	}
	return b.others.Balance(m, partitions...)
}

// NewWriter returns a synchronous writer. Writes are acknowledged by all in-sync replicas, keys are partitioned as by
// Java clients (murmur2), and topics are not auto-created. Messages name their topic. Share one writer among
// goroutines: batches span calls.
//
// A write fails after four attempts, so that Close returns soon while the brokers are unavailable; [WriteAll] retries
// until its context ends.
func NewWriter(cfg Config, opts ...WriterOption) *Writer {
	w := &kafka.Writer{
		Addr:                   kafka.TCP(cfg.Brokers...),
		Balancer:               kafka.Murmur2Balancer{},
		RequiredAcks:           kafka.RequireAll,
		Async:                  false,
		AllowAutoTopicCreation: false,
		BatchSize:              batchMessages,
		BatchBytes:             MaxMessageBytes - 16<<10, // minus the header of the record batch
		BatchTimeout:           batchWait,
		MaxAttempts:            4,
		WriteBackoffMin:        50 * time.Millisecond,
		WriteBackoffMax:        500 * time.Millisecond,
		WriteTimeout:           requestTimeout,
		ReadTimeout:            requestTimeout,
		// Half the CPU of kafka-go's LZ4 at the same ratio, without 4 MiB of buffer for every batch. Zstd halves the
		// size again at nine times the CPU.
		Compression: kafka.Snappy,
		Transport:   cfg.transport(),
	}
	for _, o := range opts {
		o(w)
	}
	return &Writer{Writer: w, waits: newWaitReporter(cfg)}
}

// RejectedMessage is a message that was rejected permanently.
type RejectedMessage struct {
	Index int // in the slice given to WriteAll
	Topic string
	Err   error // matches the kafka-go error with errors.Is
}

// RejectedError lists the messages that the brokers or the writer rejected permanently: too large, no permission or an
// invalid topic. All other messages were written.
type RejectedError struct{ Messages []RejectedMessage }

func (e *RejectedError) Error() string {
	m := e.Messages[0]
	return fmt.Sprintf("kafka rejected %d messages, the first (index %d, topic %s): %v",
		len(e.Messages), m.Index, m.Topic, m.Err)
}

// Unwrap returns the reasons for errors.Is and errors.As.
func (e *RejectedError) Unwrap() []error {
	errs := make([]error, len(e.Messages))
	for i, m := range e.Messages {
		errs[i] = m.Err
	}
	return errs
}

// IsPermanentWriteError reports whether a retry of the same write cannot succeed.
func IsPermanentWriteError(err error) bool {
	return IsMessageError(err) || errors.Is(err, io.ErrClosedPipe) || isOneOf(
		err,
		kafka.InvalidTopic,
		kafka.InvalidRequiredAcks,
		kafka.UnsupportedForMessageFormat,
		kafka.UnsupportedCompressionType,
		kafka.PolicyViolation,
		kafka.TopicAuthorizationFailed,
		kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed,
		kafka.UnsupportedSASLMechanism,
	)
}

// IsMessageError reports whether the message itself is the cause, for example its size. The other errors of
// [IsPermanentWriteError] are caused by the brokers or the configuration, and can go away while the process runs.
func IsMessageError(err error) bool {
	var tooLarge kafka.MessageTooLargeError
	return errors.As(err, &tooLarge) || isOneOf(err,
		kafka.MessageSizeTooLarge, kafka.InvalidMessageSize, kafka.RecordListTooLarge, kafka.InvalidRecord,
		kafka.InvalidTimestamp)
}

func isOneOf(err error, codes ...kafka.Error) bool {
	return slices.ContainsFunc(codes, func(k kafka.Error) bool { return errors.Is(err, k) })
}

// WriteAll writes msgs and returns nil once all of them are acknowledged. Transient failures (no leader, no
// connection, timeouts) are retried with backoff until ctx ends. It logs the cause to Config.Logger when calls of the
// writer have failed for 20 s, and then each minute; an attempt takes up to 40 s if brokers do not respond. Messages
// that are rejected permanently are skipped and reported in a [*RejectedError] after the others are written. If ctx
// ends first, its error is returned and any of the messages may be stored.
//
// A retry repeats each failed message and the later ones of the same key, so that the last message of a key is also the
// last one stored: compaction keeps that one.
//
// A broker that received a batch and timed out may still store it later, after newer writes: kafka-go is not an
// idempotent producer. What it did not receive is dropped with the connection. A writer continues its pending attempts
// for up to 40 s after ctx has ended, so they may be stored after writes of another process.
func WriteAll(ctx context.Context, w *Writer, msgs []kafka.Message) error {
	g := newWriteState(w, msgs)
	began := time.Now()
	wait := newBackoff(50*time.Millisecond, 2*time.Second)
	for len(g.pending) > 0 {
		errs, err := writeOnce(ctx, w, msgs, g.pending, g.single)
		if err == nil {
			w.waits.succeeded()
			break
		}
		if ctx.Err() != nil {
			// Unresponsive brokers return no error, but a request would have timed out by now.
			if time.Since(began) >= requestTimeout {
				w.waits.failed(ctx, began, cmp.Or(g.lastErr, context.Cause(ctx)))
			}
			return fmt.Errorf("write %d messages: %w", len(g.pending), context.Cause(ctx))
		}
		if errs == nil { // nothing was attempted: the whole call failed
			if IsPermanentWriteError(err) {
				return fmt.Errorf("write %d messages: %w", len(g.pending), err)
			}
			errs = slices.Repeat([]error{err}, len(g.pending))
		}
		if g.apply(errs) {
			continue
		}
		if len(g.pending) == 0 {
			w.waits.succeeded()
			break
		}
		w.waits.failed(ctx, began, g.lastErr)
		if !sleep(ctx, wait.NextBackOff()) {
			return fmt.Errorf("write %d messages: %w", len(g.pending), context.Cause(ctx))
		}
	}
	if len(g.rejected) > 0 {
		return &RejectedError{Messages: g.rejected}
	}
	return nil
}

// writeState is the state of a WriteAll.
type writeState struct {
	msgs     []kafka.Message
	pending  []int // indexes of unwritten messages, in order
	rejected []RejectedMessage
	lastErr  error // of the first message to be retried
	// single: each message is written separately, since the broker rejected a batch as too large.
	single bool
	// unknownSince is when attempts began to fail only because of unknown topics; zero: they do not.
	unknownSince time.Time
}

func newWriteState(w *Writer, msgs []kafka.Message) *writeState {
	g := &writeState{msgs: msgs, pending: make([]int, 0, len(msgs))}
	for i := range msgs {
		if n := messageSize(&msgs[i]); w.BatchBytes > 0 && n > w.BatchBytes {
			g.reject(i, fmt.Errorf("message of %d bytes, limit %d: %w", n, w.BatchBytes, kafka.MessageSizeTooLarge))
			continue
		}
		g.pending = append(g.pending, i)
	}
	return g
}

func (g *writeState) reject(i int, err error) {
	g.rejected = append(g.rejected, RejectedMessage{Index: i, Topic: g.msgs[i].Topic, Err: err})
}

// apply removes written and permanently rejected messages from pending. errs has an error for each pending message. It
// returns true if a batch was too large, whose messages may fit separately.
func (g *writeState) apply(errs []error) (split bool) {
	giveUp := g.isUnknownTimedOut(errs)
	var retry []int
	g.lastErr = nil
	failed := make(map[string]bool) // keys with a message to retry: later ones of the key are retried as well
	for n, i := range g.pending {
		m, err := &g.msgs[i], errs[n]
		key := m.Topic + "\x00" + string(m.Key)
		tooLarge := !g.single && isOneOf(err, kafka.MessageSizeTooLarge, kafka.RecordListTooLarge)
		switch {
		case err == nil && (m.Key == nil || !failed[key]):
		case err != nil && !tooLarge && (giveUp || IsPermanentWriteError(err)):
			g.reject(i, err)
		default:
			split = split || tooLarge
			failed[key] = true
			g.lastErr = cmp.Or(g.lastErr, err)
			retry = append(retry, i)
		}
	}
	g.pending, g.single = retry, g.single || split
	return split
}

// isUnknownTimedOut reports whether attempts have failed only because of unknown topics for longer than
// unknownTopicTimeout.
func (g *writeState) isUnknownTimedOut(errs []error) bool {
	other := func(err error) bool { return err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) }
	switch {
	case slices.ContainsFunc(errs, other):
		g.unknownSince = time.Time{}
		return false
	case g.unknownSince.IsZero():
		g.unknownSince = time.Now()
	}
	return time.Since(g.unknownSince) > unknownTopicTimeout
}

// writeOnce returns an error for each pending message, or none and the error of the whole call if nothing was
// attempted.
func writeOnce(ctx context.Context, w *Writer, msgs []kafka.Message, pending []int, single bool) ([]error, error) {
	if single {
		errs := make([]error, len(pending))
		var last error
		for n, i := range pending {
			if errs[n] = w.WriteMessages(ctx, msgs[i]); errs[n] != nil {
				var werrs kafka.WriteErrors
				if errors.As(errs[n], &werrs) && len(werrs) == 1 {
					errs[n] = werrs[0]
				}
				last = errs[n]
			}
		}
		return errs, last
	}
	out := msgs
	if len(pending) < len(msgs) {
		out = make([]kafka.Message, len(pending))
		for n, i := range pending {
			out[n] = msgs[i]
		}
	}
	err := w.WriteMessages(ctx, out...)
	var werrs kafka.WriteErrors
	if errors.As(err, &werrs) && len(werrs) == len(out) {
		return werrs, err
	}
	return nil, err
}

// messageSize returns an upper bound of the size that kafka-go counts against BatchBytes.
func messageSize(m *kafka.Message) int64 {
	n := 64 + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += 10 + len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// newBackoff returns an endless backoff that doubles from first to limit, with jitter.
func newBackoff(first, limit time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = first, limit, 2, 0.3
	b.Reset()
	return b
}

// sleep waits for d. It returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
