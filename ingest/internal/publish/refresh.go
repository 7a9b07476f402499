package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/dedup"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Outcome counts the records of a kind that were not published completely.
type Outcome struct {
	// VersionOnly is the number of records with unchanged content and a new version. The version
	// was published on event.TopicVersionBump.
	VersionOnly int64
	// Unchanged is the number of records with the last published version and content. Stale is the
	// number of records that are older, or have the same version, no greater revision and different
	// content. Nothing was published for them.
	Unchanged, Stale int64
	// Conflicting is the number of stale records with the same version and different content.
	Conflicting int64
	// Rejected is the number of records that were too large for the brokers and were replaced by
	// rejected records: [Batch.OnRejected].
	Rejected int64
}

// Outcomes are outcomes by kind.
type Outcomes map[record.Kind]Outcome

// Outcomes returns the outcomes of the batch's records. The batch must be complete.
func (b *Batch) Outcomes() Outcomes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcomes
}

func (b *Batch) addOutcomes(outcomes Outcomes) {
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
		sum.VersionOnly += o.VersionOnly
		sum.Unchanged += o.Unchanged
		sum.Stale += o.Stale
		sum.Conflicting += o.Conflicting
		sum.Rejected += o.Rejected
		b.outcomes[kind] = sum
	}
}

// writeDeduplicated writes new records and records their states. It holds their identities until then.
func (p *Publisher) writeDeduplicated(ctx context.Context, writer *bus.Writer, groups []group) (err error) {
	var identities []dedup.Identity
	for _, g := range groups {
		for _, i := range g.items {
			if i.kind != "" {
				identities = append(identities, dedup.NewIdentity(i.kind, i.message.Key, i.stripe))
			}
		}
	}
	// MarkUsed requires a transaction that holds a stripe.
	if first := &groups[0].items[0]; len(identities) == 0 {
		identities = append(identities, dedup.NewIdentity("", first.message.Key, first.stripe))
	}
	tx, err := p.opts.Store.Begin(ctx, identities)
	if err != nil {
		return err
	}
	var out outgoing
	outcomes := make([]Outcomes, len(groups))
	n := 0
	for group, g := range groups {
		counted := make(Outcomes)
		outcomes[group] = counted
		for at := range g.items {
			i := &g.items[at]
			if i.kind == "" {
				out.add(i.message, g.batch, i)
				continue
			}
			m, publish, err := p.decide(tx, n, *i, p.opts.Republish || g.batch.republish, counted)
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
		if err := tx.MarkUsed(ctx, topics...); err != nil {
			return errors.Join(err, tx.Discard())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for at, g := range groups {
		g.batch.addOutcomes(outcomes[at])
	}
	return nil
}

// decide returns the message to publish for the record that is the n-th of the transaction, and
// whether to publish one. republish publishes unchanged records too.
func (p *Publisher) decide(
	tx *dedup.Tx, n int, i item, republish bool, outcomes Outcomes,
) (kafka.Message, bool, error) {
	before, found := tx.Get(n)
	outcome := outcomes[i.kind]
	sameContent := i.state.Hash == before.Hash
	switch {
	case !found:
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
	case republish:
		if i.state.Version == before.Version && i.state.Revision < before.Revision {
			// A republished record keeps the revision by which it replaced other content.
			i.state.Revision = before.Revision
			i.message.Headers = withRevision(i.message.Headers, before.Revision)
		}
	case i.state.Version == before.Version && sameContent:
		outcome.Unchanged++
		outcomes[i.kind] = outcome
		return kafka.Message{}, false, nil
	case sameContent && !i.deleted && !p.unconditional[i.kind]:
		m, err := versionBump(i)
		if err != nil {
			return m, false, err
		}
		outcome.VersionOnly++
		outcomes[i.kind] = outcome
		tx.Set(n, i.state)
		return m, true, nil
	}
	tx.Set(n, i.state)
	return i.message, true, nil
}

// withRevision returns a copy of headers with a mapping revision.
func withRevision(headers []kafka.Header, revision uint32) []kafka.Header {
	headers = slices.DeleteFunc(slices.Clone(headers),
		func(h kafka.Header) bool { return h.Key == event.HeaderRevision })
	return append(headers,
		kafka.Header{Key: event.HeaderRevision, Value: strconv.AppendUint(nil, uint64(revision), 10)})
}

// replaces reports whether a record replaces a published one of the same version and different
// content. The content hash does not count: the first published record stays, so that a changed
// mapping does not replace the half of all records whose new hash is greater. The hash decides only
// between records published without knowledge of each other.
func replaces(i item, before dedup.State) bool {
	return i.state.Revision > before.Revision || i.state.Revision == before.Revision && i.deleted
}

// versionBump returns the message for a record with a new version and unchanged content. It does not change the
// record's message, which is published after all if the record before it is rejected.
func versionBump(i item) (kafka.Message, error) {
	s := event.VersionBump{Kind: i.kind, Key: string(i.message.Key), Version: i.versionText, Hash: i.state.Hash}
	value, err := json.Marshal(s)
	if err != nil {
		return kafka.Message{}, fmt.Errorf("encode version bump: %w", err)
	}
	headers := slices.Clone(i.message.Headers)
	for h := range headers {
		if headers[h].Key == bus.HeaderType {
			headers[h].Value = []byte(event.TypeSeen)
		}
	}
	return kafka.Message{
		Topic:   event.TopicVersionBump,
		Key:     []byte(s.MessageKey()),
		Value:   value,
		Headers: headers,
	}, nil
}
