package search

import (
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/sloppyphrase"
)

// maxSloppyPhraseDocs is the maximum number of people whose texts are read for a phrase with slop that repeats a word.
const maxSloppyPhraseDocs = 100_000

// positionIncrementGap is the gap between the positions of two values of a field (position_increment_gap in
// Elasticsearch).
const positionIncrementGap = 100

// countSloppyPhrases adds to a phrase with slop that repeats a word how often it occurs in each document, which SQL
// cannot count. It returns other nodes unchanged.
func (s *Searcher) countSloppyPhrases(ctx context.Context, n algebra.Node) (algebra.Node, error) {
	p, ok := n.(algebra.Phrase)
	if !ok || p.Slop == 0 || !p.Repeats() {
		return n, nil
	}
	p.Found = &algebra.Frequencies{}
	add := func(key uint64, frequency float64) {
		if frequency > 0 {
			p.Found.Keys, p.Found.Values = append(p.Found.Keys, key), append(p.Found.Values, frequency)
		}
	}
	docs := 0
	err := s.query(ctx, "phrase", planner.PhraseStatement(p, maxSloppyPhraseDocs+1), func(rows driver.Rows) error {
		docs++
		var hash uint64
		if p.Field.Nested == "" {
			var tokens []string
			if err := rows.Scan(&hash, &tokens); err != nil {
				return err
			}
			add(hash, frequency(p, tokens))
			return nil
		}
		var nestedDocs [][]string
		if err := rows.Scan(&hash, &nestedDocs); err != nil {
			return err
		}
		var all []string
		for i, tokens := range nestedDocs {
			add(algebra.NestedDocID(hash, i+1), frequency(p, tokens))
			if len(all) > 0 && len(tokens) > 0 {
				all = append(all, make([]string, positionIncrementGap)...)
			}
			all = append(all, slices.DeleteFunc(tokens,
				func(t string) bool { return t == "" })...) // a text without words has one empty token
		}
		add(hash, frequency(p, all))
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case docs > maxSloppyPhraseDocs:
		return nil, &TooExpensiveError{fmt.Sprintf("more than %d people have the words of a phrase with slop that repeats "+
			"a word: omit slop, or the repetition", maxSloppyPhraseDocs)}
	}
	return p, nil
}

// frequency returns the frequency of a phrase with slop in a text.
func frequency(p algebra.Phrase, tokens []string) float64 {
	var terms []sloppyphrase.Term
	for i, words := range p.Terms {
		if len(words) == 0 {
			continue
		}
		t := sloppyphrase.Term{Offset: i, Words: words}
		for at, token := range tokens {
			if token != "" && slices.Contains(words, token) {
				t.Positions = append(t.Positions, at)
			}
		}
		if len(t.Positions) == 0 {
			return 0
		}
		terms = append(terms, t)
	}
	return sloppyphrase.Frequency(terms, p.Slop)
}
