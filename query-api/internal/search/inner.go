package search

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// element is an element of a nested path that matches.
type element struct {
	index int
	score float32
}

// innerHits finds the elements that matched in each document of a page, and
// gives by document the member "inner_hits" that shows them, nil when nobody
// asked.
func (s *Search) innerHits(ctx context.Context, r *ranking) ([][]byte, error) {
	var asked []algebra.Nested
	algebra.Walk(s.node, func(n algebra.Node) {
		if m, ok := n.(algebra.Nested); ok && m.InnerHits != nil {
			asked = append(asked, m)
		}
	})
	if len(asked) == 0 || len(r.places) == 0 {
		return nil, nil
	}
	hashes := make([]uint64, len(r.places))
	for i, p := range r.places {
		hashes[i] = p.Hash
	}
	out := make([][]byte, len(r.places))
	for _, n := range asked {
		found := make(map[string][]element)
		err := s.searcher.query(ctx, "inner hits", planner.InnerStatement(n, s.cursor.Stats, hashes), func(rows driver.Rows) error {
			var hash uint64
			var id string
			var scores []float32
			if err := rows.Scan(&hash, &id, &scores); err != nil {
				return err
			}
			for i, score := range scores {
				if score >= 0 {
					found[id] = append(found[id], element{i, score})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i, d := range r.documents {
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

// appendHits appends "<name>":{"total":n,"hits":[...]}, the best elements
// first, of equal ones as they stand in the document.
func appendHits(b []byte, n algebra.Nested, matching []element, document []byte) ([]byte, error) {
	slices.SortStableFunc(matching, func(a, b element) int { return cmp.Compare(b.score, a.score) })
	elements, err := list(document, n.Path)
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
	for _, e := range matching[min(n.InnerHits.From, len(matching)):min(n.InnerHits.From+n.InnerHits.Size, len(matching))] {
		if e.index >= len(elements) {
			continue // beyond the entries that are served
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, elements[e.index]...)
	}
	return append(b, "]}}"...), nil
}

// list gives the elements of a list of a document.
func list(document []byte, name string) ([]jsontext.Value, error) {
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
