package event

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// TypeFeedback is the CloudEvents type of [Feedback].
const TypeFeedback = "io.muster.feedback.v1.feedback"

// FeedbackVerdict is a caller's opinion about a match.
type FeedbackVerdict string

// Verdicts.
const (
	FeedbackRight FeedbackVerdict = "right"
	FeedbackWrong FeedbackVerdict = "wrong"
	// FeedbackCorrection means that another account is the right one.
	FeedbackCorrection FeedbackVerdict = "correction"
)

// FeedbackVerdicts returns all verdicts.
func FeedbackVerdicts() []FeedbackVerdict {
	return []FeedbackVerdict{FeedbackRight, FeedbackWrong, FeedbackCorrection}
}

// FeedbackStatus is what the operator decided.
type FeedbackStatus string

// Statuses.
const (
	FeedbackPending  FeedbackStatus = "pending"
	FeedbackAccepted FeedbackStatus = "accepted"
	FeedbackRejected FeedbackStatus = "rejected"
)

// FeedbackSource is the source of the account-link records that accepted feedback states.
const FeedbackSource = "feedback"

// Feedback is a caller's opinion about a match, on TopicFeedback with its ID as key: first as given, then again with
// the operator's decision.
type Feedback struct {
	ID             string    `json:"id"`
	OrganizationID string    `json:"organization_id"`
	KeyID          string    `json:"key_id"`
	At             time.Time `json:"at"`
	// RequestID is that of the call with the match; empty if not given.
	RequestID string `json:"request_id,omitzero"`
	// Accounts are the two accounts of the match; none if only RequestID is given.
	Accounts []Account       `json:"accounts,omitempty"`
	Verdict  FeedbackVerdict `json:"verdict"`
	// Correct replaces the account of its platform, with FeedbackCorrection.
	Correct   *Account       `json:"correct,omitempty"`
	Status    FeedbackStatus `json:"status"`
	DecidedAt time.Time      `json:"decided_at,omitzero"`
}

// Validate returns an error if the event is invalid.
func (f *Feedback) Validate() error {
	switch {
	case f.ID == "":
		return errors.New("feedback without id")
	case f.OrganizationID == "" || f.At.IsZero():
		return fmt.Errorf("feedback %s without organization_id or at", f.ID)
	case !slices.Contains(FeedbackVerdicts(), f.Verdict):
		return fmt.Errorf("feedback %s with an unknown verdict", f.ID)
	case len(f.Accounts) != 0 && len(f.Accounts) != 2 || len(f.Accounts) == 0 && f.RequestID == "":
		return fmt.Errorf("feedback %s without request_id and without two accounts", f.ID)
	case (f.Verdict == FeedbackCorrection) != (f.Correct != nil) || f.Correct != nil && len(f.Accounts) == 0:
		return fmt.Errorf("feedback %s: correct, with accounts, is for corrections", f.ID)
	case f.Status != FeedbackPending && f.Status != FeedbackAccepted && f.Status != FeedbackRejected:
		return fmt.Errorf("feedback %s with an unknown status", f.ID)
	case (f.Status == FeedbackPending) != f.DecidedAt.IsZero():
		return fmt.Errorf("feedback %s: decided_at is for decided feedback", f.ID)
	}
	for _, a := range f.named() {
		if a.Platform == "" || a.Username == "" {
			return fmt.Errorf("feedback %s with a malformed account", f.ID)
		}
	}
	return nil
}

// named returns all accounts that the feedback names.
func (f *Feedback) named() []Account {
	if f.Correct == nil {
		return f.Accounts
	}
	return append(slices.Clone(f.Accounts), *f.Correct)
}

// Names reports whether one of the accounts that the feedback names fulfills a condition.
func (f *Feedback) Names(is func(Account) bool) bool { return slices.ContainsFunc(f.named(), is) }

// Links returns the pairs of accounts that the feedback states to be one person's, and those that it states not to be.
func (f *Feedback) Links() (stated, withdrawn [][2]Account) {
	if len(f.Accounts) == 0 {
		return nil, nil
	}
	pair := [2]Account{f.Accounts[0], f.Accounts[1]}
	switch f.Verdict {
	case FeedbackRight:
		stated = append(stated, pair)
	case FeedbackWrong:
		withdrawn = append(withdrawn, pair)
	case FeedbackCorrection:
		withdrawn = append(withdrawn, pair)
		if pair[0].Platform == f.Correct.Platform {
			pair[0] = *f.Correct
		} else {
			pair[1] = *f.Correct
		}
		stated = append(stated, pair)
	}
	return stated, withdrawn
}
