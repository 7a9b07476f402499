package project_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func contextOf(t *testing.T, id, profile string, identities ...string) *event.Context {
	t.Helper()
	now := time.Now().UTC()
	return &event.Context{
		Call:   event.ContextCall{RequestID: id, OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now},
		Status: event.ContextComplete, At: now,
		Profile: jsontext.Value(profile), Identities: identities,
	}
}

// Events are read again, such as after resetting a group's offsets.
func TestProjector_OmitsEventsOfErasedPeople(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Suppressed = set })
	publish := func(topic, key string, e any) {
		value, err := json.Marshal(e)
		require.NoError(t, err)
		h.Publish(kafka.Message{Topic: topic, Key: []byte(key), Value: value})
	}
	publish(event.TopicContext, "a", contextOf(t, "late", `{"codehost":{"username":"ghost"}}`))
	publish(event.TopicContext, "a", contextOf(t, "other", `{"full_name":"Bob"}`))
	now := time.Now().UTC()
	attempt := &event.WebhookAttempt{
		DeliveryID: "d", Attempt: 1, EndpointID: "e", OrganizationID: "o", RequestID: "q", Status: event.WebhookDead,
		Address: "https://x.example/", At: now, CreatedAt: now,
		Response: `{"codehost_username":"ghost"}`,
	}
	publish(event.TopicWebhook, "e", attempt)
	projectortest.Eventually(t, func(context.Context) bool {
		return h.Count("SELECT count() FROM contexts WHERE request_id = 'other'") == 1 &&
			h.Count("SELECT count() FROM webhook_attempts") == 1
	}, "the events")
	require.Zero(t, h.Count("SELECT count() FROM contexts WHERE request_id = 'late'"))
	require.Zero(t, h.Count("SELECT count() FROM webhook_attempts WHERE response != ''"))
}

// It is neither published as rejected nor kept on its topic.
func TestProjector_OmitsErasedRecordWithOtherKey(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Suppressed = set })
	topic := record.KindCodehostPerson.Topic()
	h.Publish(kafka.Message{Topic: topic, Key: []byte("x"),
		Value: []byte(`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`)})
	h.Publish(kafka.Message{Topic: topic, Key: []byte("77"),
		Value: []byte(`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`)})
	h.CaughtUp()
	last := map[string]kafka.Message{}
	require.NoError(t, bus.Scan(t.Context(), h.Kafka, []string{topic}, func(m kafka.Message) error {
		last[string(m.Key)] = m
		return nil
	}))
	require.Contains(t, last, "x")
	require.Nil(t, last["x"].Value, "a tombstone")
	require.NotNil(t, last["77"].Value, "the key is another account's, whose newest record a tombstone would remove")
	require.Len(t, last, 2, "an empty key identifies nothing")
	entries := 0
	require.NoError(t, bus.Scan(t.Context(), h.Kafka, []string{event.TopicErasure}, func(kafka.Message) error {
		entries++
		return nil
	}))
	require.NotZero(t, entries, "their id is suppressed: an older version may have rows")
	require.Empty(t, h.RejectedRecords())
}

// The account owner and its other records are unaffected.
func TestProjector_OmitsCommitsOfErasedAuthors(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.SuppressedBy(t, suppress.Email, "ada@example.com")
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Suppressed = set })
	commit := func(sha, author string) string {
		return `"sha":"` + sha + `","author_email":"` + author + `@example.com","author_date":"2026"}`
	}
	owner := `{"user_id":7,"codehost_username":"bob","last_updated":"2026"`
	h.Publish(
		kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
			Value: []byte(owner + `,"commits":[{` + commit("a", "ada") + `,{` + commit("b", "bob") + `]}`)},
		projectortest.Message(projectortest.Decode(t, record.KindCodehostCommit, `{"user_id":7,`+commit("c", "Ada"))),
		projectortest.Message(projectortest.Decode(t, record.KindCodehostCommit, `{"user_id":7,`+commit("d", "bob"))),
		projectortest.Pair(t, projectortest.Decode(t, record.KindCodehostPerson, owner+`}`)),
	)
	buried := func() (keys []string) {
		require.NoError(t, bus.Scan(t.Context(), h.Kafka, []string{record.KindCodehostPerson.Topic(),
			record.KindCodehostCommit.Topic(), event.TopicVersionBump}, func(m kafka.Message) error {
			if m.Value == nil {
				keys = append(keys, string(m.Key))
			}
			return nil
		}))
		return keys
	}
	h.CaughtUp()
	first := buried()
	require.Equal(
		t,
		[]string{"7/c"},
		slices.Compact(slices.Clone(first)),
	) // one per attempt
	h.Publish(
		projectortest.Message(projectortest.Decode(t, record.KindCodehostCommit, `{"user_id":7,`+commit("e", "bob"))),
	) // a separate batch
	h.CaughtUp()
	require.EqualValues(t, 3, h.Count("SELECT count() FROM codehost_commits"))
	require.EqualValues(t, 3, h.Count("SELECT count() FROM codehost_commits WHERE sha IN ('b', 'd', 'e')"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM seen_versions"))
	require.Equal(t, first, buried(), "not by the second batch: later data may belong to a person whose erasure was "+
		"withdrawn")
}

func TestProjector_DoesNotLogRejectedData(t *testing.T) {
	h := projectortest.New(t)
	require.NoError(t, h.Conn.Exec(t.Context(), "ALTER TABLE network_people ADD CONSTRAINT no_ogres CHECK username "+
		"!= 'ogre' AND email_keys != ['x']"))
	var out bytes.Buffer
	stop := h.Start(func(_ *projector.Config, d *project.Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&out,
			nil))
	})
	h.PublishRecords(projectortest.Decode(t, record.KindNetworkPerson,
		`{"profile_id":"p1","username":"ogre","emails":["shrek@swamp.example"],"last_updated":"2026"}`))
	h.CaughtUp()
	stop()
	require.Contains(t, out.String(), "rejects a record")
	require.NotContains(t, out.String(), "shrek")
}

func TestProjector_RejectionOfErasedParentOmitsData(t *testing.T) {
	h := projectortest.New(t)
	require.NoError(t, h.Conn.Exec(t.Context(), "ALTER TABLE codehost_people ADD CONSTRAINT no_ogres CHECK "+
		"codehost_username != 'ogre'"))
	h.Publish(kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
		Value: []byte(`{"user_id":7,"codehost_username":"ogre","repos":[{"id":"no number"}],"last_updated":"2026"}`)})
	h.Start(nil)
	h.CaughtUp()
	require.Len(t, h.RejectedRecords(), 2)
}
