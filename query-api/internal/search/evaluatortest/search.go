package evaluatortest

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/searchtest"
	"muster/schemas/readmodel"
)

// found is a matching document.
type found struct {
	id       string
	document *document
	score    float64
	keys     []key
}

// key is the value of a sort key.
type key struct {
	missing bool
	number  float64
	integer int64
	text    string
}

// Search returns all matching documents in order. Ties in all keys are ordered by identity.
func (c *Collection) Search(n algebra.Node, sorts []planner.Sort) (searchtest.Result, error) {
	e := &evaluation{Collection: c, blends: make(map[int][]algebra.Term)}
	n, err := e.expand(n)
	if err != nil {
		return searchtest.Result{}, err
	}
	n = algebra.ShareStatistics(n)
	sorts = slices.Clone(sorts)
	for i := range sorts {
		if sorts[i].Nested == nil {
			continue
		}
		if sorts[i].Nested, err = e.expand(sorts[i].Nested); err != nil {
			return searchtest.Result{}, err
		}
	}
	algebra.Walk(n, func(n algebra.Node) {
		if t, ok := n.(algebra.Term); ok && t.Blend != 0 {
			e.blends[t.Blend] = append(e.blends[t.Blend], t)
		}
	})
	var list []found
	for i := range c.documents {
		d := &c.documents[i]
		score, ok := e.matches(n, place{d, d.root})
		if !ok {
			continue
		}
		f := found{id: d.id, document: d, score: float64(float32(score))}
		for _, s := range sorts {
			f.keys = append(f.keys, e.key(s, d, f.score))
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b found) int {
		for i, s := range sorts {
			if by := compare(s, a.keys[i], b.keys[i]); by != 0 {
				return by
			}
		}
		return strings.Compare(a.id, b.id)
	})
	out := searchtest.Result{Total: len(list)}
	for _, f := range list {
		h := searchtest.Hit{ID: f.id}
		if h.Inner, err = e.inner(n, f.document); err != nil {
			return searchtest.Result{}, err
		}
		if len(sorts) == 1 && sorts[0].Kind == planner.SortScore {
			h.Score = &f.score
		} else {
			for i, s := range sorts {
				h.Sort = append(h.Sort, f.keys[i].json(s))
			}
		}
		out.Hits = append(out.Hits, h)
	}
	return out, nil
}

func compare(s planner.Sort, a, b key) int {
	switch {
	case a.missing && b.missing:
		return 0
	case a.missing != b.missing:
		if a.missing == s.MissingFirst {
			return -1
		}
		return 1
	}
	by := cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.integer, b.integer), strings.Compare(a.text, b.text))
	if s.Descending {
		return -by
	}
	return by
}

// json returns the key as in a search response.
func (k key) json(s planner.Sort) jsontext.Value {
	switch {
	case s.Kind == planner.SortDocument:
		return jsontext.Value("0")
	case k.missing:
		return jsontext.Value("null")
	case s.Kind == planner.SortScore:
		return strconv.AppendFloat(nil, k.number, 'g', -1, 32)
	case s.Double:
		return strconv.AppendFloat(nil, k.number, 'g', -1, 64)
	case s.Field.IsString():
		quoted, err := jsontext.AppendQuote(nil, k.text)
		if err != nil {
			return jsontext.Value(`""`) // not UTF-8: no document has it
		}
		return quoted
	}
	return strconv.AppendInt(nil, k.integer, 10)
}

// key returns the value of a document for a sort key.
func (e *evaluation) key(s planner.Sort, d *document, score float64) key {
	units := []unit{d.root}
	if s.Nested != nil {
		units = nil
		for _, u := range d.elements[s.Field.Nested] {
			if _, ok := e.matches(s.Nested, place{d, u}); ok {
				units = append(units, u)
			}
		}
	}
	return keyOf(s, d, units, score)
}

// keyOf returns the value for a sort key of units of a document.
func keyOf(s planner.Sort, d *document, units []unit, score float64) key {
	switch s.Kind {
	case planner.SortScore:
		return key{number: score}
	case planner.SortDocument:
		return key{}
	}
	var texts []string
	var numbers []int64
	for _, u := range units {
		c := place{d, u}.content(s.Field)
		numbers = append(numbers, c.numbers...)
		if s.Field.Type != readmodel.SearchBoolean {
			texts = append(texts, c.terms...)
			continue
		}
		for _, t := range c.terms {
			numbers = append(numbers, int64(strings.Index("FT", t)))
		}
	}
	if s.Children != nil { // Nested documents have one value each.
		texts, numbers = texts[:min(len(texts), *s.Children)], numbers[:min(len(numbers), *s.Children)]
	}
	if s.Field.IsString() {
		switch {
		case len(texts) == 0 && s.Missing != nil:
			return key{text: *s.Missing}
		case len(texts) == 0:
			return key{missing: true}
		case s.Mode == algebra.ScoreMax:
			return key{text: slices.Max(texts)}
		}
		return key{text: slices.Min(texts)}
	}
	if len(numbers) == 0 {
		if s.Missing == nil {
			return key{missing: true}
		}
		if s.Double {
			x, err := strconv.ParseFloat(*s.Missing, 64)
			return key{number: x, missing: err != nil}
		}
		n, err := strconv.ParseInt(*s.Missing, 10, 64)
		return key{integer: n, missing: err != nil}
	}
	if s.Double {
		return key{number: joined(s.Mode, numbers)}
	}
	switch s.Mode {
	case algebra.ScoreMax:
		return key{integer: slices.Max(numbers)}
	case algebra.ScoreSum:
		return key{integer: int64(joined(s.Mode, numbers))}
	case algebra.ScoreAvg, algebra.ScoreMedian: // rounded half up
		return key{integer: int64(math.Floor(joined(s.Mode, numbers) + 0.5))}
	}
	return key{integer: slices.Min(numbers)}
}

// joined combines several numbers.
func joined(mode algebra.ScoreMode, numbers []int64) float64 {
	slices.Sort(numbers)
	sum := 0.0
	for _, n := range numbers {
		sum += float64(n)
	}
	n := len(numbers)
	switch mode {
	case algebra.ScoreMax:
		return float64(numbers[n-1])
	case algebra.ScoreSum:
		return sum
	case algebra.ScoreAvg:
		return sum / float64(n)
	case algebra.ScoreMedian:
		return (float64(numbers[(n-1)/2]) + float64(numbers[n/2])) / 2
	}
	return float64(numbers[0])
}
