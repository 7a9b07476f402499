package queryapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/schemas/event"
)

const feedbackPath = "/v1/feedback"

func TestFeedback_IsPublishedOnce(t *testing.T) {
	f := start(t, nil)
	var mu sync.Mutex
	var got []event.Feedback
	follower := bus.Follow(t.Context(), f.bus, bus.FollowConfig{
		Topics: []string{event.TopicFeedback},
		Handle: func(_ context.Context, m kafka.Message) error {
			var one event.Feedback
			err := json.Unmarshal(m.Value, &one)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, one)
			return err
		},
	})
	t.Cleanup(func() { require.NoError(t, follower.Close()) })
	const body = `{"request_id":" r1 ","accounts":[{"platform":"network",` +
		`"username":"https://network.example/in/Octavia-Lin"},{"platform":"codehost","username":"@olin"}],` +
		`"verdict":"correction","correct":{"platform":"codehost","username":"Octavia"}}`
	first := f.do(http.MethodPost, feedbackPath, body, idempotent("feedback"))
	require.Equal(t, http.StatusOK, first.status, first.body)
	id := first.header.Get("X-Request-Id")
	require.Equal(t, map[string]any{"feedback_id": id, "status": "pending"}, first.json())
	require.Empty(t, first.header.Get("X-Credits-Charged"), "it is free")
	again := f.do(http.MethodPost, feedbackPath, body, idempotent("feedback"))
	require.Equal(t, first.body, again.body)
	require.Equal(t, http.StatusOK, f.post(feedbackPath, `{"request_id":"r2","verdict":"wrong"}`).status)
	polltest.Until(t, waitTimeout, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 2
	}, "feedback is published")
	require.NoError(t, got[0].Validate())
	require.NoError(t, got[1].Validate())
	if got[0].RequestID != "r1" { // another partition
		got[0], got[1] = got[1], got[0]
	}
	require.False(t, got[0].At.IsZero())
	got[0].At = got[1].At
	require.Equal(t, event.Feedback{
		ID: id, OrganizationID: f.organization.ID, KeyID: got[1].KeyID, At: got[1].At, RequestID: "r1",
		Accounts: []event.Account{{Platform: "network", Username: "Octavia-Lin"},
			{Platform: "codehost", Username: "olin"}},
		Verdict: event.FeedbackCorrection, Correct: &event.Account{Platform: "codehost", Username: "Octavia"},
		Status: event.FeedbackPending,
	}, got[0])
	require.Equal(t, "r2", got[1].RequestID)
	require.Empty(t, got[1].Accounts)
}

func TestFeedback_RejectsInvalidInput(t *testing.T) {
	f := start(t, nil)
	const network, codehost = `{"platform":"network","username":"a"}`, `{"platform":"codehost","username":"b"}`
	with := func(second, rest string) string { return `{"accounts":[` + network + `,` + second + `],` + rest + `}` }
	for body, detail := range map[string]string{
		`{"verdict":"right"}`:                                                  "no match is given",
		`{"request_id":"r"}`:                                                   `verdict is ""`,
		`{"request_id":"r","verdict":"maybe"}`:                                 "it must be one of right",
		`{"request_id":"\u0000","verdict":"right"}`:                            "request_id holds control characters",
		`{"request_id":"` + strings.Repeat("r", 101) + `","verdict":"right"}`:  "request_id is longer than 100 bytes",
		`{"accounts":[` + network + `],"verdict":"right"}`:                     "accounts has 1 elements",
		with(network, `"verdict":"right"`):                                     "two accounts of the platform network",
		with(`{"platform":"x","username":"b"}`, `"verdict":"right"`):           "accounts[1].platform is",
		with(codehost, `"verdict":"correction"`):                               "correct is for the verdict correction",
		with(codehost, `"verdict":"right","correct":`+codehost):                "correct is for the verdict correction",
		`{"request_id":"r","verdict":"correction","correct":` + codehost + `}`: "a correction needs the accounts",
		with(codehost, `"verdict":"correction","correct":`+codehost):           "use the verdict right",
		with(codehost, `"verdicts":"right"`):                                   `did you mean "verdict"`,

		with(codehost, `"verdict":"correction","correct":{"platform":"microblog","username":"c"}`): "is microblog",

		with(`{"platform":"codehost","username":"https://evil.example"}`, `"verdict":"right"`): "accounts[1].username",
	} {
		r := f.post(feedbackPath, body)
		require.Equal(t, http.StatusBadRequest, r.status, body)
		require.Contains(t, r.detail(), detail, body)
	}
}
