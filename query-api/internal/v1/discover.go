package v1

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Default and maximum of max_age_days.
const (
	defaultMaxAgeDays = 30
	maxMaxAgeDays     = 365
)

// discoverResponse is a response of the discovery endpoint.
type discoverResponse struct {
	body     answer
	degraded string // stages, comma separated; empty: none
	age      string // age of a stored result in seconds; empty: the result is new
}

// VisitDiscoverPersonResponse implements api.DiscoverPersonResponseObject.
func (d discoverResponse) VisitDiscoverPersonResponse(w http.ResponseWriter) error {
	if d.degraded != "" {
		w.Header().Set("X-Degraded", d.degraded)
	}
	if d.age != "" {
		w.Header().Set("Age", d.age)
	}
	return d.body.write(w)
}

// social is an element of socials (interface.md, Discovered social).
type social struct {
	Platform   string           `json:"platform"`
	Username   string           `json:"username"`
	Link       string           `json:"link"`
	Confidence float64          `json:"confidence"`
	Context    *string          `json:"context"`
	Evidence   []event.Evidence `json:"evidence,omitempty"`
}

// DiscoverPerson is POST /v1/person/discover.
func (s *Server) DiscoverPerson(
	ctx context.Context, request api.DiscoverPersonRequestObject,
) (api.DiscoverPersonResponseObject, error) {
	account, maxAge, err := s.discoverQuery(request.Body)
	if err != nil {
		return nil, err
	}
	least, err := confidenceFrom(request.Body.MinConfidence, event.DiscoveryThreshold)
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
	found, stored, err := s.discover(ctx, account, maxAge)
	if err != nil {
		return nil, err
	}
	found = atLeast(found, least)
	used := metering.Used{Identities: identitiesOf(found.Socials), Accounts: accountsOf(found)}
	if found.Found() {
		used.Units, used.Groups = 1, []string{"discovery"}
	}
	if !found.Found() && found.Complete() {
		exchangeOf(ctx).missReason = reasonNotFound
		if found.BelowConfidence {
			exchangeOf(ctx).missReason = reasonBelowConfidence
		}
	}
	if _, err := res.Commit(ctx, used); err != nil {
		return nil, err
	}
	out := struct {
		Socials []social `json:"socials"`
	}{s.socials(found)}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode discovery response: %w", err)
	}
	d := discoverResponse{body: body, degraded: strings.Join(found.Degraded, ",")}
	if stored {
		d.age = fmt.Sprint(max(0, int64(s.now().Sub(found.At)/time.Second)))
	}
	return d, nil
}

// socials returns the profiles of a result as they are shown.
func (s *Server) socials(found *event.Discovery) []social {
	out := make([]social, len(found.Socials))
	for i, p := range found.Socials {
		out[i] = social{
			Platform: p.Platform, Username: p.Username, Link: s.platforms.Link(p.Platform, p.Username),
			Confidence: p.Confidence, Context: p.Context, Evidence: p.Evidence,
		}
	}
	return out
}

// identitiesOf returns the records of accounts.
func identitiesOf(accounts []event.Social) []string {
	kinds := map[string]string{
		identity.Network: readmodel.TargetNetworkPerson, identity.Codehost: readmodel.TargetCodehostPerson,
		identity.Microblog: readmodel.TargetMicroblogPerson,
	}
	var out []string
	for _, p := range accounts {
		if kind := kinds[p.Platform]; kind != "" && p.Identity != "" {
			out = append(out, kind+" "+p.Identity)
		}
	}
	return out
}

// accountsOf returns the accounts in a result. The input account counts only if the result has data
// about it.
func accountsOf(d *event.Discovery) []string {
	var out []string
	for i, p := range d.Socials {
		if key := identity.NormalizeUsername(p.Username); key != "" && (i > 0 || p.Identity != "" || p.Context != nil) {
			out = append(out, p.Platform+" "+key)
		}
	}
	return out
}

// confidenceFrom returns min_confidence, which is least or more; event.DiscoveryThreshold if it is absent.
func confidenceFrom(given *float64, least float64) (float64, error) {
	if given == nil {
		return event.DiscoveryThreshold, nil
	}
	if !(*given >= least && *given <= 1) {
		return 0, invalidf("min_confidence is %v: it must be between %v and 1", *given, least)
	}
	return *given, nil
}

// atLeast returns a result with the input and the profiles of a minimum confidence.
func atLeast(d *event.Discovery, confidence float64) *event.Discovery {
	out := *d
	out.Socials = slices.Clone(d.Socials[:1])
	for _, p := range d.Socials[1:] {
		if p.Confidence >= confidence {
			out.Socials = append(out.Socials, p)
		} else {
			out.BelowConfidence = true
		}
	}
	return &out
}

// discover returns a stored result, or requests a new one. A stored result is used only if it is complete, not empty,
// and its accounts still have the same owners; empty results are not reused, because the person may have been added
// since.
func (s *Server) discover(
	ctx context.Context, account event.Account, maxAge time.Duration,
) (found *event.Discovery, stored bool, err error) {
	if maxAge > 0 {
		old, err := s.store.Discovery(ctx, account.Platform, identity.NormalizeUsername(account.Username))
		if err != nil {
			return nil, false, err
		}
		if old != nil && old.Found() && old.Complete() && s.now().Sub(old.At) <= maxAge {
			valid, err := s.store.StillValid(ctx, old)
			if err != nil {
				return nil, false, err
			}
			if valid {
				return old, true, nil
			}
		}
	}
	found, err = s.finder.Find(ctx, account)
	if err != nil {
		return nil, false, err
	}
	if found == nil { // no worker answered in time
		found = &event.Discovery{
			Input:    account,
			Socials:  []event.Social{{Account: account, Confidence: 1}},
			Degraded: []string{event.StageInput, event.StageKnownLinks, event.StageWebSearch},
		}
	}
	// Concurrent calls share the result: redact a copy.
	own := *found
	s.store.Redact(&own)
	return &own, false, nil
}

// discoverQuery validates the request body: exactly one identifier is required.
func (s *Server) discoverQuery(
	body *api.PersonDiscoverRequest,
) (account event.Account, maxAge time.Duration, err error) {
	days := defaultMaxAgeDays
	if body.MaxAgeDays != nil {
		days = *body.MaxAgeDays
	}
	if days < 0 || days > maxMaxAgeDays {
		return account, 0, invalidf("max_age_days is %d: it must be between 0 (no stored results) and %d", days,
			maxMaxAgeDays)
	}
	given := 0
	for _, id := range []struct {
		platform string
		value    *string
	}{{identity.Network, body.Network}, {identity.Codehost, body.Codehost}, {identity.Microblog, body.Microblog}} {
		if id.value == nil {
			continue
		}
		given++
		account.Platform = id.platform
		if account.Username, err = s.platforms.ParsePerson(id.platform, *id.value); err != nil {
			return account, 0, s.malformed(id.platform, id.platform, err)
		}
	}
	if body.Url != nil {
		given++
		if account.Platform, account.Username, err = s.platforms.ParseAny(*body.Url); err != nil {
			return account, 0, s.malformed("url", anyPlatform, err)
		}
	}
	if given != 1 {
		return account, 0, invalidf("%d identifiers are given: send exactly one of network, codehost, microblog, url",
			given)
	}
	if identity.NormalizeUsername(account.Username) == "" {
		return account, 0, invalidf("%s is neither a username nor a profile URL", account.Platform)
	}
	return account, time.Duration(days) * 24 * time.Hour, nil
}
