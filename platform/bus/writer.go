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

// unknownTopicPatience is how long WriteAll believes that an unknown topic has
// just been created and is not yet known everywhere.
const unknownTopicPatience = 15 * time.Second

// How many messages and for how long a partition's batch gathers.
const (
	batchMessages = 1000
	batchWait     = 5 * time.Millisecond
)

// Writer is a [kafka.Writer] whose Close leaves nothing.
type Writer struct {
	*kafka.Writer
	waits *waiting // what WriteAll tells, whoever calls it; nil: nobody is told
}

// Close waits for what is being written and ends the writer's connections: kafka-go's
// own leaves them open, and goes on to ask for the metadata every [metadataTTL].
func (w *Writer) Close() error {
	err := w.Writer.Close()
	if t, ok := w.Transport.(*kafka.Transport); ok {
		t.CloseIdleConnections()
	}
	return err
}

// Alone returns a writer like w that sends each message by itself. Its connections are w's, which its Close would end:
// the Close of its [kafka.Writer] leaves them.
func (w *Writer) Alone() *Writer {
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

// WithBatch sets how many messages and for how long a partition's batch gathers.
// The defaults, 1,000 messages and 5 ms, suit bulk writing as well as single
// events; larger counts are slower, because every batch preallocates them.
func WithBatch(messages int, wait time.Duration) WriterOption {
	return func(w *kafka.Writer) { w.BatchSize, w.BatchTimeout = messages, wait }
}

// WithTopics says which topics will be written: the writer then keeps the metadata
// of those only, which matters on clusters with many topics. Others are refused as
// unknown.
func WithTopics(cfg Config, topics ...string) WriterOption {
	return func(w *kafka.Writer) { w.Transport = cfg.transport(topics...) }
}

// WithWriterLogger reports failed attempts, which the writer retries itself.
func WithWriterLogger(l *slog.Logger) WriterOption {
	return func(w *kafka.Writer) {
		w.ErrorLogger = kafka.LoggerFunc(func(msg string, args ...any) {
			l.Warn("kafka writer: " + fmt.Sprintf(msg, args...))
		})
	}
}

// NewWriter returns a synchronous writer that loses nothing it has confirmed:
// all in-sync replicas acknowledge, keys are spread as Java clients spread them
// (murmur2), topics are never created by being named. Messages name their topic.
// Share one writer among goroutines: batches gather across calls.
//
// It gives up after four attempts, so that Close returns soon while the brokers
// are away; [WriteAll] goes on for as long as its context lasts.
func NewWriter(cfg Config, opts ...WriterOption) *Writer {
	w := &kafka.Writer{
		Addr:                   kafka.TCP(cfg.Brokers...),
		Balancer:               kafka.Murmur2Balancer{},
		RequiredAcks:           kafka.RequireAll,
		Async:                  false,
		AllowAutoTopicCreation: false,
		BatchSize:              batchMessages,
		BatchBytes:             MaxMessageBytes - 16<<10, // the record batch has a header of its own
		BatchTimeout:           batchWait,
		MaxAttempts:            4,
		WriteBackoffMin:        50 * time.Millisecond,
		WriteBackoffMax:        500 * time.Millisecond,
		WriteTimeout:           requestTimeout,
		ReadTimeout:            requestTimeout,
		// Half the CPU of kafka-go's LZ4 at the same ratio, and no 4 MiB of buffer for every batch; Zstd
		// halves the size again at nine times the CPU.
		Compression: kafka.Snappy,
		Transport:   cfg.transport(),
	}
	for _, o := range opts {
		o(w)
	}
	return &Writer{Writer: w, waits: newWaiting(cfg)}
}

// RefusedMessage is a message that no retry can write.
type RefusedMessage struct {
	Index int // in the slice given to WriteAll
	Topic string
	Err   error // matches the kafka-go error with errors.Is
}

// RefusedError lists the messages that the brokers, or the writer, will never
// accept: too large, no permission, an invalid topic. All others were written.
type RefusedError struct{ Messages []RefusedMessage }

func (e *RefusedError) Error() string {
	m := e.Messages[0]
	return fmt.Sprintf("kafka refused %d messages, the first (index %d, topic %s): %v", len(e.Messages), m.Index, m.Topic, m.Err)
}

// Unwrap gives the reasons to errors.Is and errors.As.
func (e *RefusedError) Unwrap() []error {
	errs := make([]error, len(e.Messages))
	for i, m := range e.Messages {
		errs[i] = m.Err
	}
	return errs
}

// IsPermanentWriteError says that writing the same message again cannot succeed.
func IsPermanentWriteError(err error) bool {
	return IsMessageError(err) || errors.Is(err, io.ErrClosedPipe) || isOneOf(err,
		kafka.InvalidTopic, kafka.InvalidRequiredAcks, kafka.UnsupportedForMessageFormat, kafka.UnsupportedCompressionType,
		kafka.PolicyViolation, kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism,
	)
}

// IsMessageError says that the message itself cannot be written, such as for its size.
// What else [IsPermanentWriteError] names is the brokers' or the configuration's, and can
// pass while the process runs.
func IsMessageError(err error) bool {
	var tooLarge kafka.MessageTooLargeError
	return errors.As(err, &tooLarge) || isOneOf(err,
		kafka.MessageSizeTooLarge, kafka.InvalidMessageSize, kafka.RecordListTooLarge, kafka.InvalidRecord, kafka.InvalidTimestamp)
}

func isOneOf(err error, of ...kafka.Error) bool {
	return slices.ContainsFunc(of, func(k kafka.Error) bool { return errors.Is(err, k) })
}

// WriteAll writes msgs and returns nil once every one of them is acknowledged.
// Failures that may pass (no leader, no connection, timeouts) are retried with
// backoff until ctx ends. Config.Logger is told why when an attempt fails 20 s after this call began, or
// the first of those that failed since the writer's last success, and then each minute; where brokers do not
// answer an attempt takes up to 40 s. Messages that cannot ever be written are left out
// and reported together in a [*RefusedError] after the others are through. When
// ctx ends first its error is returned and any of the messages may be stored.
//
// A retry repeats, beside each failed message, the later ones of the same key,
// so that the last stored message of a key is the last one given: compaction
// keeps that one.
//
// What a broker had received, and not answered in time, it may store when it goes on, also behind what
// was written since: kafka-go is no idempotent producer. What it had not received is gone with its
// connection. A writer goes on trying what it has, for up to 40 s, when ctx has ended: what another
// process writes meanwhile can come before it.
func WriteAll(ctx context.Context, w *Writer, msgs []kafka.Message) error {
	g := newWriting(w, msgs)
	began := time.Now()
	wait := newBackoff(50*time.Millisecond, 2*time.Second)
	for len(g.pending) > 0 {
		errs, err := writeOnce(ctx, w, msgs, g.pending, g.single)
		if err == nil {
			w.waits.over()
			break
		}
		if ctx.Err() != nil {
			// From brokers that do not answer no error has come, but a request would have ended by now.
			if time.Since(began) >= requestTimeout {
				w.waits.why(ctx, began, cmp.Or(g.why, context.Cause(ctx)))
			}
			return fmt.Errorf("write %d messages: %w", len(g.pending), context.Cause(ctx))
		}
		if errs == nil { // nothing was attempted: the whole call failed
			if IsPermanentWriteError(err) {
				return fmt.Errorf("write %d messages: %w", len(g.pending), err)
			}
			errs = slices.Repeat([]error{err}, len(g.pending))
		}
		if g.sort(errs) {
			continue
		}
		if len(g.pending) == 0 {
			w.waits.over()
			break
		}
		w.waits.why(ctx, began, g.why)
		if !sleep(ctx, wait.NextBackOff()) {
			return fmt.Errorf("write %d messages: %w", len(g.pending), context.Cause(ctx))
		}
	}
	if len(g.refused) > 0 {
		return &RefusedError{Messages: g.refused}
	}
	return nil
}

// writing is how far WriteAll has come.
type writing struct {
	msgs    []kafka.Message
	pending []int // to be written, in order
	refused []RefusedMessage
	why     error // of the first message of the last attempt that is written again
	// single: each message is written by itself, since the broker found a whole batch too large.
	single       bool
	unknownSince time.Time // nothing but unknown topics has been in the way; zero: something else was
}

func newWriting(w *Writer, msgs []kafka.Message) *writing {
	g := &writing{msgs: msgs, pending: make([]int, 0, len(msgs))}
	for i := range msgs {
		if n := messageSize(&msgs[i]); w.BatchBytes > 0 && n > w.BatchBytes {
			g.refuse(i, fmt.Errorf("message of %d bytes, limit %d: %w", n, w.BatchBytes, kafka.MessageSizeTooLarge))
			continue
		}
		g.pending = append(g.pending, i)
	}
	return g
}

func (g *writing) refuse(i int, err error) {
	g.refused = append(g.refused, RefusedMessage{Index: i, Topic: g.msgs[i].Topic, Err: err})
}

// sort takes out of pending what is written, by its errors, and what never will be. It
// returns true when a batch was too large for its topic, whose messages may not be.
func (g *writing) sort(errs []error) (split bool) {
	giveUp := g.unknownTooLong(errs)
	var retry []int
	g.why = nil
	failed := make(map[string]bool) // keys of which a message is written again, and those after it
	for n, i := range g.pending {
		m, err := &g.msgs[i], errs[n]
		key := m.Topic + "\x00" + string(m.Key)
		tooLarge := !g.single && isOneOf(err, kafka.MessageSizeTooLarge, kafka.RecordListTooLarge)
		switch {
		case err == nil && (m.Key == nil || !failed[key]):
		case err != nil && !tooLarge && (giveUp || IsPermanentWriteError(err)):
			g.refuse(i, err)
		default:
			split = split || tooLarge
			failed[key] = true
			g.why = cmp.Or(g.why, err)
			retry = append(retry, i)
		}
	}
	g.pending, g.single = retry, g.single || split
	return split
}

// unknownTooLong says that nothing but unknown topics has been in the way for longer than patience lasts.
func (g *writing) unknownTooLong(errs []error) bool {
	other := func(err error) bool { return err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) }
	switch {
	case slices.ContainsFunc(errs, other):
		g.unknownSince = time.Time{}
		return false
	case g.unknownSince.IsZero():
		g.unknownSince = time.Now()
	}
	return time.Since(g.unknownSince) > unknownTopicPatience
}

// writeOnce returns one error a pending message, or none and the error of the
// whole call when nothing was attempted.
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

// messageSize is an upper bound of what kafka-go counts against BatchBytes.
func messageSize(m *kafka.Message) int64 {
	n := 64 + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += 10 + len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// newBackoff doubles from first to limit, with jitter, without end.
func newBackoff(first, limit time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = first, limit, 2, 0.3
	b.Reset()
	return b
}

// sleep waits for d and says whether ctx is still alive.
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
