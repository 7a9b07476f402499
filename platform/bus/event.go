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

// MetadataKey is the Watermill metadata key of the Kafka message key. It is the CloudEvents extension partitionkey,
// which the binding maps to the message key and not to a header.
const MetadataKey = "ce_partitionkey"

// specVersion is the supported version of CloudEvents.
const specVersion = "1.0"

// ErrNotAnEvent means that a message lacks the headers of a CloudEvent.
var ErrNotAnEvent = errors.New("message is not a CloudEvent")

// Event holds the CloudEvents context attributes of a message.
type Event struct {
	ID          string // required; unique within a Source
	Type        string // required
	Source      string // required; a URI reference
	Subject     string
	Time        time.Time // zero: not set
	ContentType string
}

// carrier is implemented by both kinds of message metadata.
type carrier interface {
	Get(key string) string
	Set(key, value string)
	Keys() []string
}

// SetEvent returns headers with the attributes of e. It replaces headers of the same names and does not change the
// caller's slice.
func SetEvent(headers []kafka.Header, e Event) []kafka.Header {
	if len(headers) == 0 {
		own := headerBuilder{headers: make([]kafka.Header, 0, eventHeaders)}
		own.text = make([]byte, 0, len(specVersion)+len(e.Type)+len(e.Source)+len(e.Subject)+len(time.RFC3339Nano)+
			len(e.ContentType)+len(e.ID))
		setEvent(&own, e)
		own.Set(HeaderID, e.ID)
		return own.headers
	}
	own := make(mutableHeaders, len(headers), len(headers)+eventHeaders)
	copy(own, headers)
	setEvent(&own, e)
	own.Set(HeaderID, e.ID)
	return own
}

// eventHeaders is the number of headers of an event.
const eventHeaders = 7

// GetEvent returns the event of headers. Its error wraps [ErrNotAnEvent].
func GetEvent(headers []kafka.Header) (Event, error) {
	c := headerCarrier{&headers}
	return getEvent(c, c.Get(HeaderID))
}

// SetMessageEvent sets the UUID of msg to e.ID and the other attributes of e as metadata.
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
	e := Event{
		ID: id, Type: c.Get(HeaderType), Source: c.Get(HeaderSource), Subject: c.Get(HeaderSubject),
		ContentType: c.Get(HeaderContentType),
	}
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

// SetTrace returns headers with the W3C traceparent and tracestate of the span in ctx, if there is one.
func SetTrace(ctx context.Context, headers []kafka.Header) []kafka.Header {
	propagation.TraceContext{}.Inject(ctx, headerCarrier{&headers})
	return headers
}

// mutableHeaders are headers that are not shared, so Set may change them in place.
type mutableHeaders []kafka.Header

// Set replaces every header of the name by a new one at the end, as headerCarrier does.
func (o *mutableHeaders) Set(key, value string) {
	rest := slices.DeleteFunc(*o, func(h kafka.Header) bool { return h.Key == key })
	*o = append(rest, kafka.Header{Key: key, Value: []byte(value)})
}

// headerBuilder builds headers that are set once each. Their values share one buffer.
type headerBuilder struct {
	headers []kafka.Header
	text    []byte
}

// Set appends a header.
func (n *headerBuilder) Set(key, value string) {
	from := len(n.text)
	n.text = append(n.text, value...)
	n.headers = append(n.headers, kafka.Header{Key: key, Value: n.text[from:len(n.text):len(n.text)]})
}

// headerCarrier reads and writes Kafka headers. The last one of a name counts.
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
	rest := make([]kafka.Header, 0, len(*c.headers)+1) // the caller's array is not changed
	for _, h := range *c.headers {
		if h.Key != key {
			rest = append(rest, h)
		}
	}
	*c.headers = append(rest, kafka.Header{Key: key, Value: []byte(value)})
}

func (c headerCarrier) Keys() []string {
	keys := make([]string, len(*c.headers))
	for i, h := range *c.headers {
		keys[i] = h.Key
	}
	return keys
}

// metadataCarrier reads and writes Watermill metadata.
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
