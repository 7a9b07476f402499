package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/platform/clickhouse"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// firstBlend is the number of the first blend of expansions. Those of clauses are smaller.
const firstBlend = 1 << 20

// maxPatternTerms is the maximum number of terms of a pattern that is searched by its terms; others scan the texts.
const maxPatternTerms = 256

// expand rewrites multi-term nodes (fuzzy, prefix, pattern) to the terms that exist, in the query and in the filters
// of sort keys. The first page finds the terms, later ones read them from the cursor.
func (s *Search) expand(ctx context.Context) error {
	if err := s.readPatterns(ctx); err != nil {
		return err
	}
	err := s.findExpansions(ctx)
	if err != nil {
		return err
	}
	blend := firstBlend
	if s.node, err = s.rewriteAll(ctx, s.node, &blend); err != nil {
		return err
	}
	s.node = algebra.ShareStatistics(s.node)
	for i, key := range s.sorts {
		if key.Nested == nil {
			continue
		}
		if s.sorts[i].Nested, err = s.rewriteAll(ctx, key.Nested, &blend); err != nil {
			return err
		}
	}
	return nil
}

func (s *Search) rewriteAll(ctx context.Context, n algebra.Node, blend *int) (algebra.Node, error) {
	return algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) { return s.rewrite(ctx, n, blend) })
}

// rewrite returns the node that n expands to, or n (Query.rewrite in Lucene). It does not rewrite inner nodes.
func (s *Search) rewrite(ctx context.Context, n algebra.Node, blend *int) (algebra.Node, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	switch n := n.(type) {
	case algebra.Fuzzy:
		if n.Rewrite == algebra.RewriteConstant {
			return s.fuzzySet(ctx, n)
		}
		terms, err := s.expansion(ctx, n)
		if err != nil {
			return nil, err
		}
		*blend++
		return anyTerm(n.Field, n.Rewrite, terms, *blend, func(t string) float64 {
			return fuzzyBoost(n.Text, t, edits(n.Text, t, n.Transpositions))
		})
	case algebra.Phrase:
		if !n.PrefixLast {
			return s.searcher.countSloppyPhrases(ctx, n)
		}
		terms, err := s.expansion(ctx, n)
		if err != nil {
			return nil, err
		}
		return s.searcher.countSloppyPhrases(ctx, completePhrase(n, terms))
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault {
			terms, err := s.expansion(ctx, n)
			if err != nil {
				return nil, err
			}
			*blend++
			return anyTerm(n.Field, n.Rewrite, terms, *blend, func(string) float64 { return 1 })
		}
		if n.Regexp != nil {
			return s.regexpSet(ctx, n)
		}
		if !planner.HasDictionary(n.Field) {
			return n, nil
		}
		terms, err := s.patternTerms(ctx, n)
		if err != nil || terms == nil {
			return n, err
		}
		if len(terms) == 0 {
			return algebra.None{}, nil
		}
		return algebra.Set{Field: n.Field, Values: terms}, nil
	}
	return n, nil
}

// expansion returns the terms that a node expands to from the cursor, or finds them and stores them there.
func (s *Search) expansion(ctx context.Context, n algebra.Node) ([]string, error) {
	key, find := s.expansionSource(n)
	if terms, ok := s.cursor.Expansions[key]; ok {
		return terms, nil
	}
	terms, err := find(ctx)
	if err != nil {
		return nil, err
	}
	s.storeExpansion(key, terms)
	return terms, nil
}

func (s *Search) storeExpansion(key string, terms []string) {
	if s.cursor.Expansions == nil {
		s.cursor.Expansions = make(map[string][]string)
	}
	s.cursor.Expansions[key] = terms
}

// expansionSource returns the cursor's key for the terms that a fuzzy word, a scored pattern or a phrase prefix
// expands to, and the function that finds them. find is nil for other nodes.
func (s *Search) expansionSource(n algebra.Node) (key string, find func(context.Context) ([]string, error)) {
	switch n := n.(type) {
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault {
			return patternKey(n), func(ctx context.Context) ([]string, error) { return s.firstTerms(ctx, n) }
		}
	case algebra.Fuzzy:
		if n.Rewrite == algebra.RewriteConstant {
			break
		}
		return fuzzyKey(n), func(ctx context.Context) ([]string, error) { return s.topFuzzyTerms(ctx, n) }
	case algebra.Phrase:
		if !n.PrefixLast {
			break
		}
		prefix := n.Terms[len(n.Terms)-1][0]
		return strings.Join([]string{"prefix", n.Field.Name(), prefix, strconv.Itoa(n.Expansions)}, "\x00"),
			func(ctx context.Context) ([]string, error) { return s.prefixTerms(ctx, n.Field, prefix, n.Expansions) }
	}
	return "", nil
}

// findExpansions finds the expansions of the query concurrently, if the search may use all threads. Otherwise rewrite
// finds them one after another.
func (s *Search) findExpansions(ctx context.Context) error {
	if !slotFrom(ctx).mayUseAllThreads() {
		return nil
	}
	wanted := make(map[string]func(context.Context) ([]string, error))
	algebra.Walk(s.node, func(n algebra.Node) {
		if key, find := s.expansionSource(n); find != nil && s.cursor.Expansions[key] == nil {
			wanted[key] = find
		}
	})
	if len(wanted) < 2 {
		return nil
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.searcher.cfg.Threads)
	for key, find := range wanted {
		g.Go(func() error {
			terms, err := find(ctx)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			s.storeExpansion(key, terms)
			return nil
		})
	}
	return g.Wait()
}

func fuzzyKey(n algebra.Fuzzy) string {
	return strings.Join([]string{
		"fuzzy", n.Field.Name(), n.Text, strconv.Itoa(n.Edits), strconv.Itoa(n.PrefixLength), strconv.Itoa(n.Expansions),
		strconv.FormatBool(n.Transpositions),
	}, "\x00")
}

// completePhrase replaces the prefix at the end of a phrase by the terms that it expands to.
func completePhrase(n algebra.Phrase, terms []string) algebra.Node {
	if len(terms) == 0 {
		return algebra.None{}
	}
	if len(n.Terms) == 1 {
		b := algebra.Bool{Minimum: 1}
		for _, t := range terms {
			b.Should = append(b.Should, algebra.Term{Field: n.Field, Text: t})
		}
		return b
	}
	before := n.Terms[:len(n.Terms)-1]
	n.Terms = append(slices.Clone(before), terms)
	n.PrefixLast = false
	return n
}

// fuzzyBoost returns the boost of a term at an edit distance, as FuzzyTermsEnum in Lucene.
func fuzzyBoost(text, term string, distance int) float64 {
	return max(0, fuzzySortKey(text, term, distance))
}

// fuzzySortKey returns the similarity by which terms are selected. It is negative if the distance exceeds the number of
// characters.
func fuzzySortKey(text, term string, distance int) float64 {
	if distance == 0 {
		return 1
	}
	return float64(1 - float32(distance)/float32(min(utf8.RuneCountInString(text), utf8.RuneCountInString(term))))
}

// edits returns the edit distance of two terms in characters (Levenshtein, or Damerau-Levenshtein with transpositions).
func edits(a, b string, transpositions bool) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if transpositions && i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}

// topFuzzyTerms returns the live terms most similar to a fuzzy word, by similarity, then in alphabetical order.
func (s *Search) topFuzzyTerms(ctx context.Context, n algebra.Fuzzy) ([]string, error) {
	list, err := s.fuzzyTerms(ctx, n)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b candidateTerm) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(a.term, b.term)
	})
	terms := make([]string, len(list))
	for i, t := range list {
		terms[i] = t.term
	}
	return s.liveTerms(ctx, n.Field, terms, n.Expansions)
}

// prefixTerms returns the first live terms with a prefix, in alphabetical order.
func (s *Search) prefixTerms(ctx context.Context, f algebra.Field, prefix string, limit int) ([]string, error) {
	terms, err := s.dictionaryTerms(ctx, planner.PrefixTerms(f, prefix))
	if err != nil {
		return nil, err
	}
	slices.Sort(terms)
	return s.liveTerms(ctx, f, terms, limit)
}

// maxFieldsPerStatement is the number of dictionaries that a statement of readPatterns reads. A statement that misses
// the query's deadline caches nothing.
const maxFieldsPerStatement = 8

// maxPatternsPerStatement bounds the patterns of a statement of readPatterns, and with them its length.
const maxPatternsPerStatement = 256

// readPatterns caches the terms of the query's patterns in the snapshot, reading several dictionaries in one
// statement: a text over all fields has a pattern for each, and one statement for each takes milliseconds even in a
// small table. It does nothing without a snapshot or if the text index cannot be read; rewrite then reads them one by
// one.
func (s *Search) readPatterns(ctx context.Context) error {
	if s.attempt == nil {
		return nil
	}
	type wanted struct {
		pattern algebra.Pattern
		key     string
	}
	byField := make(map[string][]wanted)
	seen := make(map[string]bool)
	nodes := append([]algebra.Node{s.node}, planner.SortFilters(s.sorts)...)
	for _, node := range nodes {
		algebra.Walk(node, func(n algebra.Node) {
			p, ok := n.(algebra.Pattern)
			if !ok || p.Rewrite != algebra.RewriteDefault || p.Regexp != nil || !planner.HasDictionary(p.Field) {
				return
			}
			key := strings.Join(planner.PatternTerms(p, maxPatternTerms+1).Key(), "\x00")
			if !seen[key] && !s.attempt.snapshot.HasTerms(key) {
				seen[key] = true
				byField[p.Field.Name()] = append(byField[p.Field.Name()], wanted{p, key})
			}
		})
	}
	if len(seen) < 2 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1)
	if slotFrom(ctx).mayUseAllThreads() {
		g.SetLimit(s.searcher.cfg.Threads)
	}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(byField)), maxFieldsPerStatement) {
		var some []wanted
		for _, name := range names {
			some = append(some, byField[name]...)
		}
		for some := range slices.Chunk(some, maxPatternsPerStatement) {
			g.Go(func() error {
				patterns := make([]algebra.Pattern, len(some))
				for i, w := range some {
					patterns[i] = w.pattern
				}
				terms := make([][]string, len(some))
				err := s.searcher.query(ctx, stepDictionary, planner.PatternsStatement(patterns, maxPatternTerms+1),
					func(rows driver.Rows) error {
						var i uint16
						var term string
						if err := rows.Scan(&i, &term); err != nil {
							return err
						}
						terms[i] = append(terms[i], term)
						return nil
					})
				if err != nil {
					return err
				}
				for i, w := range some {
					s.attempt.readTerms.Store(true)
					if _, err := s.attempt.snapshot.Terms(w.key, func() ([]string, error) { return terms[i], nil }); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	var noIndex *noIndexError
	if err := g.Wait(); !errors.As(err, &noIndex) {
		return err
	}
	return nil
}

// patternTerms returns the terms that a pattern matches, or nil if there are more than maxPatternTerms.
func (s *Search) patternTerms(ctx context.Context, n algebra.Pattern) ([]string, error) {
	terms, err := s.dictionaryTerms(ctx, planner.PatternTerms(n, maxPatternTerms+1))
	if err != nil || len(terms) > maxPatternTerms {
		return nil, err
	}
	if terms == nil {
		terms = []string{}
	}
	return terms, nil
}

// dictionaryTerms returns terms from the snapshot's cache, the text index or, without one, the texts.
func (s *Search) dictionaryTerms(ctx context.Context, d planner.Dictionary) ([]string, error) {
	return s.memoizeTerms(d.Key(), func() ([]string, error) { return s.searcher.readDictionary(ctx, d) })
}

func (s *Searcher) readDictionary(ctx context.Context, d planner.Dictionary) ([]string, error) {
	var terms []string
	scan := func(rows driver.Rows) error {
		var t string
		if err := rows.Scan(&t); err != nil {
			return err
		}
		terms = append(terms, t)
		return nil
	}
	if d.Index.SQL != "" {
		err := s.query(ctx, stepDictionary, d.Index, scan)
		var noIndex *noIndexError
		if !errors.As(err, &noIndex) {
			return terms, err
		}
		terms = nil
	}
	return terms, s.query(ctx, "texts", d.Texts, scan)
}

// noIndexError is the error of a table whose text index cannot be read, such as a distributed table.
type noIndexError struct{ error }

// liveTerms returns the first terms that have a live document. A text index lists terms of replaced and erased
// documents until its parts are merged.
func (s *Search) liveTerms(ctx context.Context, f algebra.Field, terms []string, limit int) ([]string, error) {
	from := planner.People{Hidden: s.searcher.deps.Store.Hidden()}
	key := append([]string{"living", f.Name(), strconv.Itoa(limit), fmt.Sprint(from.Hidden)}, terms...)
	return s.memoizeTerms(key, func() ([]string, error) {
		return s.searcher.findLiveTerms(ctx, f, terms, limit, from)
	})
}

func (s *Searcher) findLiveTerms(ctx context.Context, f algebra.Field, terms []string, limit int,
	from planner.People) ([]string, error) {
	out := []string{}
	for len(terms) > 0 && len(out) < limit {
		some := terms[:min(len(terms), max(64, limit-len(out)))]
		terms = terms[len(some):]
		var counts []int64
		err := s.query(ctx, "live_terms", planner.LivingStatement(f, some, from), func(rows driver.Rows) error {
			return rows.Scan(&counts)
		})
		if err != nil {
			return nil, err
		}
		for i, n := range counts {
			if n > 0 && len(out) < limit {
				out = append(out, some[i])
			}
		}
	}
	return out, nil
}

// stepDictionary is the step that reads a text index.
const stepDictionary = "dictionary"

// meansNoIndex reports whether an error means that the server cannot read a text index as a table.
func meansNoIndex(code clickhouse.Code) bool {
	switch code {
	case proto.ErrBadArguments, proto.ErrUnknownFunction, proto.ErrUnknownTable, proto.ErrNotImplemented:
		return true
	}
	return false
}
