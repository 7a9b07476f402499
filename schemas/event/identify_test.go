package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

func TestPersonQuery_KeyHasNoPersonalDataAndTellsQueriesApart(t *testing.T) {
	key := func(q event.PersonQuery) string {
		k, err := q.Key()
		require.NoError(t, err)
		return k
	}
	juno := event.PersonQuery{Name: "Juno", MinConfidence: 0.45}
	require.Equal(t, key(juno), key(juno))
	require.NotContains(t, key(juno), "Juno")
	for _, other := range []event.PersonQuery{
		{Name: "Juno"}, {Company: "Juno", MinConfidence: 0.45}, {Name: "Juno", Company: "x", MinConfidence: 0.45},
	} {
		require.NotEqual(t, key(juno), key(other))
	}
}

func TestDiscoveryTask_HasEitherInputOrQuery(t *testing.T) {
	now := time.Now()
	task := func(input event.Account, q *event.PersonQuery) error {
		t := event.DiscoveryTask{RequestID: "r", Input: input, Query: q, RequestedAt: now, Deadline: now}
		return t.Validate()
	}
	account := event.Account{Platform: "codehost", Username: "juno"}
	require.NoError(t, task(account, nil))
	require.NoError(t, task(event.Account{}, &event.PersonQuery{Name: "Juno Abara"}))
	require.ErrorContains(t, task(event.Account{}, nil), "without input")
	require.ErrorContains(t, task(account, &event.PersonQuery{Name: "Juno Abara"}), "with input and query")
	require.ErrorContains(t, task(event.Account{}, &event.PersonQuery{Company: "x"}), "without name")
}

func TestIdentification_ValidateRejectsMalformedMatches(t *testing.T) {
	account := event.Social{Account: event.Account{Platform: "codehost", Username: "juno"}, Confidence: 1}
	d := event.Identification{RequestID: "r", At: time.Now(),
		Matches: []event.PersonMatch{{Confidence: 0.5, Accounts: []event.Social{account}}}}
	require.NoError(t, d.Validate())
	for _, m := range []event.PersonMatch{
		{Confidence: 0.5}, {Confidence: 1.5, Accounts: []event.Social{account}},
		{Confidence: 0.5, Accounts: []event.Social{{Account: event.Account{Platform: "codehost"}}}},
	} {
		d.Matches = []event.PersonMatch{m}
		require.Error(t, d.Validate())
	}
	require.Error(t, (&event.Identification{At: time.Now()}).Validate())
	require.Error(t, (&event.Identification{RequestID: "r"}).Validate())
}
