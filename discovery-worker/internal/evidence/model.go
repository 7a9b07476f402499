package evidence

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"muster/schemas/event"
)

// embedded and descriptions are the models of pairs of accounts, and of a description and an account.
//
//go:embed model.json
var embedded string

//go:embed descriptions.json
var descriptions string

// Model weighs comparisons. It is immutable.
type Model struct {
	// Version is the version of weights and calibration.
	Version string `json:"version"`
	// Prior is the base-2 logarithm of the prior odds of a candidate against no match.
	Prior float64 `json:"prior"`
	// Weights are the base-2 match weights by field and level. Absent levels weigh 0.
	Weights map[string]map[string]float64 `json:"weights"`
	// Calibration are the points of a monotonic line from raw to calibrated probabilities.
	Calibration []Point `json:"calibration"`
}

// Point is a point of the calibration.
type Point struct {
	Raw        float64 `json:"raw"`
	Calibrated float64 `json:"calibrated"`
}

// Default returns the embedded model.
func Default() (*Model, error) { return Load(strings.NewReader(embedded)) }

// Descriptions returns the embedded model that compares a description of a person with accounts.
func Descriptions() (*Model, error) { return Load(strings.NewReader(descriptions)) }

// Load reads a model in JSON. It returns an error if the model is incomplete or not monotonic.
func Load(r io.Reader) (*Model, error) {
	var m Model
	if err := json.UnmarshalRead(r, &m, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("read evidence model: %w", err)
	}
	if m.Version == "" || len(m.Weights) == 0 || len(m.Calibration) < 2 {
		return nil, fmt.Errorf("read evidence model: missing version, weights or calibration")
	}
	for i, p := range m.Calibration {
		if p.Raw < 0 || p.Raw > 1 || p.Calibrated < 0 || p.Calibrated > 1 ||
			i > 0 && (p.Raw < m.Calibration[i-1].Raw || p.Calibrated < m.Calibration[i-1].Calibrated) {
			return nil, fmt.Errorf("read evidence model: calibration[%d] is not increasing from 0 to 1", i)
		}
	}
	return &m, nil
}

// MatchWeight returns the weight of a comparison.
func (m *Model) MatchWeight(f Comparison) float64 {
	return m.Weights[f.Field][f.Level] + f.Bits
}

// Candidate is a pair with its scores. [Model.Rank] sets Raw and Confidence.
type Candidate struct {
	Pair
	Comparisons []Comparison
	Raw         float64 // probability before calibration
	Confidence  float64 // calibrated probability
}

// Reasons returns the comparisons with a relevant weight, strongest first, and the prior.
func (m *Model) Reasons(c *Candidate) []event.Evidence {
	var out []event.Evidence
	add := func(kind, finding string, weight float64) {
		out = append(out, event.Evidence{Kind: kind, Finding: finding, Weight: math.Round(weight*100) / 100})
	}
	for _, f := range c.Comparisons {
		w := m.MatchWeight(f)
		switch {
		case math.Abs(w) < 0.1:
		case f.Field == FieldRarity:
			add(f.Field, fmt.Sprintf("%.2g others expected with this %s among %.0f people", math.Exp2(-f.Bits), f.Level,
				c.Population.size(c.B.Platform)), w)
		default:
			add(f.Field, f.Level, w)
		}
	}
	slices.SortStableFunc(out, func(a, b event.Evidence) int {
		return cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight))
	})
	prior := event.Evidence{Kind: FieldPrior, Finding: fmt.Sprintf("coverage %.2f, prevalence %.2f",
		c.Population.Coverage(c.B.Platform), c.Population.Prevalence()),
		Weight: math.Round(100*m.priorBits(c)) / 100}
	return append(out, prior)
}

// FieldPrior is the kind of the evidence that explains the prior.
const FieldPrior = "prior"

// priorBits returns the weight of a candidate before anything is compared.
func (m *Model) priorBits(c *Candidate) float64 {
	return m.Prior + c.Population.PriorBits(c.B.Platform)
}

// Rank sets the probabilities of the candidates of one platform, whose sum is at most 1, because at
// most one is right. It sorts them by descending confidence.
//
// Safeguards apply regardless of weights. Organizations and bots get 0. Without a mutual link, a
// contradicted candidate stays below the threshold. A contradiction is another account that one side
// calls its own, a name in look-alike letters, or, without any link or shared address, a different
// given name or surname.
func (m *Model) Rank(candidates []*Candidate) {
	total := 1.0
	var notes *FeatureCache // for candidates without one
	for _, c := range candidates {
		if c.Features == nil {
			if notes == nil {
				notes = NewFeatureCache()
			}
			c.Features = notes
		}
	}
	common := commonWords(candidates)
	for _, c := range candidates {
		c.CommonWords = common
		if c.Comparisons == nil {
			c.Comparisons = Compare(c.Pair)
		}
		c.Raw = m.Odds(c)
		total += c.Raw
	}
	for _, c := range candidates {
		c.Raw /= total
		c.Confidence = min(m.Calibrated(c.Raw), c.Limit())
	}
	slices.SortStableFunc(candidates, func(a, b *Candidate) int {
		switch {
		case a.Confidence != b.Confidence && a.Confidence > b.Confidence, a.Confidence == b.Confidence && a.Raw > b.Raw:
			return -1
		case a.Confidence == b.Confidence && a.Raw == b.Raw:
			return cmp.Or(strings.Compare(a.B.Identity, b.B.Identity), strings.Compare(a.B.Key, b.B.Key))
		}
		return 1
	})
}

// Limit returns the maximum confidence that the safeguards of [Model.Rank] allow for a compared candidate.
func (c *Candidate) Limit() float64 {
	a, b := c.features()
	switch {
	case !c.B.Person || isOrganizationPair(a, b):
		return 0
	case Level(c.Comparisons, FieldLink) == Mutual:
		return 1
	case c.namesContradict(), hasOtherAccount(c.Comparisons), a.usesConfusables(), b.usesConfusables():
		return maxContradicted
	}
	return 1
}

// namesContradict reports whether the names contradict: with a one-sided link, only names and
// usernames that have nothing in common do; without a link, nothing but a common address outweighs a
// different given name or surname.
func (c *Candidate) namesContradict() bool {
	switch {
	case Level(c.Comparisons, FieldEmail) == "same", Level(c.Comparisons, FieldPhone) == "same":
		return false
	case IsLink(Level(c.Comparisons, FieldLink)):
		return NamesContradict(c.Pair)
	}
	return matchNames(c.Pair).contradicts()
}

// Odds returns the odds of a compared candidate against no match; 0 for organizations and bots.
func (m *Model) Odds(c *Candidate) float64 {
	if !c.B.Person {
		return 0
	}
	score := m.priorBits(c)
	for _, f := range c.Comparisons {
		score += m.MatchWeight(f)
	}
	return math.Exp2(min(score, 60))
}

// RestsOnName reports whether nothing but names and usernames agrees.
func (c *Candidate) RestsOnName() bool {
	return !slices.ContainsFunc(c.Comparisons, func(f Comparison) bool {
		switch f.Field {
		case FieldEmail, FieldPhone, FieldEmployer, FieldDomain, FieldSchool, FieldPlace, FieldAvatar, FieldWebsite,
			FieldTitle:
			return strings.HasPrefix(f.Level, "same") || strings.HasPrefix(f.Level, "in_text") ||
				f.Level == "school" || f.Level == "employer"
		case FieldTopics:
			return f.Level == "one" || f.Level == "some" || f.Level == "many"
		case FieldLink:
			return IsLink(f.Level)
		}
		return false
	})
}

// hasOtherAccount reports whether one side declares another account where the other side is.
func hasOtherAccount(findings []Comparison) bool {
	switch Level(findings, FieldOtherAccount) {
	case "one", "both", "third", "claimed":
		return true
	}
	return false
}

// IsContradicted reports whether A claims B, but B does not claim A and declares another account on
// A's platform.
func (c *Candidate) IsContradicted() bool {
	switch Level(c.Comparisons, FieldLink) {
	case OneWay, OneWay + "_stated", Mention:
	default:
		return false
	}
	return !slices.ContainsFunc(slices.Concat(c.B.Declared, c.B.Mentioned), c.A.Is) &&
		slices.ContainsFunc(c.B.Declared, func(a event.Account) bool { return a.Platform == c.A.Platform })
}

// CapUnlinked limits the confidence of a candidate without a link to less than the threshold.
func (c *Candidate) CapUnlinked() {
	if !IsLink(Level(c.Comparisons, FieldLink)) {
		c.Confidence = min(c.Confidence, maxContradicted)
	}
}

// maxContradicted is the maximum confidence of a contradicted candidate.
const maxContradicted = 0.3

// Calibrated returns the calibrated probability of a raw one.
func (m *Model) Calibrated(raw float64) float64 {
	points := m.Calibration
	if raw <= points[0].Raw {
		return points[0].Calibrated
	}
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		if raw <= b.Raw {
			if b.Raw == a.Raw {
				return b.Calibrated
			}
			return a.Calibrated + (b.Calibrated-a.Calibrated)*(raw-a.Raw)/(b.Raw-a.Raw)
		}
	}
	return points[len(points)-1].Calibrated
}
