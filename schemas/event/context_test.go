package event_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

func TestCheckPerson_LimitsDepthAndValues(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + `0` + strings.Repeat(`]}`, n/2) }
	many := func(n int) string { return `{"a":[` + strings.Repeat(`"x",`, n-3) + `{}]}` }
	for _, ok := range []string{`"text"`, `{}`, deep(event.MaxPersonDepth), many(event.MaxPersonValues)} {
		require.NoError(t, event.CheckPerson(jsontext.Value(ok)))
	}
	for bad, why := range map[string]string{
		deep(event.MaxPersonDepth + 2):  "is nested more than 32 levels deep",
		many(event.MaxPersonValues + 1): "has more than 200000 values",
	} {
		require.ErrorContains(t, event.CheckPerson(jsontext.Value(bad)), why)
	}
}

// Stages become a header, so other text must be rejected.
func TestContext_DeliveryNamesDegradedStages(t *testing.T) {
	c := event.Context{
		Call:   event.ContextCall{RequestID: "r1", OrganizationID: "org", WebhookURL: "https://hooks.example/a"},
		Status: event.ContextComplete, Profile: jsontext.Value(`{"full_name":"Ada"}`),
		Degraded: []string{event.StageWebSearch, event.StageLanguageModel},
	}
	task, err := c.Delivery(time.Now())
	require.NoError(t, err)
	require.JSONEq(t, `{"full_name":"Ada"}`, string(task.Body))
	require.Equal(t, c.Degraded, task.Degraded)
	require.NoError(t, task.Validate())
	for _, stage := range []string{"", "a b", "a,b", "a\r\nX-Other: b"} {
		task.Degraded = []string{stage}
		require.ErrorContains(t, task.Validate(), "degraded", "%q", stage)
	}
	c.Status, c.Profile, c.Failure = event.ContextFailed, nil, &event.ContextFailure{Status: 500, Detail: "failed"}
	task, err = c.Delivery(time.Now())
	require.NoError(t, err)
	require.NoError(t, task.Validate())
	require.JSONEq(t, `{"detail":"failed"}`, string(task.Body))
}
