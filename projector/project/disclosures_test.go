package project_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// The call returned both people; one was erased before its event was projected.
func TestProjector_StoresDisclosuresAndNotifiesOfErasedPeople(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.SuppressedBy(t, suppress.UserID, "42")
	sealing, err := event.NewDisclosureCipher(bytes.Repeat([]byte("k"), event.DisclosureKeySize))
	require.NoError(t, err)
	settings := event.WebhookSettings{OrganizationID: "acme", URL: "https://hooks.example.org/"}
	value, err := json.Marshal(settings)
	require.NoError(t, err)
	h.Publish(kafka.Message{Topic: event.TopicAccount, Key: []byte(settings.EventKey()), Value: value})
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Suppressed, d.Disclosures = set, sealing })
	u := event.Usage{
		RequestID: "r-1", OrganizationID: "acme", KeyID: "k", At: time.Now().UTC(), Method: "POST", Endpoint: "/v1/x",
		Status: 200, Outcome: event.OutcomeCharged, Credits: 1, Returned: []string{"unreadable"},
	}
	u.Period = event.PeriodOf(u.At)
	for _, name := range []string{"codehost-person 42", "network-person p1"} {
		d, ok := set.Key().Record(name)
		require.True(t, ok)
		u.Returned = append(u.Returned, sealing.Seal(d))
	}
	value, err = u.AppendJSON(nil)
	require.NoError(t, err)
	h.Publish(kafka.Message{Topic: event.TopicUsage, Key: []byte("acme"), Value: value})

	var delivered []string
	projectortest.Eventually(t, func(ctx context.Context) bool {
		delivered = nil
		require.NoError(t, bus.Scan(ctx, h.Kafka, []string{event.TopicWebhookTask}, func(m kafka.Message) error {
			var task event.WebhookTask
			require.NoError(t, json.Unmarshal(m.Value, &task))
			delivered = append(delivered, string(task.Body))
			return nil
		}))
		return len(delivered) > 0 && h.Count("SELECT count() FROM "+readmodel.DisclosuresTable) == 1
	}, "the notification")
	require.Len(t, delivered, 1)
	require.True(t, strings.HasSuffix(delivered[0], `"data":{"request_ids":["r-1"]}}`), delivered[0])
	require.EqualValues(t, 1, h.Count("SELECT count() FROM "+readmodel.UsageTable+" WHERE request_id = 'r-1'"))
	want, _ := set.Key().Record("network-person p1")
	require.EqualValues(t, 1, h.Count("SELECT count() FROM "+readmodel.DisclosuresTable+
		" WHERE platform = 'network' AND organization_id = 'acme' AND request_id = 'r-1' AND lower(hex(identity)) = '"+
		suppress.Hash(want.Hash).String()+"'"))
}
