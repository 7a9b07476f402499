package profile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"muster/discovery-worker/internal/extract"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// match is an account that may belong to the subject.
type match struct {
	ref        people.Ref
	account    event.Account
	names      []string
	confidence float64
}

const (
	// maxIdentifiers limits the identifiers of each type that are looked up.
	maxIdentifiers = 10
	// emailOwnership is the probability that an e-mail address in a record is the subject's own.
	emailOwnership = 0.97
	// unnamedWeight applies if input or record have no name to compare.
	unnamedWeight = 0.98
	// phoneticWeight applies to names that only sound alike, contradictedWeight to different ones.
	phoneticWeight     = 0.93
	contradictedWeight = 0.3
	// minMatchConfidence is the minimum confidence of a match.
	minMatchConfidence = 0.5
)

// findMatches decides who the subject is and returns their accounts, at most one for each platform.
// degraded names failed discovery stages. Errors are those of the store or ctx.
func (b *Builder) findMatches(ctx context.Context,
	extracted extract.Profile) (matches []match, degraded []string, err error) {
	accounts, err := b.accountsByIdentifier(ctx, extracted)
	if err != nil {
		return nil, nil, err
	}
	if len(accounts) == 0 {
		if accounts, err = b.accountsByDescription(ctx, extracted); err != nil || len(accounts) == 0 {
			return nil, nil, err
		}
	}
	seed := accounts[0]
	matches = []match{seed}
	for _, m := range accounts[1:] {
		isTaken := slices.ContainsFunc(matches, func(o match) bool { return o.ref.Platform == m.ref.Platform })
		if !isTaken && nameAgreement(seed.names, m.names) != contradictedWeight {
			matches = append(matches, m)
		}
	}
	found := b.discover(ctx, seed.account)
	if err := ctx.Err(); err != nil {
		// The failure is not the store's.
		return nil, nil, err
	}
	for _, stage := range found.Degraded {
		if stage == event.StageInput || stage == event.StageKnownLinks {
			return nil, nil, errStore
		}
	}
	for _, s := range found.Socials[1:] {
		ref := people.Ref{Platform: s.Platform, Identity: s.Identity}
		c := round(s.Confidence * seed.confidence)
		i := slices.IndexFunc(matches, func(o match) bool { return o.ref.Platform == s.Platform })
		switch {
		case i < 0:
			matches = append(matches, match{ref: ref, account: s.Account, confidence: c})
		case matches[i].ref == ref:
			matches[i].confidence = round(min(maxMergedConfidence, 1-(1-matches[i].confidence)*(1-c)))
		case c > matches[i].confidence:
			matches[i] = match{ref: ref, account: s.Account, confidence: c}
		}
	}
	return matches, found.Degraded, nil
}

// discover runs discovery with at most half of the remaining time: a slow language model must not
// cost the recorded fields.
func (b *Builder) discover(ctx context.Context, account event.Account) *event.Discovery {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	return b.finder.Find(ctx, account)
}

// errStore is returned if discovery could not read the store.
var errStore = errors.New("read models are unavailable")

// accountsByIdentifier returns the accounts that the input's identifiers lead to, by descending
// confidence.
func (b *Builder) accountsByIdentifier(ctx context.Context, extracted extract.Profile) ([]match, error) {
	var names []string
	if v, ok := extracted.Fields["full_name"]; ok {
		names = append(names, Value{JSON: v.Value}.stringValue())
	}
	byRef := make(map[people.Ref]match)
	consider := func(p *people.Profile, confidence float64) {
		if p == nil || !p.Person {
			return
		}
		m := match{ref: people.Ref{Platform: p.Platform, Identity: p.Identity}, account: p.Account(), names: p.Names,
			confidence: round(confidence * nameAgreement(names, p.Names))}
		// Two identifiers lead to it.
		if have, ok := byRef[m.ref]; ok {
			m.confidence = round(min(maxMergedConfidence, 1-(1-m.confidence)*(1-have.confidence)))
		}
		if m.confidence >= minMatchConfidence {
			byRef[m.ref] = m
		}
	}
	accounts, emails := 0, 0
	for _, id := range extracted.Identifiers {
		switch id.Type {
		case extract.Account:
			if accounts++; accounts > maxIdentifiers {
				continue
			}
			p, err := b.reader.Owner(ctx, event.Account{Platform: id.Platform, Username: id.Value})
			if err != nil {
				return nil, err
			}
			consider(p, id.Confidence)
		case extract.Email:
			if emails++; emails > maxIdentifiers {
				continue
			}
			holders, err := b.newestByEmail(ctx, id.Value)
			if err != nil {
				return nil, err
			}
			for _, p := range holders {
				consider(p, id.Confidence*emailOwnership)
			}
		}
	}
	out := make([]match, 0, len(byRef))
	for _, m := range byRef {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.confidence, a.confidence), cmp.Compare(a.ref.Platform, b.ref.Platform),
			cmp.Compare(a.ref.Identity, b.ref.Identity))
	})
	return out, nil
}

// accountsByDescription returns the account that best matches the described name, employer, place
// and so on. Accounts on other platforms are added only if discovery finds them from this one,
// because a name may belong to several people.
func (b *Builder) accountsByDescription(ctx context.Context, extracted extract.Profile) ([]match, error) {
	person := toProfile(extracted)
	if len(person.Names) == 0 {
		return nil, nil
	}
	found, err := b.finder.FindByDescription(ctx, person)
	if err != nil {
		return nil, err
	}
	var best *match
	for _, m := range found {
		c := round(m.Confidence * extracted.Fields["full_name"].Confidence)
		if c >= minMatchConfidence && (best == nil || c > best.confidence) {
			best = &match{
				ref:     people.Ref{Platform: m.Profile.Platform, Identity: m.Profile.Identity},
				account: m.Profile.Account(), names: m.Profile.Names, confidence: c,
			}
		}
	}
	if best == nil {
		return nil, nil
	}
	return []match{*best}, nil
}

// toProfile converts the extracted fields of a person for comparison.
func toProfile(extracted extract.Profile) *people.Profile {
	person := &people.Profile{Followers: -1, Person: true}
	list := func(path string, out any) {
		if f, ok := extracted.Fields[path]; ok {
			_ = json.Unmarshal(f.Value, out) // written by the extractor
		}
	}
	var jobs []struct {
		Summary string `json:"summary"`
		Company struct {
			Name string `json:"name"`
		} `json:"company"`
	}
	var schools []struct {
		School struct {
			Name string `json:"name"`
		} `json:"school"`
	}
	var skills []struct {
		Skill string `json:"skill"`
	}
	list("experience", &jobs)
	list("education", &schools)
	list("skills", &skills)
	add := func(to *[]string, values ...string) {
		for _, v := range values {
			if v != "" && !slices.Contains(*to, v) && len(*to) < maxListEntries {
				*to = append(*to, v)
			}
		}
	}
	field := func(path string) string {
		if f, ok := extracted.Fields[path]; ok {
			return Value{JSON: f.Value}.stringValue()
		}
		return ""
	}
	add(&person.Names, field("full_name"))
	add(&person.Employers, field("current_position.company.name"))
	person.Current = len(person.Employers)
	add(&person.Titles, field("current_position.summary"))
	person.Headline = field("network.headline")
	for _, j := range jobs {
		add(&person.Employers, j.Company.Name)
		add(&person.Titles, j.Summary)
	}
	for _, s := range schools {
		add(&person.Schools, s.School.Name)
	}
	for _, s := range skills {
		add(&person.Topics, s.Skill)
	}
	person.Country = field("location.country")
	add(&person.Places, field("location.city"), field("location.state"), person.Country)
	for _, id := range extracted.Identifiers {
		switch id.Type {
		case extract.Email:
			add(&person.Emails, id.Value)
		case extract.URL:
			add(&person.Websites, id.Value)
		}
	}
	return person
}

// maxListEntries limits each list of a description.
const maxListEntries = 50

// newestByEmail returns the newest record of each platform with an e-mail address.
func (b *Builder) newestByEmail(ctx context.Context, email string) ([]*people.Profile, error) {
	var keys []people.Key
	for _, platform := range []string{identity.Network, identity.Codehost} {
		keys = append(keys, people.Key{Type: readmodel.LookupEmail(platform), Value: email})
	}
	found, err := b.reader.Lookup(ctx, keys)
	if err != nil {
		return nil, err
	}
	var refs []people.Ref
	for _, k := range keys {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				refs = append(refs, ref)
			}
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	profiles, err := b.reader.Read(ctx, refs)
	if err != nil {
		return nil, err
	}
	var out []*people.Profile
	for _, platform := range identity.PlatformNames() {
		p, err := b.reader.Newest(ctx, profiles, func(p *people.Profile) bool {
			return p.Platform == platform && slices.Contains(p.Emails, email)
		})
		if err != nil {
			return nil, err
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// nameAgreement returns the weight of two lists of names.
func nameAgreement(a, b []string) float64 {
	if len(a) == 0 || len(b) == 0 {
		return unnamedWeight
	}
	best := contradictedWeight
	for _, x := range a {
		keys := identity.NameBlockingKeys(x)
		for _, y := range b {
			for _, k := range identity.NameBlockingKeys(y) {
				switch {
				case !slices.Contains(keys, k):
				case k[0] != '~':
					return 1
				default:
					best = phoneticWeight
				}
			}
			if best == contradictedWeight && sharesName(x, y) {
				best = phoneticWeight
			}
		}
	}
	return best
}

// sharesName reports whether two names have a part in common, as "Octavia" and "Octavia Lin", or
// "O. Lin" and "Octavia Lin".
func sharesName(a, b string) bool {
	x, y := identity.NameTokens(a), identity.NameTokens(b)
	if len(x) == 0 || len(y) == 0 {
		return true
	}
	if len(x) == 1 || len(y) == 1 {
		return slices.ContainsFunc(x, func(t string) bool { return slices.Contains(y, t) })
	}
	return x[len(x)-1] == y[len(y)-1] && x[0] != "" && y[0] != "" && x[0][0] == y[0][0]
}
