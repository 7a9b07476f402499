package histories

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"muster/schemas/event"
)

// Description is what a caller may know of a person.
type Description struct {
	// Given names what is given.
	Given string
	Query event.PersonQuery
	// Username is that of the person's account, Profile the slug of the profile; empty if the store has none.
	Username, Profile string
}

// Score returns a match of a query with this description.
func (d Description) Score(confidence float64, username, profile string) ScoredMatch {
	return ScoredMatch{Confidence: confidence,
		Right: d.Username != "" && username == d.Username || d.Profile != "" && profile == d.Profile}
}

// describe draws descriptions of authors, and, for every second one of them, of an invented person: the given name of
// one author and the rest of the name of another one, at an employer of a third.
func (b *builder) describe(named []*pairing) {
	r := rand.New(rand.NewPCG(b.o.Seed, 2)) //nolint:gosec // a repeatable draw
	taken := make(map[string]bool)
	for _, k := range named {
		for _, name := range append(k.person.fullNames(), k.profile.name) {
			taken[name] = true
		}
	}
	add := func(given string, q event.PersonQuery, k *pairing) {
		if len(b.out.Descriptions) == b.o.Calls {
			return
		}
		d := Description{Given: given, Query: q}
		if k != nil {
			if d.Username = k.person.username; !k.missing {
				d.Profile = k.profile.slug
			}
		}
		b.out.Descriptions = append(b.out.Descriptions, d)
	}
	for n, i := range r.Perm(len(named)) {
		k := named[i]
		name := k.person.fullNames()[0]
		add("name", event.PersonQuery{Name: name}, k)
		if k.profile.employer != "" {
			add("name, company", event.PersonQuery{Name: name, Company: k.profile.employer}, k)
		}
		if !k.missing {
			add("name, location", event.PersonQuery{Name: name, Location: k.profile.at.city + ", " +
				k.profile.at.country}, k)
		}
		if len(k.person.commits) > 0 {
			add("e-mail", event.PersonQuery{Email: k.person.commits[0].address}, k)
		}
		given, _, ok := strings.Cut(name, " ")
		_, family, found := strings.Cut(named[r.IntN(len(named))].profile.name, " ")
		if n%2 == 0 || !ok || !found || taken[given+" "+family] {
			continue
		}
		invented := given + " " + family
		add("name", event.PersonQuery{Name: invented}, nil)
		if employer := named[r.IntN(len(named))].profile.employer; employer != "" {
			add("name, company", event.PersonQuery{Name: invented, Company: employer}, nil)
		}
		at := places()[r.IntN(len(places()))]
		add("name, location", event.PersonQuery{Name: invented, Location: at.city + ", " + at.country}, nil)
	}
}

// GivenOutcome is the answer to a description of a person.
type GivenOutcome struct {
	// Given names what was given, such as "name, company".
	Given string
	// Exists means that the store has the person.
	Exists bool
	// Matches are those returned, most likely first.
	Matches []ScoredMatch
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

// PrintGiven writes the reports as a Markdown table.
func PrintGiven(out io.Writer, reports []GivenReport) error {
	text := fmt.Sprintf("| given | asked | in the store | precision at %.2f | recall at %.2f | precision at 0.9 | "+
		"recall at 0.9 | ECE |\n|---|---|---|---|---|---|---|---|\n", event.DiscoveryThreshold,
		event.DiscoveryThreshold)
	for _, r := range reports {
		text += fmt.Sprintf("| %s | %d | %d | %v | %v | %v | %v | %.3f |\n", r.Given, r.Asked, r.Exists, r.Precision,
			r.Recall,
			r.SurePrecision, r.SureRecall, r.ECE)
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}
