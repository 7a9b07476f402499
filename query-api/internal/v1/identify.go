package v1

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// VisitIdentifyPersonResponse implements api.IdentifyPersonResponseObject.
func (d discoverResponse) VisitIdentifyPersonResponse(w http.ResponseWriter) error {
	return d.VisitDiscoverPersonResponse(w)
}

// personMatch is an element of matches.
type personMatch struct {
	Confidence        float64             `json:"confidence"`
	NetworkUsername   string              `json:"network_username,omitzero"`
	CodehostUsername  string              `json:"codehost_username,omitzero"`
	MicroblogUsername string              `json:"microblog_username,omitzero"`
	Accounts          []matchedAccount    `json:"accounts"`
	Profile           event.PersonSummary `json:"profile"`
	Evidence          []event.Evidence    `json:"evidence,omitempty"`
}

// matchedAccount is an account of a match.
type matchedAccount struct {
	Platform   string  `json:"platform"`
	Username   string  `json:"username"`
	Link       string  `json:"link"`
	Confidence float64 `json:"confidence"`
}

// IdentifyPerson is POST /v1/person/identify.
func (s *Server) IdentifyPerson(
	ctx context.Context, request api.IdentifyPersonRequestObject,
) (api.IdentifyPersonResponseObject, error) {
	q, err := identifyQuery(request.Body)
	if err != nil {
		return nil, err
	}
	if err := checkMaxCredits(ctx, 1, request.Body.MaxCredits, ""); err != nil {
		return nil, err
	}
	if isTrue(request.Body.DryRun) {
		body, err := estimate(ctx, 1)
		return discoverResponse{body: body}, err
	}
	res, err := metering.FromContext(ctx).Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer res.Release()
	found, err := s.finder.Identify(ctx, q)
	if err != nil {
		return nil, err
	}
	if found == nil { // no worker answered in time
		found = &event.Identification{
			Degraded: []string{event.StageInput, event.StageKnownLinks, event.StageWebSearch},
		}
	}
	// Concurrent calls share the result: redact a copy.
	own := *found
	s.store.RedactIdentification(&own)
	var used metering.Used
	out := struct {
		Matches []personMatch `json:"matches"`
	}{make([]personMatch, 0, len(own.Matches))}
	for _, m := range own.Matches {
		out.Matches = append(out.Matches, s.personMatch(m))
		used.Identities = append(used.Identities, identitiesOf(m.Accounts)...)
		for _, a := range m.Accounts {
			used.Accounts = append(used.Accounts, a.Platform+" "+identity.NormalizeUsername(a.Username))
		}
	}
	switch {
	case len(own.Matches) > 0:
		used.Units, used.Groups = 1, []string{"discovery"}
	case !own.Complete():
	case own.BelowConfidence:
		exchangeOf(ctx).missReason = reasonBelowConfidence
	default:
		exchangeOf(ctx).missReason = reasonNotFound
	}
	if _, err := res.Commit(ctx, used); err != nil {
		return nil, err
	}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode identify response: %w", err)
	}
	return discoverResponse{body: body, degraded: strings.Join(own.Degraded, ",")}, nil
}

// personMatch returns a match as it is shown.
func (s *Server) personMatch(m event.PersonMatch) personMatch {
	out := personMatch{Confidence: m.Confidence, Profile: m.Profile, Evidence: m.Evidence}
	for _, a := range m.Accounts {
		switch a.Platform {
		case identity.Network:
			out.NetworkUsername = a.Username
		case identity.Codehost:
			out.CodehostUsername = a.Username
		case identity.Microblog:
			out.MicroblogUsername = a.Username
		}
		out.Accounts = append(out.Accounts, matchedAccount{
			Platform: a.Platform, Username: a.Username, Link: s.platforms.Link(a.Platform, a.Username),
			Confidence: a.Confidence,
		})
	}
	return out
}

// identifyQuery validates the request body.
func identifyQuery(body *api.PersonIdentifyRequest) (q event.PersonQuery, err error) {
	for _, text := range []struct {
		name  string
		given *string
		into  *string
		parse func(name, input string) (string, error)
	}{
		{"name", body.Name, &q.Name, shortText}, {"company", body.Company, &q.Company, shortText},
		{"school", body.School, &q.School, shortText}, {"location", body.Location, &q.Location, shortText},
		{"title", body.Title, &q.Title, shortText}, {"phone", body.Phone, &q.Phone, phone},
		{"email", body.Email, &q.Email, email}, {"email_hash", body.EmailHash, &q.EmailHash, emailHash},
	} {
		if text.given == nil {
			continue
		}
		if *text.into, err = text.parse(text.name, *text.given); err != nil {
			return q, err
		}
	}
	switch {
	case !q.IsSelective():
		return q, invalidf("nothing to search by is given: send at least one of name, email, email_hash, phone")
	case q.Email != "" && q.EmailHash != "":
		return q, invalidf("email and email_hash are given: send one of them")
	case q.Email == "" && q.EmailHash == "" && q.Phone == "" && len(identity.NameBlockingKeys(q.Name)) == 0:
		return q, invalidf("name is a single word: give the given name and the family name, or an address or phone number")
	}
	q.MinConfidence, err = confidenceFrom(body.MinConfidence, 0)
	return q, err
}

// phone parses a phone number, and returns its comparison form.
func phone(name, input string) (string, error) {
	number, err := suppress.Normalize(suppress.Phone, input)
	if err != nil {
		return "", invalidf("%s %s, with country code, such as +47 555 01 234", name, err.Error())
	}
	return number, nil
}

// emailHash parses a hash of an email address.
func emailHash(name, input string) (string, error) {
	const md5Hex, sha256Hex = 32, 64
	text := strings.ToLower(strings.TrimSpace(input))
	if _, err := hex.DecodeString(text); err != nil || len(text) != md5Hex && len(text) != sha256Hex {
		return "", invalidf("%s is not the MD5 or SHA-256 of an address: give %d or %d hexadecimal digits, of the address "+
			"in lower case without surrounding spaces", name, md5Hex, sha256Hex)
	}
	return text, nil
}
