package event

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outcome is the outcome of a call.
type Outcome string

// Outcomes of calls.
const (
	OutcomeCharged Outcome = "charged" // answered and charged
	OutcomeFree    Outcome = "free"    // answered, free
	OutcomeFailed  Outcome = "failed"  // a 5xx; counts as a request, free
	// OutcomeReplayed is a response stored for an Idempotency-Key.
	OutcomeReplayed Outcome = "replayed"
	// OutcomeUnanswered is a call whose response was not sent, or not certainly: it is free, and counts as a
	// request where requests are counted.
	OutcomeUnanswered Outcome = "unanswered"

	OutcomeRefusedForbidden Outcome = "refused_forbidden" // 403
	OutcomeRefusedRate      Outcome = "refused_rate"      // 429: too many requests a minute
	OutcomeRefusedRequests  Outcome = "refused_requests"  // 429: too many requests a month
	// 429: too few credits; counts as a request where they are counted
	OutcomeRefusedCredits Outcome = "refused_credits"
)

// Usage is a call that was charged, could have been, or was rejected, on TopicUsage with its organization as
// key. These events are the ledger: usage is their sum, one event per request id.
type Usage struct {
	RequestID      string    `json:"request_id"`
	OrganizationID string    `json:"organization_id"`
	KeyID          string    `json:"key_id"`
	At             time.Time `json:"at"`
	// Period is the UTC month that the call counts in: see [PeriodOf].
	Period   string  `json:"period"`
	Method   string  `json:"method"`
	Endpoint string  `json:"endpoint"` // the path
	Status   int     `json:"status"`
	Outcome  Outcome `json:"outcome"`
	Plan     string  `json:"plan,omitempty"`
	// Requests counts against the monthly requests; Credits is the value of X-Credits-Charged.
	Requests int64 `json:"requests"`
	Credits  int64 `json:"credits"`
	// DurationMicros is the time to the response, in microseconds.
	DurationMicros int64 `json:"duration_us"`
	// Returned are the people whose records were returned, sealed by a [DisclosureCipher]; Groups the groups of fields:
	// an audit trail of disclosures without identities.
	Returned []string `json:"returned,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// Validate returns an error if the event is invalid.
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

// Void converts the event to that of a call whose response was not sent, or not certainly: the people in it may have
// been disclosed.
func (u *Usage) Void() {
	u.Outcome, u.Credits = OutcomeUnanswered, 0
	u.Groups = nil
}

// Refused reports whether the call was rejected.
func (u *Usage) Refused() bool { return strings.HasPrefix(string(u.Outcome), "refused_") }

const periodForm = "2006-01"

// PeriodOf returns the UTC month of t, such as 2026-11.
func PeriodOf(t time.Time) string {
	t = t.UTC()
	year, month := t.Year(), int(t.Month())
	if year < 1000 || year > 9999 {
		return t.Format(periodForm)
	}
	// Called for every request; Format would cost as much as the rest.
	return string([]byte{
		'0' + byte(year/1000), '0' + byte(year/100%10), '0' + byte(year/10%10), '0' + byte(year%10), '-',
		'0' + byte(month/10), '0' + byte(month%10), //nolint:gosec // digits
	})
}

// PeriodBounds returns the first instant of a period and of the next one.
func PeriodBounds(period string) (begin, end time.Time, err error) {
	begin, err = time.Parse(periodForm, period)
	if err != nil {
		return begin, end, fmt.Errorf("period %q is not a month such as 2026-11", period)
	}
	return begin, begin.AddDate(0, 1, 0), nil
}
