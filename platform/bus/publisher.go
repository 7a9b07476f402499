package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/propagation"
)

// PublisherConfig configures a [Publisher].
type PublisherConfig struct {
	Config Config
	// Key returns the Kafka key of a message, or nil. Default: the metadata [MetadataKey], if present.
	Key func(topic string, msg *message.Message) ([]byte, error)
	// Timeout limits one Publish, in addition to the context of its first message. Default 30 s.
	Timeout time.Duration
	// Linger is how long a message waits for others to be batched with. Default 5 ms; use less for single messages
	// whose acknowledgement is awaited.
	Linger time.Duration
	Logger *slog.Logger // nil: nothing is logged
}

// Publisher implements Watermill's Publisher. Publish returns when every message is acknowledged by all in-sync
// replicas; after an error any of them may be stored. It sends the message's UUID as ce_id, its metadata as headers
// and the span of its context as traceparent. It is safe for concurrent use.
type Publisher struct {
	cfg PublisherConfig

	mu      sync.Mutex
	closed  bool
	writers map[string]*Writer // by topic: a writer caches only the metadata of its topic
	running sync.WaitGroup
}

var _ message.Publisher = (*Publisher)(nil)

// ErrClosed is returned by a publisher or subscriber that is closed.
var ErrClosed = errors.New("bus: closed")

// NewPublisher returns a publisher. It does not connect.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.Config.validate(); err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	setDefault(&cfg.Timeout, 30*time.Second)
	setDefault(&cfg.Linger, batchWait)
	if cfg.Key == nil {
		cfg.Key = metadataKey
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Publisher{cfg: cfg, writers: make(map[string]*Writer)}, nil
}

func metadataKey(_ string, msg *message.Message) ([]byte, error) {
	if k, ok := msg.Metadata[MetadataKey]; ok {
		return []byte(k), nil
	}
	return nil, nil
}

// Publish writes the messages in order. See [Publisher].
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	w, err := p.begin(topic)
	if err != nil {
		return err
	}
	defer p.running.Done()

	out := make([]kafka.Message, len(messages))
	for i, m := range messages {
		key, err := p.cfg.Key(topic, m)
		if err != nil {
			return fmt.Errorf("publish to %s: key of message %s: %w", topic, m.UUID, err)
		}
		out[i] = encodeMessage(topic, key, m)
	}
	ctx, cancel := context.WithTimeout(messages[0].Context(), p.cfg.Timeout)
	defer cancel()
	if err := WriteAll(ctx, w, out); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// begin returns the writer of the topic and adds the caller to running.
func (p *Publisher) begin(topic string) (*Writer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	w := p.writers[topic]
	if w == nil {
		w = NewWriter(p.cfg.Config, WithTopics(p.cfg.Config, topic), WithWriterLogger(p.cfg.Logger),
			WithBatch(batchMessages, p.cfg.Linger))
		p.writers[topic] = w
	}
	p.running.Add(1)
	return w, nil
}

// Close waits for running Publish calls and closes the connections. It is idempotent.
func (p *Publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
	for topic, w := range p.writers { // closed: no other goroutine uses the map
		if err := w.Close(); err != nil {
			return fmt.Errorf("close publisher: topic %s: %w", topic, err)
		}
	}
	return nil
}

func encodeMessage(topic string, key []byte, m *message.Message) kafka.Message {
	headers := make([]kafka.Header, 0, len(m.Metadata)+2)
	headers = append(headers, kafka.Header{Key: HeaderID, Value: []byte(m.UUID)})
	for _, k := range slices.Sorted(maps.Keys(m.Metadata)) {
		if k != MetadataKey && k != HeaderID {
			headers = append(headers, kafka.Header{Key: k, Value: []byte(m.Metadata[k])})
		}
	}
	if m.Metadata["traceparent"] == "" {
		headers = SetTrace(m.Context(), headers)
	}
	return kafka.Message{Topic: topic, Key: key, Value: m.Payload, Headers: headers}
}

// Origin is the position of a received message in its log.
type Origin struct {
	Topic     string
	Partition int
	Offset    int64
	Time      time.Time // set by the producer or the broker
}

type originKey struct{}

// MessageOrigin returns the origin of a message of a [Subscriber] from the message's context.
func MessageOrigin(ctx context.Context) (Origin, bool) {
	o, ok := ctx.Value(originKey{}).(Origin)
	return o, ok
}

// decodeMessage returns a Watermill message whose context carries trace and origin.
func decodeMessage(ctx context.Context, km *kafka.Message) *message.Message {
	m := message.NewMessage("", km.Value)
	for _, h := range km.Headers {
		if h.Key == HeaderID {
			m.UUID = string(h.Value)
		} else {
			m.Metadata[h.Key] = string(h.Value)
		}
	}
	if m.UUID == "" {
		m.UUID = km.Topic + "/" + strconv.Itoa(km.Partition) + "/" + strconv.FormatInt(km.Offset, 10)
	}
	if km.Key != nil {
		m.Metadata[MetadataKey] = string(km.Key)
	}
	ctx = propagation.TraceContext{}.Extract(ctx, metadataCarrier(m.Metadata))
	origin := Origin{Topic: km.Topic, Partition: km.Partition, Offset: km.Offset, Time: km.Time}
	m.SetContext(context.WithValue(ctx, originKey{}, origin))
	return m
}
