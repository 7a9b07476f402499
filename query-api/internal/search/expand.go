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
	"sync/atomic"
	"unicode/utf8"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/platform/clickhouse"
	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// firstBlend is the number of the first blend of an expansion. Clauses use smaller numbers.
const firstBlend = 1 << 20

// maxPatternTerms is the maximum number of terms that a pattern expands to. With more, each text is matched.
const maxPatternTerms = 256

// dictionary finds the terms that exist, and caches them in a snapshot.
type dictionary struct {
	*Searcher
	snapshot *postings.Snapshot // nil: nothing is cached
	// found states that terms were read from the table, which may be newer than the snapshot.
	found atomic.Bool
}

// cached returns the terms cached under key in the snapshot, or calls find and caches its result. Errors are not
// cached.
func (d *dictionary) cached(key []string, find func() ([]string, error)) ([]string, error) {
	if d.snapshot == nil {
		return find()
	}
	list, err := d.snapshot.Terms(strings.Join(key, "\x00"), func() ([]string, error) {
		d.found.Store(true)
		return find()
	})
	return slices.Clone(list), err
}

// expand replaces fuzzy words and phrase prefixes by existing terms, in the query and in the filters of sort keys and
// aggregations. The first page finds them; later ones have them in the cursor.
func (s *Search) expand(ctx context.Context, d *dictionary) error {
	if err := s.readPatterns(ctx, d); err != nil {
		return err
	}
	err := s.findExpansions(ctx, d)
	if err != nil {
		return err
	}
	blend := firstBlend
	if s.node, err = s.expanded(ctx, d, s.node, &blend); err != nil {
		return err
	}
	s.node = algebra.ShareStatistics(s.node)
	for i, key := range s.sorts {
		if key.Nested == nil {
			continue
		}
		if s.sorts[i].Nested, err = s.expanded(ctx, d, key.Nested, &blend); err != nil {
			return err
		}
	}
	for i, n := range s.named {
		if s.named[i].node, err = s.expanded(ctx, d, n.node, &blend); err != nil {
			return err
		}
	}
	s.aggregations, err = aggregation.Rewrite(s.aggregations, func(n algebra.Node) (algebra.Node, error) {
		return s.expanded(ctx, d, n, &blend)
	})
	return err
}

func (s *Search) expanded(ctx context.Context, d *dictionary, n algebra.Node, blend *int) (algebra.Node, error) {
	return algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) { return s.rewrite(ctx, d, n, blend) })
}

// becomes returns the expansion of a node, or the node itself.
func (s *Search) rewrite(ctx context.Context, d *dictionary, n algebra.Node, blend *int) (algebra.Node, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	switch n := n.(type) {
	case algebra.Fuzzy:
		if n.Rewrite == algebra.RewriteConstant {
			return d.fuzzySet(ctx, n)
		}
		terms, err := s.expansion(ctx, d, n)
		if err != nil {
			return nil, err
		}
		*blend++
		return anyTerm(n.Field, n.Rewrite, terms, *blend, func(t string) float64 {
			return similarity(n.Text, t, algebra.Edits(n.Text, t, n.Transpositions))
		})
	case algebra.Phrase:
		if !n.PrefixLast {
			return n, nil
		}
		terms, err := s.expansion(ctx, d, n)
		if err != nil {
			return nil, err
		}
		return expandedPhrase(n, terms), nil
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault {
			terms, err := s.expansion(ctx, d, n)
			if err != nil {
				return nil, err
			}
			*blend++
			return anyTerm(n.Field, n.Rewrite, terms, *blend, func(string) float64 { return 1 })
		}
		if n.Regexp != nil {
			return d.regexpSet(ctx, n)
		}
		if !planner.HasDictionary(n.Field) {
			return n, nil
		}
		terms, err := d.patternTerms(ctx, n)
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

// expansion returns the terms of a fuzzy word or a phrase prefix from the cursor, or finds and records them there.
func (s *Search) expansion(ctx context.Context, d *dictionary, n algebra.Node) ([]string, error) {
	key, find := d.expansionSource(n)
	if terms, ok := s.cursor.Expansions[key]; ok {
		return terms, nil
	}
	terms, err := find(ctx)
	if err != nil {
		return nil, err
	}
	s.keepExpansion(key, terms)
	return terms, nil
}

func (s *Search) keepExpansion(key string, terms []string) {
	if s.cursor.Expansions == nil {
		s.cursor.Expansions = make(map[string][]string)
	}
	s.cursor.Expansions[key] = terms
}

// expansionSource returns the key of a fuzzy word or a phrase prefix and a function that finds its terms; nothing for
// other nodes.
func (d *dictionary) expansionSource(n algebra.Node) (key string, find func(context.Context) ([]string, error)) {
	switch n := n.(type) {
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault {
			return patternKey(n), func(ctx context.Context) ([]string, error) { return d.firstTerms(ctx, n) }
		}
	case algebra.Fuzzy:
		if n.Rewrite == algebra.RewriteConstant {
			break
		}
		return fuzzyKey(n), func(ctx context.Context) ([]string, error) { return d.nearestTerms(ctx, n) }
	case algebra.Phrase:
		if !n.PrefixLast {
			break
		}
		prefix := n.Terms[len(n.Terms)-1][0]
		return strings.Join([]string{"prefix", n.Field.Name(), prefix, strconv.Itoa(n.Expansions)}, "\x00"),
			func(ctx context.Context) ([]string, error) { return d.prefixTerms(ctx, n.Field, prefix, n.Expansions) }
	}
	return "", nil
}

// findExpansions finds several expansions concurrently if no other search runs. Otherwise they are found one by one
// later.
func (s *Search) findExpansions(ctx context.Context, d *dictionary) error {
	if !slotFrom(ctx).mayUseAllThreads() {
		return nil
	}
	wanted := make(map[string]func(context.Context) ([]string, error))
	algebra.Walk(s.node, func(n algebra.Node) {
		if key, find := d.expansionSource(n); find != nil && s.cursor.Expansions[key] == nil {
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
			s.keepExpansion(key, terms)
			return nil
		})
	}
	return g.Wait()
}

func fuzzyKey(n algebra.Fuzzy) string {
	return strings.Join([]string{
		"fuzzy", n.Field.Name(), n.Text, strconv.Itoa(n.Edits), strconv.Itoa(n.PrefixLength),
		strconv.Itoa(n.Expansions), strconv.FormatBool(n.Transpositions),
	}, "\x00")
}

// expandedPhrase returns a phrase with the given terms at its last position.
func expandedPhrase(n algebra.Phrase, terms []string) algebra.Node {
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

// similarity returns the boost of a term at an edit distance.
func similarity(text, term string, distance int) float64 {
	return max(0, fuzzySortKey(text, term, distance))
}

// fuzzySortKey returns the value by which terms are chosen. It is negative if the distance exceeds the number of
// characters.
func fuzzySortKey(text, term string, distance int) float64 {
	if distance == 0 {
		return 1
	}
	return float64(1 - float32(distance)/float32(min(utf8.RuneCountInString(text), utf8.RuneCountInString(term))))
}

// nearestTerms returns the first live terms within the edit distance of a fuzzy word, the nearest first, then in
// alphabetical order.
func (d *dictionary) nearestTerms(ctx context.Context, n algebra.Fuzzy) ([]string, error) {
	list, err := d.fuzzyTerms(ctx, n)
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
	return d.living(ctx, n.Field, terms, n.Expansions)
}

// prefixTerms returns the first live terms with a prefix, in alphabetical order.
func (d *dictionary) prefixTerms(ctx context.Context, f algebra.Field, prefix string, most int) ([]string, error) {
	terms, err := d.terms(ctx, planner.PrefixTerms(f, prefix))
	if err != nil {
		return nil, err
	}
	slices.Sort(terms)
	return d.living(ctx, f, terms, most)
}

// maxFieldsPerStatement is the maximum number of dictionaries that a statement of readPatterns reads: its result is
// lost if the query times out.
const maxFieldsPerStatement = 8

// maxPatternsPerStatement bounds the patterns of a statement of readPatterns, and with them its length.
const maxPatternsPerStatement = 256

// readPatterns caches the terms of the query's patterns in the snapshot, reading several dictionaries in one statement:
// a text over all fields has a pattern for each, and each statement takes milliseconds even on small tables. It does
// nothing if the index cannot be read; patterns are then read one by one.
func (s *Search) readPatterns(ctx context.Context, d *dictionary) error {
	type wanted struct {
		pattern algebra.Pattern
		key     string
	}
	byField := make(map[string][]wanted)
	seen := make(map[string]bool)
	nodes := slices.Concat([]algebra.Node{s.node}, planner.SortFilters(s.sorts), aggregation.Nodes(s.aggregations))
	for _, node := range nodes {
		algebra.Walk(node, func(n algebra.Node) {
			p, ok := n.(algebra.Pattern)
			if !ok || p.Rewrite != algebra.RewriteDefault || p.Regexp != nil || !planner.HasDictionary(p.Field) {
				return
			}
			key := strings.Join(planner.PatternTerms(p, maxPatternTerms+1).Key(), "\x00")
			if !seen[key] && !d.snapshot.HasTerms(key) {
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
					d.found.Store(true)
					if _, err := d.snapshot.Terms(w.key, func() ([]string, error) { return terms[i], nil }); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	var noIndex *unindexedError
	if err := g.Wait(); !errors.As(err, &noIndex) {
		return err
	}
	return nil
}

// patternTerms returns the terms that a pattern matches, nil if there are too many.
func (d *dictionary) patternTerms(ctx context.Context, n algebra.Pattern) ([]string, error) {
	terms, err := d.terms(ctx, planner.PatternTerms(n, maxPatternTerms+1))
	if err != nil || len(terms) > maxPatternTerms {
		return nil, err
	}
	if terms == nil {
		terms = []string{}
	}
	return terms, nil
}

// terms reads terms from the index or, if there is none, from the texts.
func (d *dictionary) terms(ctx context.Context, of planner.Dictionary) ([]string, error) {
	return d.cached(of.Key(), func() ([]string, error) { return d.readTerms(ctx, of) })
}

func (d *dictionary) readTerms(ctx context.Context, of planner.Dictionary) ([]string, error) {
	var terms []string
	scan := func(rows driver.Rows) error {
		var t string
		if err := rows.Scan(&t); err != nil {
			return err
		}
		terms = append(terms, t)
		return nil
	}
	if of.Index.SQL != "" {
		err := d.query(ctx, stepDictionary, of.Index, scan)
		var code *unindexedError
		if !errors.As(err, &code) {
			return terms, err
		}
		terms = nil
	}
	return terms, d.query(ctx, "texts", of.Texts, scan)
}

// unindexedError means that a table has no readable index, such as a distributed table.
type unindexedError struct{ error }

// living returns the first terms that a live document has: an index keeps those of replaced people for a while, and
// rows of erased ones remain until they are deleted.
func (d *dictionary) living(ctx context.Context, f algebra.Field, terms []string, most int) ([]string, error) {
	hidden := d.deps.Hidden()
	key := append([]string{"living", f.Name(), strconv.Itoa(most), fmt.Sprint(hidden)}, terms...)
	return d.cached(key, func() ([]string, error) { return d.findLiving(ctx, f, terms, most, hidden) })
}

func (d *dictionary) findLiving(
	ctx context.Context, f algebra.Field, terms []string, most int, hidden []uint64,
) ([]string, error) {
	out := []string{}
	for len(terms) > 0 && len(out) < most {
		some := terms[:min(len(terms), max(64, most-len(out)))]
		terms = terms[len(some):]
		var counts []int64
		err := d.query(ctx, "terms", planner.LivingStatement(f, some, hidden), func(rows driver.Rows) error {
			return rows.Scan(&counts)
		})
		if err != nil {
			return nil, err
		}
		for i, n := range counts {
			if n > 0 && len(out) < most {
				out = append(out, some[i])
			}
		}
	}
	return out, nil
}

// stepDictionary is the step that reads an index.
const stepDictionary = "dictionary"

// unindexed reports whether the server cannot read a text index as a table.
func unindexed(code clickhouse.Code) bool {
	switch code {
	case proto.ErrBadArguments, proto.ErrUnknownFunction, proto.ErrUnknownTable, proto.ErrNotImplemented:
		return true
	}
	return false
}
