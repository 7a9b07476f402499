package metering_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/metering"
	"muster/schemas/event"
)

// rowsOf returns charges of so many rows of a hold; every second one has a match.
func rowsOf(rows int) []metering.DeferredCharge {
	out := make([]metering.DeferredCharge, rows)
	for i := range out {
		out[i] = metering.DeferredCharge{
			RequestID: fmt.Sprintf("job-%d", i+1), Organization: "o", Key: "k", Method: "POST", Endpoint: "/v1/person/enrich",
			At: time.Now(), Done: time.Now(), Requests: 1, Credits: int64(i % 2),
		}
	}
	return out
}

func TestHold_ChargesRowsOnceAndFreesTheRest(t *testing.T) {
	b := openBooks(t, &replies{})
	b.limits.Credits, b.limits.MonthlyRequests = 100, 100
	call := b.begin("upload", true)
	holds := []metering.Hold{{ID: "job-10", Units: 10}, {ID: "job-14", Units: 4}}
	require.NoError(t, call.ReserveHolds(t.Context(), holds, time.Hour))
	require.NoError(t, call.End(t.Context(), 202, metering.Whole))
	usage := func() (held, used int64) {
		u, err := b.Usage(t.Context(), "o", event.PeriodOf(time.Now()))
		require.NoError(t, err)
		require.Equal(t, u.HeldCredits, u.HeldRequests)
		return u.HeldCredits, u.Credits
	}
	held, used := usage()
	require.EqualValues(t, []int64{14, 0}, []int64{held, used})

	rows := rowsOf(10)
	require.NoError(t, b.ChargeHold(t.Context(), rows))
	require.NoError(t, b.ChargeHold(t.Context(), rows), "before its events are published")
	held, used = usage()
	require.EqualValues(t, []int64{4, 5}, []int64{held, used})
	b.flush(t)
	require.NoError(t, b.ChargeHold(t.Context(), rows), "after the reservation is settled")
	require.NoError(t, b.ReleaseHolds(t.Context(), rows[0], []string{"job-14"}))
	b.balanced(t, 10, 5)
	require.Len(t, b.ledger, 10)
	u, err := b.Usage(t.Context(), "o", event.PeriodOf(time.Now()))
	require.NoError(t, err)
	require.EqualValues(t, 10, u.Lines[0].Calls, "each row is a call")
}

// A chunk may be answered while its job fails: a release of its hold that comes after the charge, but before the charge
// is settled, must not take the charge out of the balance.
func TestHold_ReleaseDuringChargeKeepsBalanceEqualToLedger(t *testing.T) {
	for name, charged := range map[string]bool{"before the charge": false, "after the charge": true} {
		t.Run(name, func(t *testing.T) {
			b := openBooks(t, &replies{})
			call := b.begin("upload", true)
			holds := []metering.Hold{{ID: "job-10", Units: 10}, {ID: "job-14", Units: 4}}
			require.NoError(t, call.ReserveHolds(t.Context(), holds, time.Hour))
			require.NoError(t, call.End(t.Context(), 202, metering.Whole))
			rows := rowsOf(10)
			freed := []string{"job-10", "job-14"}
			if !charged {
				require.NoError(t, b.ReleaseHolds(t.Context(), rows[0], freed))
			}
			require.NoError(t, b.ChargeHold(t.Context(), rows))
			if charged {
				require.NoError(t, b.ReleaseHolds(t.Context(), rows[0], freed))
			}
			b.balanced(t, 10, 5)
			require.Len(t, b.ledger, 10)
		})
	}
}

func TestHold_RowsThatTheLedgerHasAreNotChargedAgain(t *testing.T) {
	b := openBooks(t, &replies{})
	rows := rowsOf(10)
	// The reservation was lost, and so was the process after four rows.
	for _, row := range rows[:4] {
		require.NoError(t, b.Charge(t.Context(), row))
	}
	b.limits.Credits = 0 // the job was accepted before
	require.NoError(t, b.ChargeHold(t.Context(), rows))
	b.flush(t)
	require.Len(t, b.ledger, 10)
	u, err := b.Usage(t.Context(), "o", event.PeriodOf(time.Now()))
	require.NoError(t, err)
	require.EqualValues(t, 5, u.Credits)
}

func TestHold_AllOrNothing(t *testing.T) {
	b := openBooks(t, &replies{})
	b.limits.Credits = 12
	call := b.begin("upload", true)
	err := call.ReserveHolds(t.Context(), []metering.Hold{{ID: "job-10", Units: 10}, {ID: "job-14", Units: 4}}, time.Hour)
	var refused *metering.LimitError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, event.OutcomeRefusedCredits, refused.Outcome)
	require.NoError(t, call.End(t.Context(), 429, metering.Whole))
	b.balanced(t, 0, 0)
}
