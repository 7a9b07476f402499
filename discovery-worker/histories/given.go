package histories

import (
	"crypto/md5" //nolint:gosec // callers may have such hashes
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"muster/schemas/event"
	"muster/schemas/identity"
)

// Description is what a caller may know of a person.
type Description struct {
	Selection
	// Username is that of the person's account, Profile the slug of the profile; empty if the store has none.
	Username, Profile string
}

// Score returns a match of a query with this description.
func (d Description) Score(confidence float64, username, profile string) ScoredMatch {
	return ScoredMatch{Confidence: confidence,
		Right: d.Username != "" && username == d.Username || d.Profile != "" && profile == d.Profile}
}

// Selection is a query with some members of a description.
type Selection struct {
	// Given names what is given, such as "name, company".
	Given string
	Query event.PersonQuery
}

// Selections returns queries with some members of a description, without those that lack a value. The hash of the
// address is its MD5 or its SHA-256.
func Selections(r *rand.Rand, about event.PersonQuery) []Selection {
	var out []Selection
	add := func(given string, q event.PersonQuery, needed ...string) {
		if !slices.Contains(needed, "") {
			out = append(out, Selection{given, q})
		}
	}
	with := func(change func(*event.PersonQuery)) event.PersonQuery {
		q := event.PersonQuery{Name: about.Name}
		change(&q)
		return q
	}
	add("name", event.PersonQuery{Name: about.Name})
	add("name, company", with(func(q *event.PersonQuery) { q.Company = about.Company }), about.Company)
	add("name, location", with(func(q *event.PersonQuery) { q.Location = about.Location }), about.Location)
	add("name, school", with(func(q *event.PersonQuery) { q.School = about.School }), about.School)
	add("name, title", with(func(q *event.PersonQuery) { q.Title = about.Title }), about.Title)
	add("name, company, location", with(func(q *event.PersonQuery) {
		q.Company, q.Location = about.Company, about.Location
	}), about.Company, about.Location)
	add("name, company, school, location, title", with(func(q *event.PersonQuery) {
		q.Company, q.School, q.Location, q.Title = about.Company, about.School, about.Location, about.Title
	}), about.Company, about.School, about.Location, about.Title)
	add("e-mail", event.PersonQuery{Email: about.Email}, about.Email)
	add("e-mail hash", event.PersonQuery{EmailHash: hashOf(r, about.Email)}, about.Email)
	add("name, e-mail", with(func(q *event.PersonQuery) { q.Email = about.Email }), about.Email)
	return out
}

func hashOf(r *rand.Rand, address string) string {
	if r.IntN(2) == 0 {
		sum := md5.Sum([]byte(address)) //nolint:gosec // see the import
		return hex.EncodeToString(sum[:])
	}
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:])
}

// describe draws descriptions of authors, and, for every second one of them, of a synthetic person: the given name of
// one author and the rest of the name of another one, at an employer, a place and a title of others.
func (b *builder) describe(named []*pairing) {
	r := rand.New(rand.NewPCG(b.o.Seed, 2)) //nolint:gosec // a repeatable draw
	taken := make(map[string]bool)
	for _, k := range named {
		for _, name := range append(k.person.fullNames(), k.profile.name) {
			taken[name] = true
		}
	}
	about := func(name string, p *profile) event.PersonQuery {
		return event.PersonQuery{Name: name, Company: p.employer, Title: p.headline,
			Location: p.at.city + ", " + p.at.country}
	}
	add := func(q event.PersonQuery, username, profile string) {
		for _, selected := range Selections(r, q) {
			if selected.Query.EmailHash != "" {
				continue // Hashes of no-reply addresses are not indexed, and there are no other addresses.
			}
			b.out.Descriptions = append(b.out.Descriptions, Description{selected, username, profile})
		}
	}
	for n, i := range r.Perm(len(named)) {
		if len(b.out.Descriptions) >= b.o.Calls {
			break
		}
		k := named[i]
		q := about(k.person.fullNames()[0], k.profile)
		if len(k.person.commits) > 0 {
			q.Email = k.person.commits[0].address
		}
		slug := k.profile.slug
		if k.missing {
			slug = ""
		}
		add(q, k.person.username, slug)
		other := named[r.IntN(len(named))].profile
		given, _, ok := strings.Cut(q.Name, " ")
		_, family, found := strings.Cut(other.name, " ")
		synthetic := given + " " + family
		// Of "Dr" and "(Bo) Quarn", for example, one word remains.
		if n%2 == 0 || !ok || !found || taken[synthetic] || len(identity.NameBlockingKeys(synthetic)) == 0 {
			continue
		}
		add(about(synthetic, named[r.IntN(len(named))].profile), "", "")
	}
	b.out.Descriptions = b.out.Descriptions[:min(len(b.out.Descriptions), b.o.Calls)]
}

// GivenOutcome is the answer to a description of a person.
type GivenOutcome struct {
	// Given names what was given, such as "name, company".
	Given string
	// Exists means that the store has the person.
	Exists bool
	// Matches are those returned, most likely first.
	Matches []ScoredMatch
	Took    time.Duration
}

// ScoredMatch is a returned match.
type ScoredMatch struct {
	Confidence float64
	Right      bool
}

// GivenReport are the figures of the descriptions with the same members.
type GivenReport struct {
	Given         string
	Asked, Exists int
	// Precision and Recall are those of all matches from the threshold on, SurePrecision and SureRecall from 0.9 on.
	Precision, Recall, SurePrecision, SureRecall Figure
	// ECE is the expected calibration error of the first matches, in ten bins of equal width.
	ECE float64
}

// SummarizeGiven computes the reports, in the order of the first outcomes, and one of all.
func SummarizeGiven(outcomes []GivenOutcome) []GivenReport {
	var order []string
	byGiven := make(map[string][]GivenOutcome)
	for _, o := range outcomes {
		if !slices.Contains(order, o.Given) {
			order = append(order, o.Given)
		}
		byGiven[o.Given] = append(byGiven[o.Given], o)
	}
	var out []GivenReport
	for _, given := range order {
		out = append(out, summarizeGiven(given, byGiven[given]))
	}
	return append(out, summarizeGiven("all", outcomes))
}

func summarizeGiven(given string, outcomes []GivenOutcome) GivenReport {
	r := GivenReport{Given: given, Asked: len(outcomes)}
	const bins = 10
	var sums [bins]struct{ confidence, right float64 }
	first := 0
	for _, o := range outcomes {
		if o.Exists {
			r.Exists++
		}
		if len(o.Matches) > 0 {
			first++
			b := &sums[min(int(o.Matches[0].Confidence*bins), bins-1)]
			b.confidence += o.Matches[0].Confidence
			if o.Matches[0].Right {
				b.right++
			}
		}
	}
	for _, b := range sums {
		r.ECE += math.Abs(b.confidence-b.right) / float64(max(first, 1))
	}
	at := func(threshold float64) (precision, recall Figure) {
		returned, right := 0, 0
		for _, o := range outcomes {
			for _, m := range o.Matches {
				if m.Confidence >= threshold {
					returned++
					if m.Right {
						right++
					}
				}
			}
		}
		return wilson(right, returned), wilson(min(right, r.Exists), r.Exists)
	}
	r.Precision, r.Recall = at(event.DiscoveryThreshold)
	r.SurePrecision, r.SureRecall = at(sureAt)
	return r
}

// LatencyOfGiven returns the quantiles of the latencies of identification: p50, p90, p99.
func LatencyOfGiven(outcomes []GivenOutcome) [3]time.Duration {
	took := make([]time.Duration, len(outcomes))
	for i, o := range outcomes {
		took[i] = o.Took
	}
	return quantiles(took)
}

// PrintGiven writes the reports as a Markdown table.
func PrintGiven(out io.Writer, reports []GivenReport) error {
	text := fmt.Sprintf("| given | asked | in the store | precision at %.2f | recall at %.2f | precision at 0.9 | "+
		"recall at 0.9 | ECE |\n|---|---|---|---|---|---|---|---|\n", event.DiscoveryThreshold,
		event.DiscoveryThreshold)
	for _, r := range reports {
		text += fmt.Sprintf("| %s | %d | %d | %v | %v | %v | %v | %.3f |\n", r.Given, r.Asked, r.Exists, r.Precision,
			r.Recall, r.SurePrecision, r.SureRecall, r.ECE)
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}
