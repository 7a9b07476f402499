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

//go:embed model.json
var embedded string

// Model weighs findings. It is immutable.
type Model struct {
	// Version names weights and calibration.
	Version string `json:"version"`
	// Prior is the logarithm to base 2 of the odds that a candidate of which
	// nothing is known is meant, against that none is.
	Prior float64 `json:"prior"`
	// Weights are those of findings, by field and level, to base 2. A level that is
	// not in it weighs nothing.
	Weights map[string]map[string]float64 `json:"weights"`
	// Calibration is a rising line from raw to calibrated probabilities, through
	// these points.
	Calibration []Point `json:"calibration"`
}

// Point is a point of the calibration.
type Point struct {
	Raw        float64 `json:"raw"`
	Calibrated float64 `json:"calibrated"`
}

// Default is the model that is built in.
func Default() (*Model, error) { return Load(strings.NewReader(embedded)) }

// Load reads a model as Save wrote it.
func Load(r io.Reader) (*Model, error) {
	var m Model
	if err := json.UnmarshalRead(r, &m, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("read evidence model: %w", err)
	}
	if m.Version == "" || len(m.Weights) == 0 || len(m.Calibration) < 2 {
		return nil, fmt.Errorf("read evidence model: version, weights or calibration is missing")
	}
	for i, p := range m.Calibration {
		if p.Raw < 0 || p.Raw > 1 || p.Calibrated < 0 || p.Calibrated > 1 ||
			i > 0 && (p.Raw < m.Calibration[i-1].Raw || p.Calibrated < m.Calibration[i-1].Calibrated) {
			return nil, fmt.Errorf("read evidence model: calibration[%d] does not rise from 0 to 1", i)
		}
	}
	return &m, nil
}

// Weight is the weight of a finding.
func (m *Model) Weight(f Finding) float64 { return m.Weights[f.Field][f.Level] }

// applied is what a finding weighs beside the others: that a name or username is
// common speaks against picking one of many who have it, and not against one whom
// a link points out.
func (m *Model) applied(c *Candidate, f Finding) float64 {
	w := m.Weight(f)
	if w < 0 && f.Field == FieldUsername && agrees(f.Level) && Linked(Level(c.Findings, FieldLink)) {
		return 0
	}
	return w
}

// agrees reports whether the level of a name or username has a commonness: it is
// the same on both sides.
func agrees(level string) bool {
	for _, n := range []int{0, 1, 2, 5, 16} {
		if strings.HasSuffix(level, commonness(n)) {
			return true
		}
	}
	return false
}

// Candidate is a pair with what came of it. Rank fills in Raw and Confidence.
type Candidate struct {
	Pair
	Findings   []Finding
	Raw        float64 // probability before calibration
	Confidence float64 // calibrated
}

// Reasons are the findings that weigh anything, the heaviest first.
func (m *Model) Reasons(c *Candidate) []event.Evidence {
	var out []event.Evidence
	for _, f := range c.Findings {
		if w := m.applied(c, f); math.Abs(w) >= 0.1 {
			out = append(out, event.Evidence{Kind: f.Field, Finding: f.Level, Weight: math.Round(w*100) / 100})
		}
	}
	slices.SortStableFunc(out, func(a, b event.Evidence) int {
		switch {
		case math.Abs(a.Weight) > math.Abs(b.Weight):
			return -1
		case math.Abs(a.Weight) < math.Abs(b.Weight):
			return 1
		}
		return 0
	})
	return out
}

// Rank gives the candidates of one platform their probabilities, of which there
// is one altogether: at most one of them is meant. They are sorted, the likeliest
// first.
//
// Safeguards, which no weight can overrule: accounts of organizations and bots
// have none at all; and without a mutual link what is contradicted stays below
// what is returned: by the names, by another account that one of them calls its
// own, or by a name in letters that only look like those of another script.
func (m *Model) Rank(candidates []*Candidate) {
	total := 1.0
	var notes *Notes // of those who brought none
	for _, c := range candidates {
		if c.Notes == nil {
			if notes == nil {
				notes = NewNotes()
			}
			c.Notes = notes
		}
	}
	common := usual(candidates)
	for _, c := range candidates {
		c.Usual = common
		if c.Findings == nil {
			c.Findings = Compare(c.Pair)
		}
		c.Raw = 0
		if c.B.Person {
			c.Raw = m.odds(c)
		}
		total += c.Raw
	}
	for _, c := range candidates {
		others := 0.0
		if c.Raw/total > worthRivals && !Linked(Level(c.Findings, FieldLink)) {
			others = m.rivals(c)
		}
		c.Raw /= total + others
		c.Confidence = m.calibrate(c.Raw)
		a, b := c.notes()
		switch {
		case !c.B.Person || organization(a, b):
			c.Confidence = 0
		case Level(c.Findings, FieldLink) == Mutual:
		case namesContradict(a, b, c.Findings), elsewhereFor(c.Findings), a.disguised(), b.disguised():
			c.Confidence = min(c.Confidence, contradicted)
		}
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

// odds are those of a candidate against nobody.
func (m *Model) odds(c *Candidate) float64 {
	score := m.Prior
	for _, f := range c.Findings {
		score += m.applied(c, f)
	}
	return math.Exp2(min(score, 60))
}

// worthRivals is the least probability for which it matters who else a candidate
// may be.
const worthRivals = 0.2

// rivals are the odds that a candidate is not A's but of somebody else on A's
// platform who has the same name.
func (m *Model) rivals(c *Candidate) float64 {
	sum := 0.0
	for _, r := range c.Rivals {
		if !r.Person {
			continue
		}
		other := &Candidate{Pair: Pair{A: r, B: c.B, Namesakes: c.Namesakes, Alike: c.Alike, Usual: c.Usual, Notes: c.Notes}}
		other.Findings = Compare(other.Pair)
		sum += m.odds(other)
	}
	return sum
}

// elsewhereFor reports whether one of the two has another account by its own word
// where the other one is.
func elsewhereFor(findings []Finding) bool {
	switch Level(findings, FieldElsewhere) {
	case "one", "both", "third", "claimed":
		return true
	}
	return false
}

// Refuted reports whether A claims B and B, who does not claim A, calls another
// account on A's platform its own: A is not who it says.
func (c *Candidate) Refuted() bool {
	switch Level(c.Findings, FieldLink) {
	case OneWay, OneWay + "_stated", Mention:
	default:
		return false
	}
	return !slices.ContainsFunc(slices.Concat(c.B.Declared, c.B.Mentioned), c.A.Is) &&
		slices.ContainsFunc(c.B.Declared, func(a event.Account) bool { return a.Platform == c.A.Platform })
}

// Doubt keeps a candidate that no link supports below what is returned.
func (c *Candidate) Doubt() {
	if !Linked(Level(c.Findings, FieldLink)) {
		c.Confidence = min(c.Confidence, contradicted)
	}
}

// contradicted is the most that is believed against a contradiction.
const contradicted = 0.3

// calibrate applies the calibration's line.
func (m *Model) calibrate(raw float64) float64 {
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
