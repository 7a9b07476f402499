package search

import (
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/sloppy"
)

// maxPhrasePeople bounds the people whose texts are read for a phrase with slop
// that repeats a word.
const maxPhrasePeople = 100_000

// elementGap is how many positions two elements are apart where they are
// searched as one text.
const elementGap = 100

// counted finds out where such a phrase occurs; any other node is what it was.
func (s *Searcher) counted(ctx context.Context, n algebra.Node) (algebra.Node, error) {
	p, ok := n.(algebra.Phrase)
	if !ok || p.Slop == 0 || !p.Repeats() {
		return n, nil
	}
	p.Found = &algebra.Frequencies{}
	note := func(key uint64, frequency float64) {
		if frequency > 0 {
			p.Found.Keys, p.Found.Values = append(p.Found.Keys, key), append(p.Found.Values, frequency)
		}
	}
	people := 0
	err := s.query(ctx, "phrase", planner.PhraseStatement(p, maxPhrasePeople+1), func(rows driver.Rows) error {
		people++
		var hash uint64
		if p.Field.Nested == "" {
			var tokens []string
			if err := rows.Scan(&hash, &tokens); err != nil {
				return err
			}
			note(hash, frequency(p, tokens))
			return nil
		}
		var elements [][]string
		if err := rows.Scan(&hash, &elements); err != nil {
			return err
		}
		var all []string
		for i, tokens := range elements {
			note(algebra.ElementKey(hash, i+1), frequency(p, tokens))
			if len(all) > 0 && len(tokens) > 0 {
				all = append(all, make([]string, elementGap)...)
			}
			all = append(all, slices.DeleteFunc(tokens, func(t string) bool { return t == "" })...) // of a text without words
		}
		note(hash, frequency(p, all))
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case people > maxPhrasePeople:
		return nil, &Budget{fmt.Sprintf("more than %d people have the words of a phrase with slop that repeats a word: leave out slop, or the repetition", maxPhrasePeople)}
	}
	return p, nil
}

// frequency is how often a phrase with slop occurs in a text.
func frequency(p algebra.Phrase, tokens []string) float64 {
	var terms []sloppy.Term
	for i, words := range p.Terms {
		if len(words) == 0 {
			continue
		}
		t := sloppy.Term{Offset: i, Words: words}
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
	return sloppy.Frequency(terms, p.Slop)
}
