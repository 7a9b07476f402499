package readstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/schemas/company"
	"muster/schemas/place"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// targetCompany is the kind of a company in Record.Identities.
const targetCompany = "network-company"

const (
	// minScore is the minimum score of a candidate that matches (rulings.md, Batches).
	minScore = 0.9
	// maxCandidates is the maximum number of candidates in a response, and maxScored that of those that are read.
	maxCandidates = 20
	maxScored     = 200
)

// CompanyQuery is a query of company enrichment. Slugs are identity.NormalizeUsername forms, IDs are exact, domains are
// company.RegistrableDomain forms; empty if not given.
type CompanyQuery struct {
	Slug      string
	NetworkID string
	URLSlug   string
	CompanyID string
	Website   string // the domain of a website
	Domain    string
	Email     string // the domain of an e-mail address
	Name      string // as given; company.NameKey is not empty
	Location  string // of the company with the name, as given
}

// Candidate is a company that a website, domain or name may mean.
type Candidate struct {
	CompanyID string  `json:"company_id"`
	Name      string  `json:"name,omitempty"`
	Score     float64 `json:"score"` // between 0 and 1
}

// companyIdentifier is an identifier of a query.
type companyIdentifier struct {
	kind  readmodel.LookupType // empty: the value is the company ID
	value string
	// holds reports whether a company has the identifier. The newest one matches.
	holds func(*readmodel.CompanyRow) bool
	// score, instead of holds, returns how well companies fit.
	score func([]*readmodel.CompanyRow) ([]scoredCompany, error)
}

// scoredCompany is a company with its score.
type scoredCompany struct {
	row       *readmodel.CompanyRow
	candidate Candidate
}

// identifiers returns the given identifiers in the order in which they are tried.
func (q CompanyQuery) identifiers() []companyIdentifier {
	slug := func(value string) companyIdentifier {
		return companyIdentifier{kind: readmodel.LookupCompanySlug, value: value,
			holds: func(c *readmodel.CompanyRow) bool { return c.SlugKey == value }}
	}
	domain := func(value string) companyIdentifier {
		return companyIdentifier{kind: readmodel.LookupCompanyDomain, value: value,
			score: func(rows []*readmodel.CompanyRow) ([]scoredCompany, error) { return scoreDomain(value, rows) }}
	}
	all := []companyIdentifier{
		slug(q.Slug),
		{kind: readmodel.LookupCompanyNetworkID, value: q.NetworkID,
			holds: func(c *readmodel.CompanyRow) bool { return c.NetworkID == q.NetworkID }},
		slug(q.URLSlug),
		{value: q.CompanyID, holds: func(c *readmodel.CompanyRow) bool { return c.CompanyID == q.CompanyID }},
		domain(q.Website), domain(q.Domain), domain(q.Email),
		{kind: readmodel.LookupCompanyName, value: company.NameKey(q.Name),
			score: func(rows []*readmodel.CompanyRow) ([]scoredCompany, error) {
				return scoreName(q.Name, q.Location, rows)
			}},
	}
	return slices.DeleteFunc(all, func(id companyIdentifier) bool { return id.value == "" })
}

// answer finds a company by the first identifier that matches, in the order of the fields, and renders it (MAPPING.md,
// section 4). A nil Body means no match. A website, domain or name matches only with a single candidate of at least
// minScore; otherwise the candidates of the first identifier that has some are returned.
func (q CompanyQuery) answer(ctx context.Context, w *session) (Record, error) {
	given := q.identifiers()
	keys := make([]lookupKey, 0, len(given))
	for _, id := range given {
		if id.kind != "" {
			keys = append(keys, lookupKey{id.kind, id.value})
		}
	}
	if err := w.ask(ctx, keys...); err != nil {
		return Record{}, err
	}
	named := make([][]string, len(given)) // company IDs
	for i, id := range given {
		if id.kind == "" {
			named[i] = []string{id.value}
			continue
		}
		rows := w.found[lookupKey{id.kind, id.value}]
		if len(rows) > maxScored {
			slices.SortFunc(rows, func(a, b readmodel.LookupRow) int {
				return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(a.Target, b.Target))
			})
			rows = rows[:maxScored]
		}
		for _, r := range rows {
			named[i] = append(named[i], r.Target)
		}
	}
	companies, err := w.companies(ctx, slices.Concat(named...))
	if err != nil {
		return Record{}, err
	}
	var miss Record
	for i, id := range given {
		var rows []*readmodel.CompanyRow
		for _, name := range named[i] {
			if c := companies[name]; c != nil && (id.holds == nil || id.holds(c)) {
				rows = append(rows, c)
			}
		}
		slices.SortFunc(rows, compareCompanies)
		if id.holds != nil {
			if len(rows) > 0 {
				return w.companyRecord(rows[0])
			}
			continue
		}
		scored, err := id.score(rows)
		if err != nil {
			return Record{}, err
		}
		if match := singleMatch(scored); match != nil {
			return w.companyRecord(match)
		}
		if miss.Candidates == nil {
			miss.Candidates = candidatesOf(scored)
		}
	}
	return miss, nil
}

// companyRecord returns the record of a company that was read, with its headcount by year (MAPPING.md, 4.1).
func (s *session) companyRecord(c *readmodel.CompanyRow) (Record, error) {
	body := appendCompany(nil, c)
	if h := s.headcounts[c.CompanyID]; h != nil {
		count := headcount{AsOf: h.At().Truncate(time.Second), Sample: h.Sample}
		for i, year := range h.Years[:min(len(h.Years), len(h.People))] {
			count.Years = append(count.Years, headcountYear{year, h.People[i]})
		}
		text, err := json.Marshal(count)
		if err != nil {
			return Record{}, err
		}
		body = append(appendName(body[:len(body)-1], "headcount_by_year"), text...)
		body = append(body, '}')
	}
	return Record{
		Body: body, Groups: []string{"company"}, Identities: []string{targetCompany + " " + c.CompanyID},
	}, nil
}

// headcount is the number of observed people who worked at a company.
type headcount struct {
	AsOf   time.Time       `json:"as_of"`
	Sample uint32          `json:"sample"`
	Years  []headcountYear `json:"years"`
}

type headcountYear struct {
	Year   uint16 `json:"year"`
	People uint32 `json:"people"`
}

// compareCompanies orders companies by version, the newest first, then by ID.
func compareCompanies(a, b *readmodel.CompanyRow) int {
	return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(a.CompanyID, b.CompanyID))
}

// singleMatch returns the only company with at least minScore, nil if there is none or several.
func singleMatch(scored []scoredCompany) *readmodel.CompanyRow {
	var match *readmodel.CompanyRow
	for _, s := range scored {
		if s.candidate.Score >= minScore {
			if match != nil {
				return nil
			}
			match = s.row
		}
	}
	return match
}

// candidatesOf returns the best candidates, nil if there are none.
func candidatesOf(scored []scoredCompany) []Candidate {
	slices.SortStableFunc(scored, func(a, b scoredCompany) int {
		return cmp.Compare(b.candidate.Score, a.candidate.Score)
	})
	var out []Candidate
	for _, s := range scored[:min(len(scored), maxCandidates)] {
		out = append(out, s.candidate)
	}
	return out
}

// knownOf is what a company is compared by.
type knownOf struct {
	Profile struct {
		Name    string `json:"name"`
		Website string `json:"website"`
	} `json:"profile"`
	Headquarters struct {
		City    string `json:"city"`
		Region  string `json:"region"`
		Country string `json:"country"`
	} `json:"headquarters"`
}

func newKnownOf(c *readmodel.CompanyRow) (knownOf, error) {
	var k knownOf
	err := json.Unmarshal([]byte("{"+c.Company+"}"), &k)
	return k, err
}

// scoreDomain scores the companies whose website has a domain: 1 if there is one, or one with the domain itself as its
// website; else they share it.
func scoreDomain(domain string, rows []*readmodel.CompanyRow) ([]scoredCompany, error) {
	var scored, mains []scoredCompany
	for _, c := range rows {
		k, err := newKnownOf(c)
		if err != nil {
			return nil, err
		}
		has, main := company.WebsiteDomain(k.Profile.Website)
		if has != domain {
			continue
		}
		s := scoredCompany{c, Candidate{CompanyID: c.CompanyID, Name: k.Profile.Name}}
		scored = append(scored, s)
		if main {
			mains = append(mains, s)
		}
	}
	if len(mains) == 1 {
		scored = mains
	}
	for i := range scored {
		scored[i].candidate.Score = 1 / float64(len(scored))
	}
	return scored, nil
}

// scoreName scores the companies with a name (company.NameScore).
func scoreName(name, location string, rows []*readmodel.CompanyRow) ([]scoredCompany, error) {
	var at place.Place
	gazetteer := place.Default
	if location != "" {
		at = gazetteer().Find(location)
	}
	var scored []scoredCompany
	for _, c := range rows {
		k, err := newKnownOf(c)
		if err != nil {
			return nil, err
		}
		var headquarters place.Place
		if h := k.Headquarters; location != "" {
			// As text, like the location: a region may be a code, which does not contradict its name.
			headquarters = gazetteer().Find(strings.Join([]string{h.City, h.Region, h.Country}, ", "))
		}
		score := company.NameScore(name, at, k.Profile.Name, headquarters, location != "")
		if score > 0 {
			candidate := Candidate{CompanyID: c.CompanyID, Name: k.Profile.Name, Score: score}
			scored = append(scored, scoredCompany{c, candidate})
		}
	}
	return scored, nil
}

// companies reads companies and their headcounts in one round. The result lacks those that do not exist.
func (s *session) companies(ctx context.Context, ids []string) (map[string]*readmodel.CompanyRow, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var r round
	for _, id := range ids {
		r.companies.keys = append(r.companies.keys, readmodel.CompanyHash(id))
	}
	r.seen.keys, r.headcounts.keys = r.companies.keys, r.companies.keys
	if err := s.fetch(ctx, &r); err != nil {
		return nil, err
	}
	out := make(map[string]*readmodel.CompanyRow, len(ids))
	if s.headcounts == nil {
		s.headcounts = make(map[string]*readmodel.HeadcountRow)
	}
	for i, id := range ids {
		for _, c := range r.companies.values[i] {
			if c.CompanyID != id || c.Deleted {
				continue
			}
			row := *c
			row.Version = readmodel.NewestVersion(record.KindNetworkCompany, id, row.Version, row.ContentHash,
				r.seen.values[i])
			out[id] = &row
		}
		for _, h := range r.headcounts.values[i] {
			if newest := s.headcounts[id]; h.CompanyID == id && (newest == nil || newest.Run < h.Run) {
				s.headcounts[id] = h
			}
		}
	}
	return out, nil
}
