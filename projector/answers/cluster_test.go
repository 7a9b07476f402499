package answers_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// A replica that lags behind shows a builder older rows than those that were touched: here they come after the touch.
func TestAnswers_LaggingReplicaIsReadAgain(t *testing.T) {
	s, _ := projectortest.OpenCluster(t)
	h := projectortest.Over(t, s)
	h.Start(nil)
	for user := 100; user < 104; user++ { // on both shards
		h.PublishRecords(projectortest.AccountRecord(t, user, "2024", "old"))
	}
	h.CaughtUp()
	touch := func(user int, rec *record.Record) kafka.Message {
		task := event.AnswerTask{Kind: record.KindCodehostPerson, ID: strconv.Itoa(user), Version: int64(rec.Version)}
		value, err := json.Marshal(task)
		require.NoError(t, err)
		return kafka.Message{Topic: event.TopicAnswerTask, Key: []byte(task.MessageKey()), Value: value}
	}
	var newer []*record.Record
	for user := 100; user < 104; user++ {
		rec := projectortest.AccountRecord(t, user, "2026", "new")
		newer = append(newer, rec)
		h.Publish(touch(user, rec))
	}
	pending := func() int64 {
		lags, err := bus.Lag(t.Context(), h.Kafka, projector.AnswersGroup, []string{event.TopicAnswerTask})
		require.NoError(t, err)
		return projectortest.TotalLag(lags)
	}
	projectortest.Eventually(
		t,
		func(context.Context) bool { return h.Answers(100)[0].Rebuilt > 0 },
		"it is built again",
	)
	require.NotZero(t, pending(), "the touches are not committed")
	require.Equal(t, "old", h.Answers(100)[0].UsernameKey)
	var batch readmodel.Batch
	renderer := readmodel.NewRenderer(identity.Default())
	for i, rec := range newer {
		require.NoError(
			t,
			renderer.Rows(&batch, rec, readmodel.Position{Topic: rec.Kind.Topic(), Offset: int64(1000 + i)}),
		)
	}
	require.NoError(t, readmodel.Insert(t.Context(), s.Conn, "late", &batch))
	h.CaughtUp()
	for user := int64(100); user < 104; user++ {
		require.Equal(t, "new", h.Answers(user)[0].UsernameKey, user)
	}
}
