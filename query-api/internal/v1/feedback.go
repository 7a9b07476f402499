package v1

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// maxRequestID is the maximum length of a request ID in feedback, in bytes.
const maxRequestID = 100

// VisitSubmitFeedbackResponse implements api.SubmitFeedbackResponseObject.
func (a answer) VisitSubmitFeedbackResponse(w http.ResponseWriter) error { return a.write(w) }

// SubmitFeedback is POST /v1/feedback.
func (s *Server) SubmitFeedback(
	ctx context.Context, request api.SubmitFeedbackRequestObject,
) (api.SubmitFeedbackResponseObject, error) {
	f, err := s.feedback(request.Body)
	if err != nil {
		return nil, err
	}
	if err := metering.FromContext(ctx).Once(ctx); err != nil {
		return nil, err
	}
	x := exchangeOf(ctx)
	f.ID, f.At, f.Status = x.id, s.now().UTC(), event.FeedbackPending
	f.OrganizationID, f.KeyID = x.principal.Organization.ID, x.principal.Key.ID
	if err := s.finder.PublishFeedback(ctx, f); err != nil {
		return nil, err
	}
	return encoded(struct {
		ID     string               `json:"feedback_id"`
		Status event.FeedbackStatus `json:"status"`
	}{f.ID, f.Status})
}

// feedback validates the request body.
func (s *Server) feedback(body *api.FeedbackRequest) (*event.Feedback, error) {
	f := &event.Feedback{Verdict: event.FeedbackVerdict(body.Verdict)}
	if verdicts := event.FeedbackVerdicts(); !slices.Contains(verdicts, f.Verdict) {
		return nil, invalidf("verdict is %s: it must be one of right, wrong, correction", quote(string(f.Verdict)))
	}
	if body.RequestId != nil {
		id, err := exactID("request_id", *body.RequestId)
		if err != nil {
			return nil, err
		}
		if len(id) > maxRequestID {
			return nil, invalidf("request_id is longer than %d bytes", maxRequestID)
		}
		f.RequestID = id
	}
	if body.Accounts != nil {
		if n := len(*body.Accounts); n != 2 {
			return nil, invalidf("accounts has %d elements: give the two accounts of the match", n)
		}
		for i, given := range *body.Accounts {
			account, err := s.accountRef(fmt.Sprintf("accounts[%d]", i), given)
			if err != nil {
				return nil, err
			}
			f.Accounts = append(f.Accounts, account)
		}
		if f.Accounts[0].Platform == f.Accounts[1].Platform {
			return nil, invalidf("accounts has two accounts of the platform %s: a match has accounts on different "+
				"platforms", f.Accounts[0].Platform)
		}
	}
	if f.Accounts == nil && f.RequestID == "" {
		return nil, invalidf("no match is given: send its accounts, or the request_id of the response")
	}
	if (f.Verdict == event.FeedbackCorrection) != (body.Correct != nil) {
		return nil, invalidf("correct is for the verdict correction, which requires it")
	}
	if body.Correct == nil {
		return f, nil
	}
	correct, err := s.accountRef("correct", *body.Correct)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.Accounts, func(a event.Account) bool { return a.Platform == correct.Platform })
	switch {
	case f.Accounts == nil:
		return nil, invalidf("a correction needs the accounts of the match")
	case i < 0:
		return nil, invalidf("correct.platform is %s: it must be that of the account it replaces, %s or %s",
			correct.Platform, f.Accounts[0].Platform, f.Accounts[1].Platform)
	case identity.NormalizeUsername(f.Accounts[i].Username) == identity.NormalizeUsername(correct.Username):
		return nil, invalidf("correct is one of the accounts: use the verdict right")
	}
	f.Correct = &correct
	return f, nil
}

// accountRef parses an account.
func (s *Server) accountRef(name string, given api.AccountRef) (event.Account, error) {
	platform := string(given.Platform)
	if !identity.KnownPlatform(platform) {
		return event.Account{}, invalidf("%s.platform is %s: it must be one of %s", name, quote(platform),
			strings.Join(identity.PlatformNames(), ", "))
	}
	username, err := s.platforms.ParsePerson(platform, given.Username)
	if err != nil {
		return event.Account{}, s.malformed(name+".username", platform, err)
	}
	if identity.NormalizeUsername(username) == "" {
		return event.Account{}, invalidf("%s.username is neither a username nor a profile URL", name)
	}
	return event.Account{Platform: platform, Username: username}, nil
}
