package event

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outcome says what came of a call.
type Outcome string

// Outcomes of calls.
const (
	OutcomeCharged Outcome = "charged" // answered, and paid with credits
	OutcomeFree    Outcome = "free"    // answered, and cost nothing
	OutcomeFailed  Outcome = "failed"  // a 5xx; counts as a request, costs nothing
	// OutcomeReplayed is an answer that an Idempotency-Key had stored.
	OutcomeReplayed Outcome = "replayed"
	// OutcomeUnanswered is a call whose answer did not leave the service, or not
	// for certain: it costs nothing, and counts as a request where they are counted.
	OutcomeUnanswered Outcome = "unanswered"

	OutcomeRefusedForbidden Outcome = "refused_forbidden" // 403
	OutcomeRefusedRate      Outcome = "refused_rate"      // 429: too many requests a minute
	OutcomeRefusedRequests  Outcome = "refused_requests"  // 429: too many requests a month
	OutcomeRefusedCredits   Outcome = "refused_credits"   // 429: too few credits; counts as a request where they are counted
)

// Usage is a call that was charged for, or could have been, or was refused, on
// TopicUsage under its organization. These events are the ledger: sums over
// them, one for each request id, are what has been used.
type Usage struct {
	RequestID      string    `json:"request_id"`
	OrganizationID string    `json:"organization_id"`
	KeyID          string    `json:"key_id"`
	At             time.Time `json:"at"`
	// Period is the month of UTC that the call counts in: see [PeriodOf].
	Period   string  `json:"period"`
	Method   string  `json:"method"`
	Endpoint string  `json:"endpoint"` // the path
	Status   int     `json:"status"`
	Outcome  Outcome `json:"outcome"`
	Plan     string  `json:"plan,omitempty"`
	// Requests is what counts against the monthly requests (0 or 1), Credits
	// what X-Credits-Charged said.
	Requests int64 `json:"requests"`
	Credits  int64 `json:"credits"`
	// DurationMicros is the time to the answer.
	DurationMicros int64 `json:"duration_us"`
	// Returned are keyed hashes of the identities that were returned, Groups the
	// groups of fields: who was given whose data, without saying whose.
	Returned []string `json:"returned,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// Validate reports what makes the event unusable.
func (u *Usage) Validate() error {
	switch {
	case u.RequestID == "":
		return errors.New("usage event without request_id")
	case u.OrganizationID == "":
		return fmt.Errorf("usage event %s without organization_id", u.RequestID)
	case u.At.IsZero():
		return fmt.Errorf("usage event %s without at", u.RequestID)
	case u.Outcome == "":
		return fmt.Errorf("usage event %s without outcome", u.RequestID)
	case u.Requests < 0 || u.Credits < 0:
		return fmt.Errorf("usage event %s with a negative count", u.RequestID)
	}
	if _, _, err := PeriodBounds(u.Period); err != nil {
		return fmt.Errorf("usage event %s: %w", u.RequestID, err)
	}
	return nil
}

// Void turns the event into that of a call whose answer did not leave.
func (u *Usage) Void() {
	u.Outcome, u.Credits = OutcomeUnanswered, 0
	u.Returned, u.Groups = nil, nil
}

// Refused reports whether the call was refused.
func (u *Usage) Refused() bool { return strings.HasPrefix(string(u.Outcome), "refused_") }

const periodForm = "2006-01"

// PeriodOf is the month of UTC in which t lies, such as 2026-11.
func PeriodOf(t time.Time) string {
	t = t.UTC()
	year, month := t.Year(), int(t.Month())
	if year < 1000 || year > 9999 {
		return t.Format(periodForm)
	}
	// It is asked for with every call, and Format costs as much as all the rest of it.
	return string([]byte{
		'0' + byte(year/1000), '0' + byte(year/100%10), '0' + byte(year/10%10), '0' + byte(year%10), '-',
		'0' + byte(month/10), '0' + byte(month%10), //nolint:gosec // digits
	})
}

// PeriodBounds are the first instant of a period and that of the next.
func PeriodBounds(period string) (begin, end time.Time, err error) {
	begin, err = time.Parse(periodForm, period)
	if err != nil {
		return begin, end, fmt.Errorf("period %q is not a month such as 2026-11", period)
	}
	return begin, begin.AddDate(0, 1, 0), nil
}
