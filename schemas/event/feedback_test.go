package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

func TestFeedback_LinksFollowFromTheVerdict(t *testing.T) {
	network := event.Account{Platform: "network", Username: "octavia-lin"}
	codehost := event.Account{Platform: "codehost", Username: "olin"}
	right := event.Account{Platform: "codehost", Username: "octavia"}
	pair, corrected := [2]event.Account{network, codehost}, [2]event.Account{network, right}
	for _, c := range []struct {
		verdict           event.FeedbackVerdict
		stated, withdrawn [][2]event.Account
	}{
		{event.FeedbackRight, [][2]event.Account{pair}, nil},
		{event.FeedbackWrong, nil, [][2]event.Account{pair}},
		{event.FeedbackCorrection, [][2]event.Account{corrected}, [][2]event.Account{pair}},
	} {
		f := event.Feedback{ID: "f", OrganizationID: "o", At: time.Now(), Accounts: pair[:], Verdict: c.verdict,
			Status: event.FeedbackPending}
		if c.verdict == event.FeedbackCorrection {
			require.ErrorContains(t, f.Validate(), "correct")
			f.Correct = &right
		}
		require.NoError(t, f.Validate())
		stated, withdrawn := f.Links()
		require.Equal(t, c.stated, stated, c.verdict)
		require.Equal(t, c.withdrawn, withdrawn, c.verdict)
		require.True(t, f.Names(func(a event.Account) bool { return a == codehost }))
		require.Equal(t, c.verdict == event.FeedbackCorrection,
			f.Names(func(a event.Account) bool { return a == right }))
		f.Accounts, f.RequestID, f.Correct = nil, "r", nil
		stated, withdrawn = f.Links()
		require.Empty(t, stated)
		require.Empty(t, withdrawn)
	}
}

func TestFeedback_ValidateRejectsMalformedEvents(t *testing.T) {
	valid := event.Feedback{ID: "f", OrganizationID: "o", At: time.Now(), RequestID: "r", Verdict: event.FeedbackWrong,
		Status: event.FeedbackPending}
	require.NoError(t, valid.Validate())
	for name, change := range map[string]func(*event.Feedback){
		"id":           func(f *event.Feedback) { f.ID = "" },
		"organization": func(f *event.Feedback) { f.OrganizationID = "" },
		"verdict":      func(f *event.Feedback) { f.Verdict = "maybe" },
		"match":        func(f *event.Feedback) { f.RequestID = "" },
		"accounts":     func(f *event.Feedback) { f.Accounts = make([]event.Account, 1) },
		"account":      func(f *event.Feedback) { f.Accounts = make([]event.Account, 2) },
		"status":       func(f *event.Feedback) { f.Status = "" },
		"decided":      func(f *event.Feedback) { f.Status = event.FeedbackAccepted },
	} {
		f := valid
		change(&f)
		require.Error(t, f.Validate(), name)
	}
}
