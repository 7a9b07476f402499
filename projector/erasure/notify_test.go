package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector/erasure"
	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

const hook = "https://hooks.example.org/muster?token=t"

// disclosing writes disclosures and reads the deliveries about them.
type disclosing struct {
	*projectortest.Harness
	set *suppress.Set
	n   int
}

// setEndpoint sets the endpoint for events of an organization.
func (d *disclosing) setEndpoint(organization string) {
	d.T.Helper()
	s := event.WebhookSettings{OrganizationID: organization, URL: hook, UpdatedAt: time.Now().UTC()}
	value, err := json.Marshal(s)
	require.NoError(d.T, err)
	d.Publish(kafka.Message{Topic: event.TopicAccount, Key: []byte(s.EventKey()), Value: value})
}

func (d *disclosing) disclosure(record string) event.Disclosure {
	d.T.Helper()
	out, ok := d.set.Key().Record(record)
	require.True(d.T, ok)
	return out
}

// returned writes that a call returned records.
func (d *disclosing) returned(organization, request string, records ...string) {
	d.T.Helper()
	var rows readmodel.DisclosureBatch
	for _, r := range records {
		rows.Add(&event.Usage{OrganizationID: organization, RequestID: request, At: time.Now()}, d.disclosure(r))
	}
	d.n++
	require.NoError(d.T, readmodel.InsertDisclosures(d.T.Context(), d.Conn, fmt.Sprint("d", d.n), &rows))
}

// deliveries returns the request IDs of the deliveries, by organization and webhook-id.
func (d *disclosing) deliveries() map[string]map[string][]string {
	d.T.Helper()
	out := make(map[string]map[string][]string)
	topics := []string{event.TopicWebhookTask}
	require.NoError(d.T, bus.Scan(d.T.Context(), d.Kafka, topics, func(m kafka.Message) error {
		var task event.WebhookTask
		if err := json.Unmarshal(m.Value, &task); err != nil {
			return err
		}
		require.NoError(d.T, task.Validate())
		require.Equal(d.T, hook, task.URL)
		to, err := task.Endpoint()
		require.NoError(d.T, err)
		require.Equal(d.T, to.ID(), string(m.Key))
		var body struct {
			Type      string
			Timestamp time.Time
			Data      struct {
				RequestIDs []string `json:"request_ids"`
			}
		}
		require.NoError(d.T, json.Unmarshal(task.Body, &body, json.MatchCaseInsensitiveNames(true),
			json.RejectUnknownMembers(true)), string(task.Body))
		require.Equal(d.T, "person.erased", body.Type)
		require.WithinDuration(d.T, time.Now(), body.Timestamp, time.Minute)
		if out[task.OrganizationID] == nil {
			out[task.OrganizationID] = make(map[string][]string)
		}
		out[task.OrganizationID][task.DeliveryID] = body.Data.RequestIDs
		return nil
	}))
	return out
}

func values(deliveries map[string][]string) (out [][]string) {
	for _, ids := range deliveries {
		out = append(out, ids)
	}
	return out
}

func (d *disclosing) rows() uint64 {
	return d.Count("SELECT count() FROM " + readmodel.DisclosuresTable)
}

func TestEraser_NotifiesReceiversOfErasedPeople(t *testing.T) {
	h := projectortest.New(t)
	d := &disclosing{Harness: h, set: projectortest.Suppressed(t, "ghost")}
	projectortest.InsertAll(t, h, "before", projectortest.People("Ghost"))
	d.setEndpoint("acme")
	d.setEndpoint("unrelated")
	d.returned("acme", "r-2", "codehost-person 42", "codehost-person 100")
	d.returned("acme", "r-1", "codehost-person 42")
	d.returned("acme", "r-1", "codehost-person 42") // repeated events
	d.returned("silent", "r-3", "codehost-person 42")
	d.returned("unrelated", "r-4", "codehost-person 100")

	asked := event.Erasure{RequestID: "asked", Action: event.ErasureRequested, At: time.Now().UTC().Add(-time.Second),
		RequestedAt: "2026-11-21T00:00:00Z", Urgent: true}
	value, err := json.Marshal(&asked)
	require.NoError(t, err)
	h.Publish(kafka.Message{Topic: event.TopicErasureRequest, Key: []byte("asked"), Value: value})
	e := startEraser(t, h, d.set)
	e.await(t, event.ErasureSuppressed)

	got := d.deliveries()
	require.Len(t, got, 1)
	require.Equal(t, [][]string{{"r-1", "r-2"}}, values(got["acme"]))
	require.EqualValues(t, 2, d.rows(), "those of the other person")
	var status erasure.Status
	projectortest.Eventually(t, func(ctx context.Context) bool {
		all, err := erasure.Requests(ctx, h.Kafka)
		require.NoError(t, err)
		status, err = erasure.Find(all, "asked")
		require.NoError(t, err)
		return !status.SuppressedAt.IsZero()
	}, "the status")
	require.Equal(t, []string{"acme"}, status.Notified)
	require.Equal(t, []string{"silent"}, status.Unreachable)

	// A row that appears after the sweep is found by the final scan.
	d.returned("acme", "r-5", "codehost-person 42")
	e.await(t, event.ErasureDeleted)
	require.ElementsMatch(t, [][]string{{"r-1", "r-2"}, {"r-5"}}, values(d.deliveries()["acme"]))
	require.EqualValues(t, 2, d.rows())
}

func TestNotifier_RepeatsInterruptedNotificationWithItsID(t *testing.T) {
	h := projectortest.New(t)
	d := &disclosing{Harness: h, set: projectortest.SuppressedBy(t, suppress.UserID, "42")}
	d.setEndpoint("acme")
	d.returned("acme", "r-1", "codehost-person 42")
	n := erasure.Notifier{Kafka: h.Kafka, Conn: h.Conn, Suppressed: d.set, Writer: h.Writer, Now: time.Now}
	people := []event.Disclosure{d.disclosure("codehost-person 42"), d.disclosure("codehost-person 100")}
	// It is published and logged, but not deleted.
	killed := &killedConn{Conn: h.Conn}
	interrupted := n
	interrupted.Conn = killed
	for range 2 {
		_, err := interrupted.Notify(t.Context(), people)
		require.ErrorIs(t, err, errKilled)
		require.EqualValues(t, 1, d.rows())
	}
	require.Equal(t, [][]string{{"r-1"}}, values(d.deliveries()["acme"]), "one webhook-id")

	d.returned("acme", "r-2", "codehost-person 42")
	rows, err := n.Notify(t.Context(), people)
	require.NoError(t, err)
	require.EqualValues(t, 2, rows)
	require.ElementsMatch(t, [][]string{{"r-1"}, {"r-1", "r-2"}}, values(d.deliveries()["acme"]),
		"another webhook-id, so that the second call is not lost")
	require.Zero(t, d.rows())
	rows, err = n.Notify(t.Context(), people)
	require.NoError(t, err)
	require.Zero(t, rows)
}

// killedConn fails to execute statements, as if the process were killed before them.
type killedConn struct{ driver.Conn }

var errKilled = errors.New("killed")

func (killedConn) Exec(context.Context, string, ...any) error { return errKilled }

func TestNotifier_SplitsManyRequests(t *testing.T) {
	h := projectortest.New(t)
	d := &disclosing{Harness: h, set: projectortest.SuppressedBy(t, suppress.UserID, "42")}
	d.setEndpoint("acme")
	var rows readmodel.DisclosureBatch
	const calls = 12_000
	for i := range calls {
		rows.Add(&event.Usage{OrganizationID: "acme", RequestID: fmt.Sprintf("01980c5e-6b1f-7c3a-9d55-%012d", i),
			At: time.Now()}, d.disclosure("codehost-person 42"))
	}
	require.NoError(t, readmodel.InsertDisclosures(t.Context(), h.Conn, "many", &rows))
	n := erasure.Notifier{Kafka: h.Kafka, Conn: h.Conn, Suppressed: d.set, Writer: h.Writer, Now: time.Now}
	deleted, err := n.Notify(t.Context(), []event.Disclosure{d.disclosure("codehost-person 42")})
	require.NoError(t, err)
	require.EqualValues(t, calls, deleted)
	require.Zero(t, d.rows())
	seen := make(map[string]bool)
	for _, ids := range d.deliveries()["acme"] {
		for _, id := range ids {
			seen[id] = true
		}
	}
	require.Len(t, seen, calls)
}
