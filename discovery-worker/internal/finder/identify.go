package finder

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // callers have such hashes of addresses; nothing relies on their strength
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

const (
	// maxResolved is the maximum number of candidates whose accounts on the other platforms are searched.
	maxResolved = 8
	// maxDescribed is the maximum confidence of a match: in the training data there is no wrong one above, but a
	// description is less than an account.
	maxDescribed = 0.99
	// maxOtherName is the maximum confidence of the owner of the query's address whose name is another one: the address
	// may be shared, or the description be of two people.
	maxOtherName = 0.7
	// minRawToResolve is the raw probability below which they are not.
	minRawToResolve = 0.02
)

// Identify returns the people that a query may describe, most likely first. The candidates are the accounts with the
// name, the address or the phone number. They are compared with the query by the model of descriptions. Accounts that
// discovery finds from each other are one person, and at most one person is right. It returns when ctx ends at the
// latest.
func (f *Finder) Identify(ctx context.Context, q event.PersonQuery) *event.Identification {
	d, _ := f.ExplainPeople(ctx, q)
	return d
}

// ExplainPeople is like Identify and also returns every candidate, for evaluation.
func (f *Finder) ExplainPeople(
	ctx context.Context, q event.PersonQuery,
) (*event.Identification, []*evidence.Candidate) {
	d := &event.Identification{Versions: map[string]string{"evidence": f.model.Version,
		"descriptions": f.descriptions.Version}}
	defer func() { d.At = f.now().UTC() }()
	fail := func(stage string, err error) { f.recordStageFailure(ctx, d, stage, err) }
	s := f.newSearch(describe(q))
	s.model = f.descriptions
	defer func() {
		if err := errors.Join(s.host.errs...); err != nil {
			fail(event.StageCodeHost, err)
		}
	}()
	var err error
	if s.linkPopulation, err = f.populations.get(ctx); err != nil {
		fail(event.StageKnownLinks, err)
	}
	s.population = s.linkPopulation.OfStore()
	if err := s.findSimilar(ctx, s.seed); err != nil {
		fail(event.StageWebSearch, err)
	}
	contacts, err := s.findContacts(ctx, q)
	if err != nil {
		fail(event.StageKnownLinks, err)
	}
	if err := s.readCandidates(ctx); err != nil {
		fail(event.StageKnownLinks, err)
	}
	s.agreeContacts(q, contacts)
	candidates := s.described()
	if open := openPlatforms(candidates); len(open) > 0 && f.providers.Web.Enabled() {
		if err := s.searchWeb(ctx, open); err != nil {
			fail(event.StageWebSearch, err)
		}
		if err := s.readCandidates(ctx); err != nil {
			fail(event.StageWebSearch, err)
		}
		candidates = s.described()
	}
	found := s.mergePeople(ctx, candidates, fail)
	if f.providers.Judge != nil {
		if err := s.judgePeople(ctx, d, found); err != nil {
			fail(event.StageLanguageModel, err)
		}
	}
	for _, p := range found {
		switch {
		case p.match.Confidence <= 0 || len(d.Matches) == event.MaxMatches:
		case p.match.Confidence < q.MinConfidence:
			d.BelowConfidence = true
		default:
			d.Matches = append(d.Matches, p.match)
		}
	}
	return d, candidates
}

// describe returns the profile of a query.
func describe(q event.PersonQuery) *people.Profile {
	one := func(s string) []string { return slices.DeleteFunc([]string{s}, func(s string) bool { return s == "" }) }
	p := &people.Profile{
		Names: one(q.Name), Employers: one(q.Company), Schools: one(q.School), Places: one(q.Location),
		Titles: one(q.Title), Headline: q.Title, Emails: one(q.Email), Followers: -1, Person: true,
	}
	p.Current = len(p.Employers)
	if family, given, both := strings.Cut(q.Name, ","); both && strings.TrimSpace(given) != "" {
		p.Names = append(p.Names, strings.TrimSpace(given)+" "+strings.TrimSpace(family))
	}
	return p
}

// contact is what a record has in common with a query's address and phone number.
type contact struct {
	emails []string
	phone  bool
}

// findContacts adds the records with the query's address or phone number as candidates. A lookup is of any version of a
// record, so each record is read.
func (s *search) findContacts(ctx context.Context, q event.PersonQuery) (map[people.Ref]contact, error) {
	var refs []people.Ref
	var keys []people.Key
	reader := s.finder.reader
	for _, form := range suppress.PhoneForms(q.Phone) {
		keys = append(keys, people.Key{Type: readmodel.LookupPhone, Value: form})
	}
	raw, _ := hex.DecodeString(q.EmailHash) // validated by query-api
	switch len(raw) {
	case sha256.Size:
		found, err := reader.LookupEmailSum(ctx, [sha256.Size]byte(raw))
		if err != nil {
			return nil, err
		}
		refs = found
	case md5.Size:
		keys = append(keys, people.Key{Type: readmodel.LookupEmailMD5,
			Value: readmodel.EmailMD5Prefix([md5.Size]byte(raw))})
	}
	if q.Email != "" {
		for _, platform := range []string{identity.Network, identity.Codehost} {
			keys = append(keys, people.Key{Type: readmodel.LookupEmail(platform), Value: q.Email})
		}
	}
	userID, username, isNoReply := reader.NoReply(q.Email)
	if isNoReply {
		keys = append(keys, people.Key{Type: readmodel.LookupCodehostUsername,
			Value: identity.NormalizeUsername(username)})
		if userID > 0 {
			refs = append(refs, people.Ref{Platform: identity.Codehost, Identity: strconv.FormatInt(userID, 10)})
		}
	}
	found, err := s.cache.lookup(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				refs = append(refs, ref)
			}
		}
	}
	isOwner := func(ref people.Ref, current string) bool {
		return isNoReply && ref.Platform == identity.Codehost && (ref.Identity == strconv.FormatInt(userID, 10) ||
			userID == 0 && identity.NormalizeUsername(current) == identity.NormalizeUsername(username))
	}
	return s.verifyContacts(ctx, q, raw, refs, isOwner)
}

// verifyContacts reads the records of lookups, and adds those that have the query's address or phone number as
// candidates. hash is EmailHash; isOwner reports whether the query's address is the no-reply address of an account.
func (s *search) verifyContacts(
	ctx context.Context, q event.PersonQuery, hash []byte, refs []people.Ref,
	isOwner func(ref people.Ref, username string) bool,
) (map[people.Ref]contact, error) {
	profiles, err := s.cache.read(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := make(map[people.Ref]contact)
	var rest []people.Ref
	for ref, p := range profiles {
		var c contact
		for _, address := range p.Emails {
			if isQueried(q, hash, address) {
				c.emails = append(c.emails, address)
			}
		}
		if isOwner(ref, p.Username) {
			c.emails = append(c.emails, q.Email)
		}
		out[ref] = c
		if len(c.emails) == 0 || q.Phone != "" {
			rest = append(rest, ref)
		}
	}
	// The addresses of the own commits of accounts, and phone numbers, are in the records only.
	records, err := s.finder.reader.Records(ctx, rest)
	if err != nil {
		return nil, err
	}
	forms := suppress.PhoneForms(q.Phone)
	for ref, r := range records {
		c := out[ref]
		for _, address := range r.Emails {
			if isQueried(q, hash, address) && !s.finder.reader.IsErasedAddress(address) {
				c.emails = append(c.emails, address)
			}
		}
		c.phone = slices.ContainsFunc(suppress.OwnPhones(r.JSON),
			func(number string) bool { return slices.Contains(forms, number) })
		out[ref] = c
	}
	for ref, c := range out {
		if len(c.emails) == 0 && !c.phone {
			delete(out, ref)
			continue
		}
		s.addCandidate(ref, rankLink).anyUsername = true
	}
	return out, nil
}

// isQueried reports whether a normalized address is the one of a query, or has its hash.
func isQueried(q event.PersonQuery, hash []byte, address string) bool {
	switch len(hash) {
	case sha256.Size:
		return sha256.Sum256([]byte(address)) == [sha256.Size]byte(hash)
	case md5.Size:
		return md5.Sum([]byte(address)) == [md5.Size]byte(hash) //nolint:gosec // see the import
	}
	return address == q.Email && address != ""
}

// agreeContacts gives the seed and the candidates what they have in common.
func (s *search) agreeContacts(q event.PersonQuery, contacts map[people.Ref]contact) {
	forms := suppress.PhoneForms(q.Phone)
	for ref, c := range contacts {
		p := s.profiles[ref]
		if p == nil {
			continue
		}
		own := *p
		for _, address := range c.emails {
			if !slices.Contains(own.Emails, address) {
				own.Emails = append(slices.Clone(own.Emails), address)
			}
			if !slices.Contains(s.seed.Emails, address) {
				s.seed.Emails = append(s.seed.Emails, address)
			}
		}
		if c.phone {
			own.Phones, s.seed.Phones = forms, forms
		}
		s.profiles[ref] = &own
	}
}

// described returns the candidates of all platforms, compared with the description. Those that a guessed username alone
// led to are left out.
func (s *search) described() []*evidence.Candidate {
	var out []*evidence.Candidate
	for _, ranked := range s.rank(s.seed) {
		for _, c := range ranked.Candidates {
			name := evidence.Level(c.Comparisons, evidence.FieldName)
			if c.B.Person && c.B.Username != "" && (hasContact(c) || name != evidence.Missing &&
				name != evidence.Different) {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *evidence.Candidate) int {
		return cmp.Or(cmp.Compare(s.model.Odds(b), s.model.Odds(a)), cmp.Compare(a.B.Platform, b.B.Platform),
			cmp.Compare(a.B.Identity, b.B.Identity))
	})
	return out
}

// openPlatforms returns the platforms without a confident candidate.
func openPlatforms(candidates []*evidence.Candidate) []string {
	return slices.DeleteFunc(identity.PlatformNames(), func(platform string) bool {
		return slices.ContainsFunc(candidates, func(c *evidence.Candidate) bool {
			return c.B.Platform == platform && c.Confidence >= minConfidenceToFollow
		})
	})
}

// describedPerson is a person with the candidates that are accounts of the person, the best first.
type describedPerson struct {
	accounts []*evidence.Candidate
	match    event.PersonMatch
	odds     float64 // against no match
	owner    bool    // of the query's address or phone number
}

// ownsContact reports whether an account has the address or phone number of the query, and no other name.
func ownsContact(c *evidence.Candidate) bool {
	return hasContact(c) && !strings.HasPrefix(evidence.Level(c.Comparisons, evidence.FieldName), evidence.Different)
}

// contactOdds returns the odds of an account if nothing but the address and the phone number is given: a name that many
// share does not make their owner less likely.
func (s *search) contactOdds(c *evidence.Candidate) float64 {
	pair := c.Pair
	pair.A = &people.Profile{Emails: s.seed.Emails, Phones: s.seed.Phones, Followers: -1, Person: true}
	return s.model.Odds(&evidence.Candidate{Pair: pair, Comparisons: evidence.Compare(pair)})
}

// hasContact reports whether a candidate has the address or phone number of the query.
func hasContact(c *evidence.Candidate) bool {
	return evidence.Level(c.Comparisons, evidence.FieldEmail) == "same" ||
		evidence.Level(c.Comparisons, evidence.FieldPhone) == "same"
}

// mergePeople merges the candidates that discovery finds from each other, and scores the people: the odds of a person
// are those of the best account, and at most one person is right.
func (s *search) mergePeople(
	ctx context.Context, candidates []*evidence.Candidate, fail func(stage string, err error),
) []*describedPerson {
	total := 1.0
	for _, c := range candidates {
		total += s.model.Odds(c)
	}
	merged := make(map[people.Ref]bool)
	var out []*describedPerson
	resolved := 0
	for _, c := range candidates {
		ref := refOf(c.B)
		if merged[ref] {
			continue
		}
		merged[ref] = true
		p := &describedPerson{accounts: []*evidence.Candidate{c}}
		p.match.Accounts = []event.Social{{Account: c.B.Account(), Identity: c.B.Identity, Confidence: 1}}
		if resolved < maxResolved && s.model.Odds(c)/total >= minRawToResolve {
			resolved++
			for _, other := range s.otherAccounts(ctx, c.B, fail) {
				ref := refOf(other.profile)
				if merged[ref] || other.profile.Username == "" {
					continue
				}
				merged[ref] = true
				p.match.Accounts = append(p.match.Accounts, event.Social{Account: other.profile.Account(),
					Identity: other.profile.Identity, Confidence: other.confidence})
				if i := slices.IndexFunc(candidates,
					func(c *evidence.Candidate) bool { return refOf(c.B) == ref }); i >= 0 {
					p.accounts = append(p.accounts, candidates[i])
				}
			}
		}
		out = append(out, p)
	}
	// Namesakes of the owner of an address or a phone number compete only for what the owner leaves.
	owners, others := 1.0, 1.0
	for _, p := range out {
		p.odds = s.model.Odds(p.accounts[0])
		for _, c := range p.accounts {
			if ownsContact(c) {
				p.owner = true
				p.odds = max(p.odds, s.contactOdds(c))
			}
		}
		if p.owner {
			owners += p.odds
		} else {
			others += p.odds
		}
	}
	for _, p := range out {
		best := p.accounts[0]
		raw := p.odds / owners
		if !p.owner {
			raw /= others
		}
		p.match.Raw = round(raw)
		p.match.Confidence = round(min(s.model.Calibrated(raw), best.Limit(), maxDescribed))
		if hasContact(best) && !p.owner {
			p.match.Confidence = min(p.match.Confidence, maxOtherName)
		}
		p.match.Evidence = s.model.Reasons(best)
		p.match.Profile = summarize(best.B)
	}
	slices.SortStableFunc(out, func(a, b *describedPerson) int {
		return cmp.Compare(b.match.Confidence, a.match.Confidence)
	})
	return out
}

func refOf(p *people.Profile) people.Ref {
	return people.Ref{Platform: p.Platform, Identity: cmp.Or(p.Identity, "username:"+p.Key)}
}

// otherAccounts returns the accounts on other platforms that discovery finds with enough confidence to be shown as the
// person's (rulings.md, Person enrichment).
func (s *search) otherAccounts(
	ctx context.Context, p *people.Profile, fail func(stage string, err error),
) []*resolved {
	next := s.finder.newSearch(p)
	next.host, next.cache, next.population = s.host, s.cache, s.linkPopulation
	_, best := next.resolveStored(ctx, fail)
	if err := next.confirm(ctx, best); err != nil {
		fail(event.StageKnownLinks, err)
	}
	var out []*resolved
	for _, platform := range identity.PlatformNames() {
		if r := best[platform]; r != nil && r.confidence >= readmodel.DiscoveredConfidence {
			out = append(out, r)
		}
	}
	return out
}

// judgePeople lets the language model lower the confidences.
func (s *search) judgePeople(ctx context.Context, d *event.Identification, found []*describedPerson) error {
	best := make([]*evidence.Candidate, 0, maxJudged)
	for _, p := range found[:min(len(found), maxJudged)] {
		best = append(best, p.accounts[0])
	}
	opinions, err := s.askJudge(ctx, d.Versions, best)
	if err != nil {
		return err
	}
	for _, p := range found {
		if opinion, asked := opinions[p.accounts[0].B.Account()]; asked {
			p.match.Confidence, p.match.Evidence = applyOpinion(p.match.Confidence, opinion, p.match.Evidence)
		}
	}
	slices.SortStableFunc(found, func(a, b *describedPerson) int {
		return cmp.Compare(b.match.Confidence, a.match.Confidence)
	})
	return nil
}

// maxSummary limits each text of a short profile, in bytes.
const maxSummary = 300

// summarize returns the short profile of a person.
func summarize(p *people.Profile) event.PersonSummary {
	first := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return shorten(list[0])
	}
	return event.PersonSummary{
		FullName: first(p.Names), Headline: shorten(cmp.Or(p.Headline, p.Bio)), Title: first(p.Titles),
		Company: first(p.Employers), School: first(p.Schools), Location: shorten(strings.Join(specificPlaces(p), ", ")),
	}
}

func shorten(s string) string {
	if len(s) > maxSummary {
		s = strings.ToValidUTF8(s[:maxSummary], "")
	}
	return s
}
