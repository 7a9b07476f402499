package search

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// invalidScore is the error text for scores that Elasticsearch rejects.
const invalidScore = "function_score: score is negative or not a number, or a field has no value; " +
	"set `missing` or use another modifier, factor or scale"

// innerHit is a nested document that matches.
type innerHit struct {
	index  int
	score  float32
	values []string // of the fields of the sort keys, in their order
}

// innerHits finds the matching nested documents of a page. It returns the field "inner_hits" for each document, or nil
// if the query requests none.
func (s *Search) innerHits(ctx context.Context, page *resultPage) ([][]byte, error) {
	var requested []algebra.Nested
	algebra.Walk(s.node, func(n algebra.Node) {
		if m, ok := n.(algebra.Nested); ok && m.InnerHits != nil {
			requested = append(requested, m)
		}
	})
	if len(requested) == 0 || len(page.hits) == 0 {
		return nil, nil
	}
	hashes := make([]uint64, len(page.hits))
	for i, p := range page.hits {
		hashes[i] = p.Hash
	}
	out := make([][]byte, len(page.hits))
	for _, n := range requested {
		found, invalid := make(map[string][]innerHit), false
		err := s.searcher.query(ctx, "inner hits", planner.InnerStatement(n, s.cursor.Stats, hashes),
			func(rows driver.Rows) error {
				var hash uint64
				var id string
				var scores []float32
				var values [][]string
				if err := rows.Scan(&hash, &id, &scores, &values); err != nil {
					return err
				}
				for i, score := range scores {
					if math.IsInf(float64(score), -1) {
						continue
					}
					invalid = invalid || score < 0 || score != score
					e := innerHit{index: i, score: score}
					for _, list := range values[1:] {
						e.values = append(e.values, list[i])
					}
					found[id] = append(found[id], e)
				}
				return nil
			})
		if err == nil && invalid {
			err = &TooExpensiveError{invalidScore}
		}
		if err != nil {
			return nil, err
		}
		for i, d := range page.documents {
			if d.JSON == nil {
				continue
			}
			if out[i], err = appendHits(out[i], n, found[d.ProfileID], d.JSON); err != nil {
				return nil, fmt.Errorf("search: inner hits: %w", err)
			}
		}
	}
	return out, nil
}

// compareHits compares two inner hits by sort keys, then by their positions.
func compareHits(keys []algebra.InnerSort, a, b innerHit) int {
	fields := 0
	for _, k := range keys {
		by, fixed := 0, false
		switch k.By {
		case algebra.InnerScore:
			by = cmp.Compare(a.score, b.score)
		case algebra.InnerPosition:
			by = cmp.Compare(a.index, b.index)
		case algebra.InnerField:
			by, fixed = compareValues(k, a.values[fields], b.values[fields])
			fields++
		}
		if k.Descending && !fixed {
			by = -by
		}
		if by != 0 {
			return by
		}
	}
	return cmp.Compare(a.index, b.index)
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

// appendHits appends "<name>":{"total":n,"hits":[...]}.
func appendHits(b []byte, n algebra.Nested, matching []innerHit, document []byte) ([]byte, error) {
	slices.SortFunc(matching, func(a, b innerHit) int { return compareHits(n.InnerHits.Sort, a, b) })
	elements, err := arrayField(document, n.Path)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = append(b, `"inner_hits":{`...)
	} else {
		b = append(b[:len(b)-1], ',')
	}
	if b, err = jsontext.AppendQuote(b, n.InnerHits.Name); err != nil {
		return nil, err
	}
	b = append(b, `:{"total":`...)
	b = strconv.AppendInt(b, int64(len(matching)), 10)
	b = append(b, `,"hits":[`...)
	first := true
	from, to := n.InnerHits.From, n.InnerHits.From+n.InnerHits.Size
	for _, e := range matching[min(from, len(matching)):min(to, len(matching))] {
		if e.index >= len(elements) {
			continue // Not part of the response, which has a limited number of entries.
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		shown, err := sourceFilter(n.InnerHits.Source).element(n.Path, elements[e.index])
		if err != nil {
			return nil, err
		}
		b = append(b, shown...)
	}
	return append(b, "]}}"...), nil
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
