package event_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/record"
)

func TestTopics_HaveCompleteSettings(t *testing.T) {
	form := regexp.MustCompile(`^muster\.(record|event|task|state|dead)\.[a-z-]+(\.[a-z-]+)?\.v[0-9]+$`)
	byName := map[string]event.Topic{}
	for _, topic := range append(event.Topics(), event.DeadLetterTopic("discovery-worker", "score")) {
		require.Regexp(t, form, topic.Name)
		require.NotContains(t, byName, topic.Name)
		byName[topic.Name] = topic
		require.Positive(t, topic.Partitions)
		config := topic.Config()
		require.Equal(t, "2097152", config["max.message.bytes"])
		require.NotEmpty(t, config["retention.ms"])
		require.Contains(t, []string{"compact", "delete"}, config["cleanup.policy"])
		if topic.Compacted {
			require.Equal(t, "compact", config["cleanup.policy"])
			require.Equal(t, "-1", config["retention.ms"])
		}
	}
	for _, d := range record.Definitions() {
		require.True(t, byName[d.Topic].Compacted, d.Topic)
	}
	erasure, ok := record.Lookup(record.KindErasure)
	require.True(t, ok)
	require.Empty(t, erasure.Topic, "erasures are not records")
	require.Equal(t, "2592000000", byName[event.TopicRejected].Config()["retention.ms"])
	require.Equal(t, "muster.dead.discovery-worker.score.v1", event.DeadLetterTopic("discovery-worker", "score").Name)
	require.Len(t, byName, len(record.Definitions())+18+1)
	require.Equal(t, "io.muster.record.v1.codehost-repo", event.RecordType(record.KindCodehostRepo))
}
