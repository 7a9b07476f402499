package evaluatortest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/searchtest"
)

// inner returns all inner hits of a document by name, or nil if the query requests none.
func (e *evaluation) inner(n algebra.Node, d *document) (map[string]searchtest.Inner, error) {
	var out map[string]searchtest.Inner
	var err error
	algebra.Walk(n, func(n algebra.Node) {
		m, ok := n.(algebra.Nested)
		if !ok || m.InnerHits == nil || err != nil {
			return
		}
		if out == nil {
			out = make(map[string]searchtest.Inner)
		}
		out[m.InnerHits.Name], err = e.hits(m, d)
	})
	return out, err
}

// hit is a nested document that matches.
type hit struct {
	index int
	score float64
	keys  []key
}

func (e *evaluation) hits(n algebra.Nested, d *document) (searchtest.Inner, error) {
	sorts := make([]planner.Sort, len(n.InnerHits.Sort))
	for i, s := range n.InnerHits.Sort {
		kind := map[algebra.InnerKey]planner.SortKind{
			algebra.InnerScore: planner.SortScore, algebra.InnerField: planner.SortField,
			algebra.InnerPosition: planner.SortDocument,
		}[s.By]
		sorts[i] = planner.Sort{Kind: kind, Field: s.Field, Double: s.Double, Descending: s.Descending,
			MissingFirst: s.MissingFirst, Missing: s.Missing}
	}
	var list []hit
	for i, u := range d.elements[n.Path] {
		score, ok := e.matches(n.Node, place{d, u})
		if !ok {
			continue
		}
		h := hit{index: i, score: float64(float32(score))}
		for _, s := range sorts {
			k := keyOf(s, d, []unit{u}, h.score)
			if s.Kind == planner.SortDocument {
				k.integer = int64(i)
			}
			h.keys = append(h.keys, k)
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b hit) int {
		for i, s := range sorts {
			if by := compare(s, a.keys[i], b.keys[i]); by != 0 {
				return by
			}
		}
		return cmp.Compare(a.index, b.index)
	})
	out := searchtest.Inner{Total: len(list)}
	for _, h := range list {
		shown, err := shown(n, d.lists[n.Path][h.index])
		if err != nil {
			return out, err
		}
		var values []jsontext.Value
		for i, s := range sorts {
			if s.Kind == planner.SortDocument {
				values = append(values, strconv.AppendInt(nil, h.keys[i].integer, 10))
			} else {
				values = append(values, h.keys[i].json(s))
			}
		}
		out.Offsets = append(out.Offsets, h.index)
		out.Scores = append(out.Scores, &h.score)
		out.Sorts = append(out.Sorts, values)
		out.Sources = append(out.Sources, shown)
	}
	return out, nil
}

// shown returns the selected fields of an element, which has no objects.
func shown(n algebra.Nested, element any) (jsontext.Value, error) {
	source := n.InnerHits.Source
	named := func(patterns []string, name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			p = strings.NewReplacer("?", `\?`, `\`, `\\`).Replace(p)
			return wild([]rune(p), []rune(name)) || wild([]rune(p), []rune(n.Path))
		})
	}
	members, _ := element.(map[string]any)
	left := make(map[string]any)
	for name, v := range members {
		full := n.Path + "." + name
		if !source.None && (len(source.Includes) == 0 || named(source.Includes, full)) && !named(source.Excludes, full) {
			left[name] = v
		}
	}
	return json.Marshal(left)
}
