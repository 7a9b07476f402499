package metering_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/credits"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
)

func TestSettle_PublishedChargesAreFinal(t *testing.T) {
	end := func(status int, sent metering.Sent) func(*testing.T, *metering.Call, *metering.Reservation) {
		return func(t *testing.T, c *metering.Call, r *metering.Reservation) {
			t.Helper()
			if status == http.StatusOK {
				quota, err := r.Commit(t.Context(), metering.Used{Units: 1})
				require.NoError(t, err)
				require.Equal(t, metering.Quota{Used: 1, Limit: 1, Charged: 1}, quota)
				again, err := r.Commit(t.Context(), metering.Used{Units: 1})
				require.NoError(t, err)
				require.Equal(t, quota, again, "committed once")
			}
			require.NoError(t, c.End(t.Context(), status, sent))
		}
	}
	for name, c := range map[string]struct {
		counted  bool
		units    int64
		end      func(*testing.T, *metering.Call, *metering.Reservation)
		requests int64
		used     int64
		outcome  event.Outcome // empty: not in the ledger
	}{
		"charged": {end: end(http.StatusOK, metering.Whole), units: 1, used: 1,
			outcome: event.OutcomeCharged},
		"charged and counted": {counted: true, end: end(http.StatusOK, metering.Whole), units: 1, requests: 1, used: 1,
			outcome: event.OutcomeCharged},
		"nothing used": {counted: true, units: 1, requests: 1, outcome: event.OutcomeFree,
			end: func(t *testing.T, c *metering.Call, r *metering.Reservation) {
				quota, err := r.Commit(t.Context(), metering.Used{})
				require.NoError(t, err)
				require.Equal(t, metering.Quota{Limit: 1, Remaining: 1}, quota)
				require.NoError(t, c.End(t.Context(), http.StatusOK, metering.Whole))
			}},
		"answer not sent": {end: end(http.StatusOK, metering.Nothing), units: 1,
			outcome: event.OutcomeUnanswered},
		"counted, answer not sent": {counted: true, end: end(http.StatusOK, metering.Nothing), units: 1, requests: 1,
			outcome: event.OutcomeUnanswered},
		"failed": {end: end(http.StatusInternalServerError, metering.Whole), units: 1},
		"counted and failed": {counted: true, end: end(http.StatusInternalServerError, metering.Whole),
			units: 1, requests: 1, outcome: event.OutcomeFailed},
		"counted, caller left before": {counted: true, end: end(http.StatusInternalServerError, metering.Nothing),
			units: 1, requests: 1, outcome: event.OutcomeUnanswered},
		"counted and refused": {counted: true, units: 2, requests: 2, outcome: event.OutcomeRefusedCredits,
			end: func(t *testing.T, c *metering.Call, r *metering.Reservation) {
				require.Nil(t, r)
				require.NoError(t, c.End(t.Context(), http.StatusTooManyRequests, metering.Whole))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			b := openBooks(t, &replies{})
			b.limits.Credits = 1
			call := b.begin("1", c.counted)
			r, err := call.Reserve(t.Context(), c.units)
			if c.units > 1 {
				require.ErrorAs(t, err, new(*metering.LimitError))
			} else {
				require.NoError(t, err)
			}
			c.end(t, call, r)
			b.balanced(t, c.requests, c.used)
			require.Equal(t, c.outcome, b.ledger["1"].Outcome)
			b.later.Store(int64(25 * time.Hour))
			b.balanced(t, c.requests, c.used)
		})
	}
}

// A failed operation is an error, so the events are published again.
func TestSettle_VoidReleasesCreditsButKeepsRequest(t *testing.T) {
	for _, counted := range []bool{false, true} {
		for _, lose := range []string{"", "settle", "release", "commit"} {
			t.Run(lose, func(t *testing.T) {
				lost := &replies{}
				b := openBooks(t, lost)
				call := b.begin("1", counted)
				r, err := call.Reserve(t.Context(), 1)
				require.NoError(t, err)
				_, err = r.Commit(t.Context(), metering.Used{Units: 1})
				require.NoError(t, err)
				u := event.Usage{RequestID: "1", OrganizationID: "o", Period: event.PeriodOf(time.Now()),
					Outcome: event.OutcomeUnanswered}
				if counted {
					u.Requests = 1
				}
				lost.lose = lose
				err = b.Settle(t.Context(), []ledger.Event{{Usage: u}})
				if lose != "" && (lose == "release") != counted {
					require.ErrorIs(t, err, errLost)
					err = b.Settle(t.Context(), []ledger.Event{{Usage: u}})
				}
				require.NoError(t, err)
				totals, err := b.Usage(t.Context(), "o", u.Period)
				require.NoError(t, err)
				require.Equal(t, credits.Balance{Requests: u.Requests}, totals.Balance)
			})
		}
	}
}

func TestEnd_ChargesSentUnits(t *testing.T) {
	lost := &replies{}
	b := openBooks(t, lost)
	var requests, used int64
	for i, c := range []struct {
		units   int64
		sent    metering.Sent
		want    int64
		outcome event.Outcome
	}{
		{units: 100, sent: metering.Nothing, want: 0, outcome: event.OutcomeUnanswered},
		{units: 1, sent: 1, want: 0, outcome: event.OutcomeUnanswered},
		{units: 100, sent: 40, want: 36, outcome: event.OutcomeCharged},
		{units: 1, sent: 1, want: 1, outcome: event.OutcomeCharged},
		{units: 10, sent: 100, want: 10, outcome: event.OutcomeCharged},
		{units: 10, sent: metering.Whole, want: 10, outcome: event.OutcomeCharged},
	} {
		id := strconv.Itoa(i)
		call := b.begin(id, true)
		r, err := call.Reserve(t.Context(), c.units)
		require.NoError(t, err)
		_, err = r.Commit(t.Context(), metering.Used{Units: c.units})
		require.NoError(t, err)
		require.NoError(t, call.End(t.Context(), http.StatusOK, c.sent))
		requests, used = requests+c.units, used+c.want
		b.balanced(t, requests, used)
		require.Equal(t, c.outcome, b.ledger[id].Outcome)
		require.Equal(t, c.want, b.ledger[id].Credits)
	}
	// The call is free if the balances are unavailable.
	call := b.begin("away", true)
	r, err := call.Reserve(t.Context(), 10)
	require.NoError(t, err)
	_, err = r.Commit(t.Context(), metering.Used{Units: 10})
	require.NoError(t, err)
	lost.lose = "commit"
	require.ErrorIs(t, call.End(t.Context(), http.StatusOK, 5), errLost)
	b.balanced(t, requests+10, used)
}
