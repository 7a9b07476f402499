package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/versions"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Outcome counts the records of a kind that were not published whole.
type Outcome struct {
	// Seen is the number of records whose content is known and whose version is
	// new: the version was published, on event.TopicSeen.
	Seen int64
	// Unchanged is the number of records that were known, version included, and
	// Stale of those that are older than what is known, or have its version, no greater
	// revision and other content. Nothing was published for them.
	Unchanged, Stale int64
	// Conflicting is how many of the stale ones have the version of what is known and other content.
	Conflicting int64
	// Refused is the number of records that the brokers found too large, and whose
	// letters were published: [Batch.OnRefused].
	Refused int64
}

// Outcomes holds outcomes by kind.
type Outcomes map[record.Kind]Outcome

// Outcomes returns what became of the batch's records, once it is settled.
func (b *Batch) Outcomes() Outcomes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcomes
}

func (b *Batch) note(outcomes Outcomes) {
	if len(outcomes) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcomes == nil {
		b.outcomes = make(Outcomes, len(outcomes))
	}
	for kind, o := range outcomes {
		sum := b.outcomes[kind]
		sum.Seen += o.Seen
		sum.Unchanged += o.Unchanged
		sum.Stale += o.Stale
		sum.Conflicting += o.Conflicting
		sum.Refused += o.Refused
		b.outcomes[kind] = sum
	}
}

// writeNew writes what is not known yet and notes it as known. The identities are
// held meanwhile.
func (p *Publisher) writeNew(ctx context.Context, writer *bus.Writer, groups []group) (err error) {
	var identities []versions.Identity
	for _, g := range groups {
		for _, i := range g.items {
			if i.kind != "" {
				identities = append(identities, versions.NewIdentity(i.kind, i.message.Key, i.stripe))
			}
		}
	}
	if first := &groups[0].items[0]; len(identities) == 0 { // what is stored is noted beside nobody's Bind
		identities = append(identities, versions.NewIdentity("", first.message.Key, first.stripe))
	}
	tx, err := p.opts.Versions.Begin(ctx, identities)
	if err != nil {
		return err
	}
	var out outgoing
	outcomes := make([]Outcomes, len(groups))
	n := 0
	for group, g := range groups {
		noted := make(Outcomes)
		outcomes[group] = noted
		for at := range g.items {
			i := &g.items[at]
			if i.kind == "" {
				out.add(i.message, g.batch, i)
				continue
			}
			m, publish, err := p.decide(tx, n, *i, p.opts.Again || g.batch.again, noted)
			if err != nil {
				return errors.Join(err, tx.Discard())
			}
			if publish {
				out.add(m, g.batch, i)
			}
			n++
		}
	}
	if err := p.send(ctx, writer, out); err != nil {
		return errors.Join(err, tx.Discard())
	}
	if topics := out.topics(); len(topics) > 0 && !p.opts.Dry {
		if err := tx.Used(ctx, topics...); err != nil {
			return errors.Join(err, tx.Discard())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for at, g := range groups {
		g.batch.note(outcomes[at])
	}
	return nil
}

// decide says what is published of the record that is the n-th of the
// transaction, if anything; again: also when it is known.
func (p *Publisher) decide(tx *versions.Tx, n int, i item, again bool, outcomes Outcomes) (kafka.Message, bool, error) {
	before, known := tx.Get(n)
	outcome := outcomes[i.kind]
	sameContent := i.state.Hash == before.Hash
	switch {
	case !known:
	case i.state.Version < before.Version:
		outcome.Stale++
		outcomes[i.kind] = outcome
		return kafka.Message{}, false, nil
	case i.state.Version == before.Version && !sameContent && !replaces(i, before):
		outcome.Stale++
		if before.Hash != record.DeletedHash {
			outcome.Conflicting++
		}
		outcomes[i.kind] = outcome
		return kafka.Message{}, false, nil
	case again:
		if i.state.Version == before.Version && i.state.Revision < before.Revision {
			// What is published again keeps the revision by which it replaced other content.
			i.state.Revision = before.Revision
			i.message.Headers = withRevision(i.message.Headers, before.Revision)
		}
	case i.state.Version == before.Version && sameContent:
		outcome.Unchanged++
		outcomes[i.kind] = outcome
		return kafka.Message{}, false, nil
	case sameContent && !i.deleted && !p.whole[i.kind]:
		m, err := seen(i)
		if err != nil {
			return m, false, err
		}
		outcome.Seen++
		outcomes[i.kind] = outcome
		tx.Set(n, i.state)
		return m, true, nil
	}
	tx.Set(n, i.state)
	return i.message, true, nil
}

// withRevision returns headers with a mapping revision. It does not change the given ones.
func withRevision(headers []kafka.Header, revision uint32) []kafka.Header {
	headers = slices.DeleteFunc(slices.Clone(headers), func(h kafka.Header) bool { return h.Key == event.HeaderRevision })
	return append(headers, kafka.Header{Key: event.HeaderRevision, Value: strconv.AppendUint(nil, uint64(revision), 10)})
}

// replaces reports whether a record replaces one of the same version and other content that was
// published before. Its content hash does not count: what was published first stays, so that a
// changed mapping does not replace the half of all records whose new hash is greater. The hash
// decides only between records that were published without knowledge of each other.
func replaces(i item, before versions.State) bool {
	return i.state.Revision > before.Revision || i.state.Revision == before.Revision && i.deleted
}

// seen makes the message of a new version out of that of its record, which it leaves
// as it is: the record is published after all if the one before it is refused.
func seen(i item) (kafka.Message, error) {
	s := event.Seen{Kind: i.kind, Key: string(i.message.Key), Version: i.text, Hash: i.state.Hash}
	value, err := json.Marshal(s)
	if err != nil {
		return kafka.Message{}, fmt.Errorf("write seen version: %w", err)
	}
	headers := slices.Clone(i.message.Headers)
	for h := range headers {
		if headers[h].Key == bus.HeaderType {
			headers[h].Value = []byte(event.TypeSeen)
		}
	}
	return kafka.Message{Topic: event.TopicSeen, Key: []byte(s.MessageKey()), Value: value, Headers: headers}, nil
}
