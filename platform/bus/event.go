package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/propagation"
)

// Header names of the CloudEvents Kafka protocol binding 1.0, binary content mode:
// an attribute is a header with the prefix ce_, except the content type.
const (
	HeaderSpecVersion = "ce_specversion"
	HeaderID          = "ce_id"
	HeaderType        = "ce_type"
	HeaderSource      = "ce_source"
	HeaderSubject     = "ce_subject"
	HeaderTime        = "ce_time"
	HeaderContentType = "content-type"
)

// MetadataKey is the Watermill metadata that carries the Kafka message key. It is
// the CloudEvents extension partitionkey; the binding maps it to the key, so it is
// never a header.
const MetadataKey = "ce_partitionkey"

// specVersion is the version of CloudEvents written and understood.
const specVersion = "1.0"

// ErrNotAnEvent says that a message lacks the headers of a CloudEvent.
var ErrNotAnEvent = errors.New("message is not a CloudEvent")

// Event holds the CloudEvents context attributes of a message.
type Event struct {
	ID          string // required; unique for a Source
	Type        string // required
	Source      string // required; a URI reference
	Subject     string
	Time        time.Time // zero: not stated
	ContentType string
}

// carrier is what both kinds of message metadata can do.
type carrier interface {
	Get(key string) string
	Set(key, value string)
	Keys() []string
}

// SetEvent returns headers with the event's, replacing those of the same names.
func SetEvent(headers []kafka.Header, e Event) []kafka.Header {
	if len(headers) == 0 {
		own := newHeaders{headers: make([]kafka.Header, 0, eventHeaders)}
		own.text = make([]byte, 0, len(specVersion)+len(e.Type)+len(e.Source)+len(e.Subject)+len(time.RFC3339Nano)+len(e.ContentType)+len(e.ID))
		setEvent(&own, e)
		own.Set(HeaderID, e.ID)
		return own.headers
	}
	own := make(ownHeaders, len(headers), len(headers)+eventHeaders)
	copy(own, headers) // never write into the caller's array
	setEvent(&own, e)
	own.Set(HeaderID, e.ID)
	return own
}

// eventHeaders is how many headers an event has.
const eventHeaders = 7

// GetEvent reads the event from headers. The error wraps [ErrNotAnEvent].
func GetEvent(headers []kafka.Header) (Event, error) {
	c := headerCarrier{&headers}
	return getEvent(c, c.Get(HeaderID))
}

// SetMessageEvent makes msg the event e: its UUID becomes e.ID, the rest is
// metadata.
func SetMessageEvent(msg *message.Message, e Event) {
	msg.UUID = e.ID
	setEvent(metadataCarrier(msg.Metadata), e)
}

func setEvent(c interface{ Set(key, value string) }, e Event) {
	c.Set(HeaderSpecVersion, specVersion)
	c.Set(HeaderType, e.Type)
	c.Set(HeaderSource, e.Source)
	if e.Subject != "" {
		c.Set(HeaderSubject, e.Subject)
	}
	if !e.Time.IsZero() {
		c.Set(HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	}
	if e.ContentType != "" {
		c.Set(HeaderContentType, e.ContentType)
	}
}

func getEvent(c carrier, id string) (Event, error) {
	e := Event{ID: id, Type: c.Get(HeaderType), Source: c.Get(HeaderSource), Subject: c.Get(HeaderSubject), ContentType: c.Get(HeaderContentType)}
	if v := c.Get(HeaderSpecVersion); v != specVersion {
		return Event{}, fmt.Errorf("%w: %s is %q", ErrNotAnEvent, HeaderSpecVersion, v)
	}
	switch {
	case e.ID == "":
		return Event{}, fmt.Errorf("%w: no %s", ErrNotAnEvent, HeaderID)
	case e.Type == "":
		return Event{}, fmt.Errorf("%w: no %s", ErrNotAnEvent, HeaderType)
	case e.Source == "":
		return Event{}, fmt.Errorf("%w: no %s", ErrNotAnEvent, HeaderSource)
	}
	if v := c.Get(HeaderTime); v != "" {
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return Event{}, fmt.Errorf("%w: %s: %w", ErrNotAnEvent, HeaderTime, err)
		}
		e.Time = t.UTC()
	}
	return e, nil
}

// SetTrace returns headers with the W3C traceparent and tracestate of ctx's span,
// if there is one.
func SetTrace(ctx context.Context, headers []kafka.Header) []kafka.Header {
	propagation.TraceContext{}.Inject(ctx, headerCarrier{&headers})
	return headers
}

// ownHeaders are headers that nobody else has yet: they are changed in place.
type ownHeaders []kafka.Header

// Set replaces every header of the name, as headerCarrier does: the new one comes last.
func (o *ownHeaders) Set(key, value string) {
	*o = append(slices.DeleteFunc(*o, func(h kafka.Header) bool { return h.Key == key }), kafka.Header{Key: key, Value: []byte(value)})
}

// newHeaders are headers that are set once each. Their values stand one behind the other
// in one text.
type newHeaders struct {
	headers []kafka.Header
	text    []byte
}

// Set adds a header.
func (n *newHeaders) Set(key, value string) {
	from := len(n.text)
	n.text = append(n.text, value...)
	n.headers = append(n.headers, kafka.Header{Key: key, Value: n.text[from:len(n.text):len(n.text)]})
}

// headerCarrier reads and writes Kafka headers. Of repeated names the last counts.
type headerCarrier struct{ headers *[]kafka.Header }

func (c headerCarrier) Get(key string) string {
	h := *c.headers
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Key == key {
			return string(h[i].Value)
		}
	}
	return ""
}

func (c headerCarrier) Set(key, value string) {
	kept := make([]kafka.Header, 0, len(*c.headers)+1) // never write into the caller's array
	for _, h := range *c.headers {
		if h.Key != key {
			kept = append(kept, h)
		}
	}
	*c.headers = append(kept, kafka.Header{Key: key, Value: []byte(value)})
}

func (c headerCarrier) Keys() []string {
	keys := make([]string, len(*c.headers))
	for i, h := range *c.headers {
		keys[i] = h.Key
	}
	return keys
}

// metadataCarrier does the same for Watermill metadata.
type metadataCarrier message.Metadata

func (c metadataCarrier) Get(key string) string { return c[key] }
func (c metadataCarrier) Set(key, value string) { c[key] = value }
func (c metadataCarrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
