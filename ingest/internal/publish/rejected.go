package publish

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// OnRejected sets the function that replaces a record that is too large for the brokers by a
// rejected record: topics created by an operator may accept less than the largest record. Without
// it, and for other messages than records and rejected records, such an error stops the publisher.
// reject may be called from any goroutine until the batch is complete, once per record.
func (b *Batch) OnRejected(
	reject func(kind record.Kind, at Position, m kafka.Message, cause error) (kafka.Message, error),
) {
	b.reject = reject
}

// unbatched returns a writer that sends each message in its own request. For a larger request the
// brokers do not report which message is too large.
func (p *Publisher) unbatched() *bus.Writer {
	if w := p.unbatchedWriter.Load(); w != nil {
		return w
	}
	w := p.writer.Unbatched()
	if !p.unbatchedWriter.CompareAndSwap(nil, w) {
		// Another lane was faster. A writer that sent nothing needs no Close.
		return p.unbatchedWriter.Load()
	}
	return w
}

// outgoing is the content of one write, with the origin of each message.
type outgoing struct {
	messages []kafka.Message
	origins  []origin
}

type origin struct {
	batch *Batch
	item  *item
}

func (o *outgoing) add(m kafka.Message, b *Batch, i *item) {
	if i.stored {
		return
	}
	o.messages = append(o.messages, m)
	o.origins = append(o.origins, origin{b, i})
}

func (o *outgoing) topics() []string {
	var topics []string
	for _, m := range o.messages {
		if !slices.Contains(topics, m.Topic) {
			topics = append(topics, m.Topic)
		}
	}
	return topics
}

func (i *item) isRejectedRecord() bool { return i.kind == "" && i.message.Topic == event.TopicRejected }

// messageTooLargeError reports messages that are too large, while all others are stored.
type messageTooLargeError struct {
	err  *bus.RejectedError
	from []origin // parallel to err.Messages
}

func (r *messageTooLargeError) Error() string { return r.err.Error() }

func (r *messageTooLargeError) Unwrap() error { return r.err }

// tooLargeError returns err, as a [*messageTooLargeError] if only the size of messages was at fault.
// Replacing messages does not help against errors like missing permissions or topics.
func (o *outgoing) tooLargeError(err error) error {
	rejected, ok := errors.AsType[*bus.RejectedError](err)
	if !ok {
		return err
	}
	r := &messageTooLargeError{err: rejected}
	for _, m := range rejected.Messages {
		_, tooLarge := errors.AsType[kafka.MessageTooLargeError](m.Err)
		if !tooLarge && !errors.Is(m.Err, kafka.MessageSizeTooLarge) && !errors.Is(m.Err, kafka.RecordListTooLarge) {
			return err
		}
		r.from = append(r.from, o.origins[m.Index])
	}
	for _, at := range o.origins {
		// Rejected records have no order and need not be sent again.
		at.item.stored = at.item.isRejectedRecord()
	}
	for _, at := range r.from {
		at.item.stored = false
	}
	return r
}

// replace replaces records by rejected records, and truncates rejected records that are too large.
// It returns the error if that is not possible.
func (r *messageTooLargeError) replace() error {
	for n, at := range r.from {
		i := at.item
		switch {
		case i.kind != "" && at.batch.reject != nil:
			m, err := at.batch.reject(i.kind, i.position, i.message, r.err.Messages[n].Err)
			if err != nil {
				return errors.Join(r.err, err)
			}
			*i = item{message: m, stripe: i.stripe, rejectedKind: i.kind}
		case i.isRejectedRecord():
			truncated, err := truncateRaw(i.message.Value)
			if err != nil {
				return errors.Join(r.err, err)
			}
			if truncated == nil {
				return r.err
			}
			i.message.Value = truncated
		default:
			return r.err
		}
	}
	return nil
}

// truncateRaw truncates the record in a rejected record to the length kept of oversize records. It
// returns nil if the record is not longer.
func truncateRaw(value []byte) ([]byte, error) {
	var r event.Rejected
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("truncate rejected record: %w", err)
	}
	if len(r.Raw) <= event.MaxRejectedRaw {
		return nil, nil
	}
	r.Raw = r.Raw[:event.MaxRejectedRaw]
	truncated, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("truncate rejected record: %w", err)
	}
	return truncated, nil
}

// countRejected counts the rejected records that replaced records, after they are stored.
func countRejected(groups []group) {
	for _, g := range groups {
		var outcomes Outcomes
		for n := range g.items {
			kind := g.items[n].rejectedKind
			if kind == "" {
				continue
			}
			if outcomes == nil {
				outcomes = make(Outcomes)
			}
			o := outcomes[kind]
			o.Rejected++
			outcomes[kind] = o
		}
		g.batch.addOutcomes(outcomes)
	}
}
