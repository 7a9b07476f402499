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

// OnRefused says how the letter of a record is made that the brokers find too large:
// topics that an operator made may take less than the largest record. Without it, and
// of other messages than records and letters, that stops the publisher. letter may be
// called from any goroutine until the batch is settled, once a record.
func (b *Batch) OnRefused(letter func(kind record.Kind, place Place, m kafka.Message, why error) (kafka.Message, error)) {
	b.letter = letter
}

// alone returns a writer that sends each message by itself: which of those that are
// sent together is too large is not said.
func (p *Publisher) alone() *bus.Writer {
	if w := p.single.Load(); w != nil {
		return w
	}
	w := p.writer.Alone()
	if !p.single.CompareAndSwap(nil, w) {
		return p.single.Load() // of another lane; one that sent nothing has nothing to close
	}
	return w
}

// outgoing is what one write sends, and what it is of.
type outgoing struct {
	messages []kafka.Message
	of       []origin
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
	o.of = append(o.of, origin{b, i})
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

func (i *item) letter() bool { return i.kind == "" && i.message.Topic == event.TopicRejected }

// refusal is the error of messages that are too large, while all others are stored.
type refusal struct {
	err  *bus.RefusedError
	from []origin // by the messages of err
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refusal is the error of a write, a [*refusal] if nothing else was wrong than the size
// of some messages. No permission, or no such topic, is nothing that one of them could
// help.
func (o *outgoing) refusal(err error) error {
	refused, ok := errors.AsType[*bus.RefusedError](err)
	if !ok {
		return err
	}
	r := &refusal{err: refused}
	for _, m := range refused.Messages {
		_, tooLarge := errors.AsType[kafka.MessageTooLargeError](m.Err)
		if !tooLarge && !errors.Is(m.Err, kafka.MessageSizeTooLarge) && !errors.Is(m.Err, kafka.RecordListTooLarge) {
			return err
		}
		r.from = append(r.from, o.of[m.Index])
	}
	for _, at := range o.of {
		// Letters need not be sent again: they have no order.
		at.item.stored = at.item.letter()
	}
	for _, at := range r.from {
		at.item.stored = false
	}
	return r
}

// replace puts letters in the place of records, and shorter ones in that of letters. The
// error is the refusal where that cannot be.
func (r *refusal) replace() error {
	for n, at := range r.from {
		i := at.item
		switch {
		case i.kind != "" && at.batch.letter != nil:
			m, err := at.batch.letter(i.kind, i.place, i.message, r.err.Messages[n].Err)
			if err != nil {
				return errors.Join(r.err, err)
			}
			*i = item{message: m, stripe: i.stripe, refused: i.kind}
		case i.letter():
			shorter, err := shorten(i.message.Value)
			if err != nil {
				return errors.Join(r.err, err)
			}
			if shorter == nil {
				return r.err
			}
			i.message.Value = shorter
		default:
			return r.err
		}
	}
	return nil
}

// shorten leaves in a letter what is kept of records that are too large; nil, if it
// has no more.
func shorten(value []byte) ([]byte, error) {
	var r event.Rejected
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("shorten a rejected record: %w", err)
	}
	if len(r.Raw) <= event.MaxRejectedRaw {
		return nil, nil
	}
	r.Raw = r.Raw[:event.MaxRejectedRaw]
	shorter, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("shorten a rejected record: %w", err)
	}
	return shorter, nil
}

// noteRefused counts the letters of refused records, once they are stored.
func noteRefused(groups []group) {
	for _, g := range groups {
		var outcomes Outcomes
		for n := range g.items {
			kind := g.items[n].refused
			if kind == "" {
				continue
			}
			if outcomes == nil {
				outcomes = make(Outcomes)
			}
			o := outcomes[kind]
			o.Refused++
			outcomes[kind] = o
		}
		g.batch.note(outcomes)
	}
}
