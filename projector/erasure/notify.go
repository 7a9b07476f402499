package erasure

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Notifier tells organizations that people whose records they received were erased. All fields are required.
type Notifier struct {
	Kafka      bus.Config
	Conn       driver.Conn
	Suppressed *suppress.Set
	Writer     *bus.Writer
	Now        func() time.Time
}

// Notify publishes the notifications about people that are erased, logs their receivers, and deletes the rows that they
// list. It returns the number of these rows. If it is interrupted, a repeated call publishes notifications with the
// same webhook-id, unless more calls returned the people meanwhile. People who are not erased are ignored.
func (n *Notifier) Notify(ctx context.Context, people []event.Disclosure) (rows int64, err error) {
	versions := make(map[event.Disclosure]record.Version, len(people))
	for _, d := range people {
		if v, erased := n.Suppressed.Disclosed(d); erased {
			versions[d] = v
		}
	}
	// Those of one erasure follow each other.
	erased := slices.SortedFunc(maps.Keys(versions), func(a, b event.Disclosure) int {
		return cmp.Or(cmp.Compare(versions[a], versions[b]), slices.Compare(a.Hash[:], b.Hash[:]))
	})
	to := destinations{
		endpoints: sync.OnceValues(func() (map[string]string, error) { return n.endpoints(ctx) }),
		layout:    sync.OnceValues(func() (readmodel.Layout, error) { return readmodel.FindLayout(ctx, n.Conn) }),
	}
	for part := range slices.Chunk(erased, peoplePerNotice) {
		found, err := n.notify(ctx, part, versions, to)
		if err != nil {
			return rows, fmt.Errorf("notify receivers: %w", err)
		}
		rows += found
	}
	return rows, nil
}

// destinations are read at most once for all people: where receivers are notified, and where rows are deleted.
type destinations struct {
	endpoints func() (map[string]string, error)
	layout    func() (readmodel.Layout, error)
}

// received is what an organization received of the people of an erasure.
type received struct {
	organization string
	version      record.Version
}

func (n *Notifier) notify(
	ctx context.Context, people []event.Disclosure, versions map[event.Disclosure]record.Version, to destinations,
) (int64, error) {
	requests := make(map[received]map[string]bool)
	var rows []uint64
	err := readmodel.ReadDisclosures(ctx, n.Conn, people, 0, func(d readmodel.DisclosedTo) error {
		v, erased := versions[d.Disclosure]
		if !erased {
			return nil
		}
		by := received{d.OrganizationID, v}
		if requests[by] == nil {
			requests[by] = make(map[string]bool)
		}
		requests[by][d.RequestID] = true
		rows = append(rows, d.Row)
		return nil
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	endpoints, err := to.endpoints()
	if err != nil {
		return 0, err
	}
	notices, messages, err := n.messages(requests, endpoints)
	if err != nil {
		return 0, err
	}
	if err := bus.WriteAll(ctx, n.Writer, messages); err != nil {
		return 0, fmt.Errorf("publish deliveries: %w", err)
	}
	if err := bus.WriteAll(ctx, n.Writer, notices); err != nil {
		return 0, fmt.Errorf("log receivers: %w", err)
	}
	layout, err := to.layout()
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(rows, hashesPerStatement) {
		err := deleteRows(ctx, n.Conn, layout, readmodel.DisclosuresTable, readmodel.DisclosureHash, listOf(part))
		if err != nil {
			return 0, err
		}
	}
	return int64(len(rows)), nil
}

// messages returns the deliveries to the receivers, and the events about them for the log of requests, one by erasure.
func (n *Notifier) messages(
	requests map[received]map[string]bool, endpoints map[string]string,
) (notices, messages []kafka.Message, err error) {
	receivers := slices.SortedFunc(maps.Keys(requests), func(a, b received) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.organization, b.organization))
	})
	var logged []event.Erasure
	for _, to := range receivers {
		at := to.version.String()
		if len(logged) == 0 || logged[len(logged)-1].RequestedAt != at {
			logged = append(logged, event.Erasure{Action: event.ErasureNotified, At: n.Now().UTC(), RequestedAt: at})
		}
		notice := &logged[len(logged)-1]
		if endpoints[to.organization] == "" {
			notice.Unreachable = append(notice.Unreachable, to.organization)
			continue
		}
		notice.Notified = append(notice.Notified, to.organization)
		ids := slices.Sorted(maps.Keys(requests[to]))
		for part := range slices.Chunk(ids, requestsPerNotice) {
			m, err := n.message(to, endpoints[to.organization], part)
			if err != nil {
				return nil, nil, err
			}
			messages = append(messages, m)
		}
	}
	for _, notice := range logged {
		m, err := logMessage(notice)
		if err != nil {
			return nil, nil, err
		}
		notices = append(notices, m)
	}
	return notices, messages, nil
}

// erasedData is the data of an event.WebhookPersonErased.
type erasedData struct {
	RequestIDs []string `json:"request_ids"`
}

// message returns a delivery. Its id is derived from the erasure, the organization and the requests, so that a repeated
// one is delivered once.
func (n *Notifier) message(to received, url string, requests []string) (m kafka.Message, err error) {
	now := n.Now().UTC()
	body, err := json.Marshal(event.WebhookEvent{
		Type: event.WebhookPersonErased, Timestamp: now, Data: erasedData{requests},
	})
	if err != nil {
		return m, fmt.Errorf("encode event: %w", err)
	}
	identity, err := json.Marshal([]any{to.organization, int64(to.version), requests})
	if err != nil {
		return m, fmt.Errorf("encode event: %w", err)
	}
	sum := sha256.Sum256(identity)
	task := event.WebhookTask{
		DeliveryID: "erased-" + hex.EncodeToString(sum[:16]), OrganizationID: to.organization, URL: url, Body: body,
		CreatedAt: now,
	}
	key, id, value, err := task.Message()
	if err != nil {
		return m, err
	}
	return kafka.Message{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value, Headers: bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: "/muster/projector", Subject: task.DeliveryID, Time: now,
			ContentType: "application/json",
		}),
	}, nil
}

// endpoints reads the endpoints for events, by organization.
func (n *Notifier) endpoints(ctx context.Context) (map[string]string, error) {
	out := make(map[string]string)
	err := bus.Scan(ctx, n.Kafka, []string{event.TopicAccount}, func(m kafka.Message) error {
		if s, ok, err := event.DecodeWebhookSettings(m.Key, m.Value); ok && err == nil {
			out[s.OrganizationID] = s.URL
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	return out, nil
}
