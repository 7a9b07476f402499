//go:build opensearch

package queryapi_test

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
)

// A person whose row is built and not indexed yet is in enrichments, not in searches.
func TestSearch_DataAsOfIsThatOfTheIndex(t *testing.T) {
	published := time.Now().Add(-time.Hour).Truncate(time.Second)
	var client *kafka.Client
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.WatermarkInterval = 10 * time.Millisecond
		tasks := bus.Topic{Name: event.TopicAnswerTask, Partitions: 1, Replication: 1}
		require.NoError(t, bus.EnsureTopics(t.Context(), d.Bus, []bus.Topic{tasks}))
		client = &kafka.Client{Addr: kafka.TCP(d.Bus.Brokers...)}
		res, err := client.Produce(t.Context(), &kafka.ProduceRequest{
			Topic: event.TopicAnswerTask, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Time: published, Value: kafka.NewBytes([]byte("x"))}),
		})
		require.NoError(t, err)
		require.NoError(t, res.Error)
	})
	commit := func(group string) {
		polltest.Until(t, waitTimeout, func() bool {
			res, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
				GroupID: group, GenerationID: -1,
				Topics: map[string][]kafka.OffsetCommit{event.TopicAnswerTask: {{Offset: 1}}},
			})
			return err == nil && res.Topics[event.TopicAnswerTask][0].Error == nil
		}, "offset is not committed")
	}
	// reaches waits until the header of a call states a time after, or at, the publication.
	reaches := func(path, body string, after bool) {
		t.Helper()
		polltest.Until(t, waitTimeout, func() bool {
			got := f.post(path, body)
			if got.header.Get("X-Data-As-Of") == "" {
				return false
			}
			at, _ := got.asOf()
			return at.After(published) == after && !at.Before(published)
		}, "%s", path)
	}
	const search = `{"query":{"match_all":{}}}`
	reaches(enrichPath, `{"codehost":"absent"}`, false)
	reaches(searchPath, search, false)
	commit(readmodel.AnswersGroup)
	reaches(enrichPath, `{"codehost":"absent"}`, true)
	reaches(searchPath, search, false)
	commit(readmodel.LinkedGroup)
	reaches(searchPath, search, false)
	commit(searchindex.SinkGroup)
	reaches(searchPath, search, true)
}
