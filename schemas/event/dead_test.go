package event_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

func TestDeadLetter_SurvivesHeaders(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 123, time.UTC)
	d := event.DeadLetter{
		Service: "discovery-worker", Handler: "score", Topic: event.TopicDiscoveryTask, Partition: 3, Offset: 42,
		Code: "bad_task", Reason: "no profile", Attempts: 5, FirstFailure: at, LastFailure: at.Add(time.Minute),
	}
	headers := map[string]string{}
	set := func(name, value string) {
		require.True(t, strings.HasPrefix(name, event.HeaderDeadPrefix))
		headers[name] = value
	}
	get := func(name string) string { return headers[name] }
	d.Set(set)
	back, err := event.ParseDead(get)
	require.NoError(t, err)
	require.Equal(t, d, back)

	d.Code, d.Attempts, d.Reason = "", 0, strings.Repeat("ü", 600)+"\xff"
	d.Set(set)
	back, err = event.ParseDead(get)
	require.NoError(t, err)
	require.Equal(t, event.CodeFailed, back.Code)
	require.Equal(t, 1, back.Attempts)
	require.True(t, utf8.ValidString(back.Reason))
	require.LessOrEqual(t, len(back.Reason), 1024)

	headers = map[string]string{event.HeaderDeadPrefix + "reason": "why", event.HeaderDeadPrefix + "offset": "x"}
	back, err = event.ParseDead(get)
	require.ErrorContains(t, err, "muster_dead_topic: is missing")
	require.ErrorContains(t, err, "muster_dead_offset")
	require.Equal(t, "why", back.Reason)
	require.True(t, strings.HasPrefix(event.DeadLetterTopic("a", "b").Name, event.DeadTopicPrefix))
}
