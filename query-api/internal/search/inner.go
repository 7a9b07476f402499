package search

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/highlight"
	"muster/query-api/internal/search/postings"
)

// invalidScore is the error text for scores that Elasticsearch rejects.
const invalidScore = "function_score: score is negative or not a number, or a field has no value; " +
	"set `missing` or use another modifier, factor or scale"

// innerHits returns, by document, the field "inner_hits" with the nested documents that matched; nil if the query
// requests none.
func (s *Search) innerHits(r *ranking) ([][]byte, error) {
	clauses := innerClauses(s.node)
	if len(clauses) == 0 || len(r.places) == 0 {
		return nil, nil
	}
	marked := make([]*highlight.Highlighter, len(clauses))
	for k, n := range innerClauses(s.parsed) {
		if len(n.InnerHits.Highlights) > 0 {
			marked[k] = highlight.New(n.Node, n.InnerHits.Highlights, n.Path)
		}
	}
	out := make([][]byte, len(r.places))
	for i, d := range r.documents {
		if d.JSON == nil {
			continue
		}
		out[i] = append(out[i], `"inner_hits":{`...)
		for k, n := range clauses {
			if k > 0 {
				out[i] = append(out[i], ',')
			}
			var err error
			if out[i], err = s.appendHits(out[i], n, r.window(n, i, k), d.JSON, marked[k]); err != nil {
				return nil, fmt.Errorf("search: inner hits: %w", err)
			}
		}
		out[i] = append(out[i], '}')
	}
	return out, nil
}

// window returns the nested documents of a place that matched a clause.
func (r *ranking) window(n algebra.Nested, place, clause int) hitWindow {
	if r.windows != nil {
		return r.windows[place][clause]
	}
	matching := r.elements[place][clause]
	slices.SortFunc(matching, func(a, b postings.Element) int { return compareHits(n.InnerHits.Sort, a, b) })
	w := hitWindow{total: len(matching)}
	if len(matching) > 0 {
		w.best = matching[0].Score
	}
	from, to := n.InnerHits.From, n.InnerHits.From+n.InnerHits.Size
	for _, e := range matching[min(from, len(matching)):min(to, len(matching))] {
		w.hits = append(w.hits, innerHit{e.Index, e.Score})
	}
	return w
}

// compareHits compares two inner hits by sort keys, then by their positions.
func compareHits(keys []algebra.InnerSort, a, b postings.Element) int {
	fields := 0
	for _, k := range keys {
		by, fixed := 0, false
		switch k.By {
		case algebra.InnerScore:
			by = cmp.Compare(a.Score, b.Score)
		case algebra.InnerPosition:
			by = cmp.Compare(a.Index, b.Index)
		case algebra.InnerField:
			by, fixed = compareValues(k, a.Values[fields], b.Values[fields])
			fields++
		}
		if k.Descending && !fixed {
			by = -by
		}
		if by != 0 {
			return by
		}
	}
	return cmp.Compare(a.Index, b.Index)
}

// compareValues compares two values of a field, "" if absent. fixed reports whether the result holds in both
// directions.
func compareValues(k algebra.InnerSort, a, b string) (by int, fixed bool) {
	if k.Missing != nil {
		a, b = cmp.Or(a, *k.Missing), cmp.Or(b, *k.Missing)
	}
	switch {
	case a == b:
		return 0, true
	case k.Missing == nil && (a == "" || b == ""):
		if (a == "") == k.MissingFirst {
			return -1, true
		}
		return 1, true
	case k.Field.IsString():
		return cmp.Compare(a, b), false
	}
	if k.Double {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return cmp.Compare(x, y), false
	}
	x, _ := strconv.ParseInt(a, 10, 64) // written by the store or by clause.Sorts
	y, _ := strconv.ParseInt(b, 10, 64)
	return cmp.Compare(x, y), false
}

// appendHits appends the member of a clause, in the shape of Elasticsearch.
func (s *Search) appendHits(
	b []byte, n algebra.Nested, matching hitWindow, document []byte, marked *highlight.Highlighter,
) ([]byte, error) {
	elements, err := arrayField(document, n.Path)
	if err != nil {
		return nil, err
	}
	if b, err = jsontext.AppendQuote(b, n.InnerHits.Name); err != nil {
		return nil, err
	}
	b = append(b, `:{"hits":{"total":{"value":`...)
	b = strconv.AppendInt(b, int64(matching.total), 10)
	b = append(b, `,"relation":"eq"},"max_score":`...)
	sort := n.InnerHits.Sort
	isBestFirst := len(sort) > 0 && sort[0].By == algebra.InnerScore && sort[0].Descending && matching.total > 0
	b = appendScore(b, matching.best, isBestFirst)
	b = append(b, `,"hits":[`...)
	first := true
	for _, hit := range matching.hits {
		if hit.offset >= len(elements) {
			continue // Not part of the response, which has a limited number of entries.
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		if b, err = s.appendInnerHit(b, n, hit, elements[hit.offset], marked); err != nil {
			return nil, err
		}
	}
	return append(b, "]}}"...), nil
}

func (s *Search) appendInnerHit(
	b []byte, n algebra.Nested, hit innerHit, element jsontext.Value, marked *highlight.Highlighter,
) ([]byte, error) {
	b, err := jsontext.AppendQuote(append(b, `{"_nested":{"field":`...), n.Path)
	if err != nil {
		return nil, err
	}
	b = strconv.AppendInt(append(b, `,"offset":`...), int64(hit.offset), 10)
	b = appendScore(append(b, `},"_score":`...), hit.score, n.InnerHits.Scored())
	if !n.InnerHits.Source.None {
		filter := sourceFilter{n.InnerHits.Source, s.searcher.collection.ID}
		shown, err := filter.element(n.Path, element)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"_source":`...), shown...)
	}
	if b, err = appendHighlight(b, marked, element); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// appendScore appends a score, or null if it is unknown.
func appendScore(b []byte, score float32, known bool) []byte {
	if !known {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, float64(min(score, math.MaxFloat32)), 'g', -1, 32) // JSON has no infinity.
}

// appendHighlight appends the member "highlight" of a document; nothing if no word is marked.
func appendHighlight(b []byte, marked *highlight.Highlighter, document []byte) ([]byte, error) {
	if marked == nil {
		return b, nil
	}
	fragments, err := marked.Append(nil, document)
	if err != nil {
		return nil, fmt.Errorf("search: highlight: %w", err)
	}
	if len(fragments) > 0 {
		b = append(append(b, `,"highlight":`...), fragments...)
	}
	return b, nil
}

// arrayField returns the elements of an array field of a document.
func arrayField(document []byte, name string) ([]jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(document))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		if key.String() != name {
			if err := d.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		var out []jsontext.Value
		err = json.UnmarshalDecode(d, &out)
		return out, err
	}
	return nil, nil
}
