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

// match is an account that may be that of whom the input is about.
type match struct {
	ref        people.Ref
	account    event.Account
	names      []string
	confidence float64
}

const (
	// maxIdentifiers bounds the identifiers of each type that are looked up.
	maxIdentifiers = 10
	// byEmail is how sure an e-mail address in a record is the subject's own.
	byEmail = 0.97
	// unnamed weighs a record when input or record have no name to compare.
	unnamed = 0.98
	// soundsAlike weighs names that only sound alike, contradicted those that do not.
	soundsAlike  = 0.93
	contradicted = 0.3
	// plausible is the least confidence of who the input is about.
	plausible = 0.5
)

// find decides who the input is about and returns their accounts, at most one a
// platform. degraded names the stages of discovery that gave no answer. The error
// is that of the store, or of ctx.
func (b *Builder) find(ctx context.Context, said extract.Profile) (matches []match, degraded []string, err error) {
	direct, err := b.direct(ctx, said)
	if err != nil {
		return nil, nil, err
	}
	if len(direct) == 0 {
		if direct, err = b.described(ctx, said); err != nil || len(direct) == 0 {
			return nil, nil, err
		}
	}
	seed := direct[0]
	matches = []match{seed}
	for _, m := range direct[1:] {
		taken := slices.ContainsFunc(matches, func(o match) bool { return o.ref.Platform == m.ref.Platform })
		if !taken && agreement(seed.names, m.names) != contradicted {
			matches = append(matches, m)
		}
	}
	found := b.discover(ctx, seed.account)
	if err := ctx.Err(); err != nil {
		return nil, nil, err // what it lacks is not the store's fault
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
			matches[i].confidence = round(min(surest, 1-(1-matches[i].confidence)*(1-c)))
		case c > matches[i].confidence:
			matches[i] = match{ref: ref, account: s.Account, confidence: c}
		}
	}
	return matches, found.Degraded, nil
}

// discover takes half of the time that is left at most: a slow language model shall not
// cost the profile what is on record.
func (b *Builder) discover(ctx context.Context, account event.Account) *event.Discovery {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	return b.finder.Find(ctx, account)
}

// errStore says that the store gave no answer to discovery.
var errStore = errors.New("the read models cannot be read")

// direct are the accounts that the input's own identifiers lead to, the surest
// first.
func (b *Builder) direct(ctx context.Context, said extract.Profile) ([]match, error) {
	var names []string
	if v, ok := said.Fields["full_name"]; ok {
		names = append(names, Value{JSON: v.Value}.text())
	}
	byRef := make(map[people.Ref]match)
	consider := func(p *people.Profile, confidence float64) {
		if p == nil || !p.Person {
			return
		}
		m := match{ref: people.Ref{Platform: p.Platform, Identity: p.Identity}, account: p.Account(), names: p.Names, confidence: round(confidence * agreement(names, p.Names))}
		if have, ok := byRef[m.ref]; ok { // two identifiers lead there
			m.confidence = round(min(surest, 1-(1-m.confidence)*(1-have.confidence)))
		}
		if m.confidence >= plausible {
			byRef[m.ref] = m
		}
	}
	accounts, emails := 0, 0
	for _, id := range said.Identifiers {
		switch id.Type {
		case extract.Account:
			if accounts++; accounts > maxIdentifiers {
				continue
			}
			p, err := b.reader.Holder(ctx, event.Account{Platform: id.Platform, Username: id.Value})
			if err != nil {
				return nil, err
			}
			consider(p, id.Confidence)
		case extract.Email:
			if emails++; emails > maxIdentifiers {
				continue
			}
			holders, err := b.holders(ctx, id.Value)
			if err != nil {
				return nil, err
			}
			for _, p := range holders {
				consider(p, id.Confidence*byEmail)
			}
		}
	}
	out := make([]match, 0, len(byRef))
	for _, m := range byRef {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.confidence, a.confidence), cmp.Compare(a.ref.Platform, b.ref.Platform), cmp.Compare(a.ref.Identity, b.ref.Identity))
	})
	return out, nil
}

// described are the accounts of whom the input describes by name, employer, place
// and the like, the surest first. Of namesakes on several platforms only those are
// taken that discovery finds from the surest one: a name leads to one person.
func (b *Builder) described(ctx context.Context, said extract.Profile) ([]match, error) {
	who := description(said)
	if len(who.Names) == 0 {
		return nil, nil
	}
	found, err := b.finder.Described(ctx, who)
	if err != nil {
		return nil, err
	}
	var best *match
	for _, m := range found {
		c := round(m.Confidence * said.Fields["full_name"].Confidence)
		if c >= plausible && (best == nil || c > best.confidence) {
			best = &match{
				ref: people.Ref{Platform: m.Profile.Platform, Identity: m.Profile.Identity}, account: m.Profile.Account(),
				names: m.Profile.Names, confidence: c,
			}
		}
	}
	if best == nil {
		return nil, nil
	}
	return []match{*best}, nil
}

// description is what the input says of a person, as evidence compares it.
func description(said extract.Profile) *people.Profile {
	who := &people.Profile{Followers: -1, Person: true}
	list := func(path string, out any) {
		if f, ok := said.Fields[path]; ok {
			_ = json.Unmarshal(f.Value, out) // the extractor wrote it
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
			if v != "" && !slices.Contains(*to, v) && len(*to) < maxDescribed {
				*to = append(*to, v)
			}
		}
	}
	one := func(path string) string {
		if f, ok := said.Fields[path]; ok {
			return Value{JSON: f.Value}.text()
		}
		return ""
	}
	add(&who.Names, one("full_name"))
	add(&who.Employers, one("current_position.company.name"))
	who.Current = len(who.Employers)
	add(&who.Titles, one("current_position.summary"))
	who.Headline = one("network.headline")
	for _, j := range jobs {
		add(&who.Employers, j.Company.Name)
		add(&who.Titles, j.Summary)
	}
	for _, s := range schools {
		add(&who.Schools, s.School.Name)
	}
	for _, s := range skills {
		add(&who.Topics, s.Skill)
	}
	who.Country = one("location.country")
	add(&who.Places, one("location.city"), one("location.state"), who.Country)
	for _, id := range said.Identifiers {
		switch id.Type {
		case extract.Email:
			add(&who.Emails, id.Value)
		case extract.URL:
			add(&who.Websites, id.Value)
		}
	}
	return who
}

// maxDescribed bounds each list of a description.
const maxDescribed = 50

// holders are the newest record of each platform that states an e-mail address.
func (b *Builder) holders(ctx context.Context, email string) ([]*people.Profile, error) {
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

// agreement weighs two lists of names of perhaps one person.
func agreement(a, b []string) float64 {
	if len(a) == 0 || len(b) == 0 {
		return unnamed
	}
	best := contradicted
	for _, x := range a {
		keys := identity.NameKeys(x)
		for _, y := range b {
			for _, k := range identity.NameKeys(y) {
				switch {
				case !slices.Contains(keys, k):
				case k[0] != '~':
					return 1
				default:
					best = soundsAlike
				}
			}
			if best == contradicted && sharesName(x, y) {
				best = soundsAlike
			}
		}
	}
	return best
}

// sharesName reports whether two names have a part in common, as "Octavia" and
// "Octavia Lin" do, or "O. Lin" and "Octavia Lin".
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
