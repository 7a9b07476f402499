package v1

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Bounds of max_age_days.
const (
	defaultMaxAgeDays = 30
	maxMaxAgeDays     = 365
)

// discovered is an answer of discovery with what it lacks.
type discovered struct {
	body     answer
	degraded string // stages, comma separated; empty: none
	age      string // seconds since the result was made; empty: it was made for this call
}

// VisitDiscoverPersonResponse implements api.DiscoverPersonResponseObject.
func (d discovered) VisitDiscoverPersonResponse(w http.ResponseWriter) error {
	if d.degraded != "" {
		w.Header().Set("X-Degraded", d.degraded)
	}
	if d.age != "" {
		w.Header().Set("Age", d.age)
	}
	return d.body.write(w)
}

// social is one element of socials (interface.md, Discovered social).
type social struct {
	Platform   string           `json:"platform"`
	Username   string           `json:"username"`
	Link       string           `json:"link"`
	Confidence float64          `json:"confidence"`
	Context    *string          `json:"context"`
	Evidence   []event.Evidence `json:"evidence,omitempty"`
}

// DiscoverPerson is POST /v1/person/discover.
func (s *Server) DiscoverPerson(ctx context.Context, request api.DiscoverPersonRequestObject) (api.DiscoverPersonResponseObject, error) {
	account, maxAge, err := s.discoverQuery(request.Body)
	if err != nil {
		return nil, err
	}
	if isTrue(request.Body.DryRun) {
		body, err := estimate(ctx, 1)
		return discovered{body: body}, err
	}
	res, err := metering.CallOf(ctx).Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer res.Release()
	found, kept, err := s.discover(ctx, account, maxAge)
	if err != nil {
		return nil, err
	}
	used := metering.Used{Identities: identitiesOf(found), Accounts: accountsOf(found)}
	if found.Found() {
		used.Units, used.Groups = 1, []string{"discovery"}
	}
	if _, err := res.Commit(ctx, used); err != nil {
		return nil, err
	}
	out := struct {
		Socials []social `json:"socials"`
	}{make([]social, len(found.Socials))}
	for i, p := range found.Socials {
		out.Socials[i] = social{
			Platform: p.Platform, Username: p.Username, Link: s.platforms.Link(p.Platform, p.Username),
			Confidence: p.Confidence, Context: p.Context, Evidence: p.Evidence,
		}
	}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write discovery: %w", err)
	}
	d := discovered{body: body, degraded: strings.Join(found.Degraded, ",")}
	if kept {
		d.age = fmt.Sprint(max(0, int64(s.now().Sub(found.At)/time.Second)))
	}
	return d, nil
}

// identitiesOf are the records that a result tells of.
func identitiesOf(d *event.Discovery) []string {
	kinds := map[string]string{
		identity.Network: readmodel.TargetNetworkPerson, identity.Codehost: readmodel.TargetCodehostPerson,
		identity.Microblog: readmodel.TargetMicroblogPerson,
	}
	var out []string
	for _, p := range d.Socials {
		if kind := kinds[p.Platform]; kind != "" && p.Identity != "" {
			out = append(out, kind+" "+p.Identity)
		}
	}
	return out
}

// accountsOf are the accounts that a result tells something of: not its input, while
// nothing is known of it but what the caller knows.
func accountsOf(d *event.Discovery) []string {
	var out []string
	for i, p := range d.Socials {
		if key := identity.UsernameKey(p.Username); key != "" && (i > 0 || p.Identity != "" || p.Context != nil) {
			out = append(out, p.Platform+" "+key)
		}
	}
	return out
}

// discover answers from what is kept, or asks. Of what is kept only a whole
// result that found somebody is served, and whose accounts are still theirs: somebody who
// is not on record yet may be tomorrow.
func (s *Server) discover(ctx context.Context, account event.Account, maxAge time.Duration) (found *event.Discovery, kept bool, err error) {
	if maxAge > 0 {
		old, err := s.store.Discovery(ctx, account.Platform, identity.UsernameKey(account.Username))
		if err != nil {
			return nil, false, err
		}
		if old != nil && old.Found() && old.Complete() && s.now().Sub(old.At) <= maxAge {
			stands, err := s.store.Stands(ctx, old)
			if err != nil {
				return nil, false, err
			}
			if stands {
				return old, true, nil
			}
		}
	}
	found, err = s.finder.Find(ctx, account)
	if err != nil {
		return nil, false, err
	}
	if found == nil { // no worker has answered in time
		found = &event.Discovery{
			Input:    account,
			Socials:  []event.Social{{Account: account, Confidence: 1}},
			Degraded: []string{event.StageInput, event.StageKnownLinks, event.StageWebSearch},
		}
	}
	// Who is asked together shares an answer.
	own := *found
	s.store.Forget(&own)
	return &own, false, nil
}

// discoverQuery reads who is asked for: exactly one identifier.
func (s *Server) discoverQuery(body *api.PersonDiscoverRequest) (account event.Account, maxAge time.Duration, err error) {
	days := defaultMaxAgeDays
	if body.MaxAgeDays != nil {
		days = *body.MaxAgeDays
	}
	if days < 0 || days > maxMaxAgeDays {
		return account, 0, invalidf("max_age_days is %d: it must be between 0 (find anew) and %d", days, maxMaxAgeDays)
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
		return account, 0, invalidf("%d identifiers are given: send exactly one of network, codehost, microblog, url", given)
	}
	if identity.UsernameKey(account.Username) == "" {
		return account, 0, invalidf("%s is not a username nor a profile URL", account.Platform)
	}
	return account, time.Duration(days) * 24 * time.Hour, nil
}
