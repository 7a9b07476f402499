package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// firstBlend is the number of the first blend of an expansion. Clauses use smaller numbers.
const firstBlend = 1 << 20

// maxPatternTerms is the maximum number of terms that a pattern expands to. With more, each text is matched.
const maxPatternTerms = 1000

// dictionary finds the terms that exist in the parts of a snapshot, which caches them.
type dictionary struct {
	*Searcher
	snapshot *postings.Snapshot
	lists    map[string][]string // sorted, by the keys of lookups
	// found states that terms were read from the table, which may be newer than the snapshot.
	found bool
	// leaves is the number of terms that the nodes of a query were expanded to.
	leaves int
}

func (s *Searcher) dictionary(snapshot *postings.Snapshot) *dictionary {
	return &dictionary{Searcher: s, snapshot: snapshot, lists: make(map[string][]string)}
}

// expand replaces fuzzy words and phrase prefixes by existing terms, in the query and in the filters of sort keys and
// aggregations. The first page finds them; later ones have them in the cursor.
func (s *Search) expand(ctx context.Context, d *dictionary) error {
	err := s.lookUp(ctx, d)
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
	d.leaves = 0
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
		return d.anyTerm(n.Field, n.Rewrite, terms, *blend, func(t string) float64 {
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
		return d.expandedPhrase(n, terms)
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault {
			terms, err := s.expansion(ctx, d, n)
			if err != nil {
				return nil, err
			}
			*blend++
			return d.anyTerm(n.Field, n.Rewrite, terms, *blend, func(string) float64 { return 1 })
		}
		if n.Regexp != nil {
			return d.regexpSet(ctx, n)
		}
		if !planner.HasDictionary(n.Field) {
			return n, nil
		}
		terms, err := d.terms(ctx, planner.PatternTerms(n, maxPatternTerms+1))
		if err != nil || len(terms) > maxPatternTerms {
			return n, err
		}
		return setOrNone(algebra.Set{Field: n.Field, Values: terms}), nil
	}
	return n, nil
}

// expansion returns the terms of a fuzzy word, a pattern or a phrase prefix from the cursor, or finds and records them
// there.
func (s *Search) expansion(ctx context.Context, d *dictionary, n algebra.Node) (terms []string, err error) {
	key := expansionKey(n)
	if terms, ok := s.cursor.Expansions[key]; ok {
		return terms, nil
	}
	switch n := n.(type) {
	case algebra.Pattern:
		terms, err = d.firstTerms(ctx, n)
	case algebra.Fuzzy:
		terms, err = d.nearestTerms(ctx, n)
	case algebra.Phrase:
		terms, err = d.prefixTerms(ctx, n)
	}
	if err != nil {
		return nil, err
	}
	if s.cursor.Expansions == nil {
		s.cursor.Expansions = make(map[string][]string)
	}
	s.cursor.Expansions[key] = terms
	return terms, nil
}

// expansionKey returns the key of a node in the expansions of a cursor, empty if it has none.
func expansionKey(n algebra.Node) string {
	switch n := n.(type) {
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault {
			return patternKey(n)
		}
	case algebra.Fuzzy:
		if n.Rewrite != algebra.RewriteConstant {
			return fuzzyKey(n)
		}
	case algebra.Phrase:
		if n.PrefixLast {
			return strings.Join([]string{"prefix", n.Field.Name(), lastPrefix(n), strconv.Itoa(n.Expansions)}, "\x00")
		}
	}
	return ""
}

// lastPrefix returns the prefix at the end of a phrase.
func lastPrefix(n algebra.Phrase) string { return n.Terms[len(n.Terms)-1][0] }

func fuzzyKey(n algebra.Fuzzy) string {
	return strings.Join([]string{
		"fuzzy", n.Field.Name(), n.Text, strconv.Itoa(n.Edits), strconv.Itoa(n.PrefixLength),
		strconv.Itoa(n.Expansions), strconv.FormatBool(n.Transpositions),
	}, "\x00")
}

// expandedPhrase returns a phrase with the given terms at its last position.
func (d *dictionary) expandedPhrase(n algebra.Phrase, terms []string) (algebra.Node, error) {
	if len(n.Terms) == 1 || len(terms) == 0 {
		return d.anyTerm(n.Field, algebra.RewriteScored, terms, 0, func(string) float64 { return 1 })
	}
	n.Terms = append(slices.Clone(n.Terms[:len(n.Terms)-1]), terms)
	n.PrefixLast = false
	return n, nil
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

// prefixTerms returns the first live terms with the prefix at the end of a phrase, in alphabetical order.
func (d *dictionary) prefixTerms(ctx context.Context, n algebra.Phrase) ([]string, error) {
	terms, err := d.terms(ctx, planner.PrefixTerms(n.Field, lastPrefix(n), maxCandidates+1))
	if err != nil {
		return nil, err
	}
	return d.living(ctx, n.Field, terms, n.Expansions)
}

// lookUp reads the terms that the nodes of a query are expanded to.
func (s *Search) lookUp(ctx context.Context, d *dictionary) error {
	var lookups []planner.Lookup
	nodes := slices.Concat([]algebra.Node{s.node}, planner.SortFilters(s.sorts), aggregation.Nodes(s.aggregations))
	for _, node := range nodes {
		algebra.Walk(node, func(n algebra.Node) {
			if l, ok := s.lookup(n); ok {
				lookups = append(lookups, l)
			}
		})
	}
	return d.readAll(ctx, lookups)
}

// lookup returns the lookup of the terms that a node is expanded to. ok is false if they are known from the cursor or
// the node is not expanded.
func (s *Search) lookup(n algebra.Node) (l planner.Lookup, ok bool) {
	if s.cursor.Expansions[expansionKey(n)] != nil {
		return l, false
	}
	switch n := n.(type) {
	case algebra.Fuzzy:
		return planner.NearTerms(n, maxCandidates+1), true
	case algebra.Phrase:
		if n.PrefixLast {
			return planner.PrefixTerms(n.Field, lastPrefix(n), maxCandidates+1), true
		}
	case algebra.Pattern:
		if n.Rewrite != algebra.RewriteDefault || n.Regexp != nil {
			return planner.PatternTerms(n, maxCandidates+1), true
		}
		return planner.PatternTerms(n, maxPatternTerms+1), planner.HasDictionary(n.Field)
	}
	return l, false
}

// The bounds of a statement that reads terms: its result is lost if the query times out, and servers analyze each
// lookup. Of a field with more lookups that can be found in its terms, all terms are read.
const (
	maxFieldsPerStatement  = 8
	maxLookupsPerStatement = 256
	maxLookupsPerField     = 16
)

// readAll reads the terms of lookups that are not known, several in a statement: a text over all fields has some for
// each, and each statement takes milliseconds even on small tables.
func (d *dictionary) readAll(ctx context.Context, lookups []planner.Lookup) error {
	byField := make(map[string][]planner.Lookup)
	within := make(map[string]int)
	seen := make(map[string]bool)
	for _, l := range lookups {
		if _, known := d.known(l); known || seen[l.Key] {
			continue
		}
		name := l.Field.Name()
		seen[l.Key], byField[name] = true, append(byField[name], l)
		if l.Within != nil {
			within[name]++
		}
	}
	for name, n := range within {
		if n > maxLookupsPerField {
			all := allTerms(byField[name][0].Field)
			rest := slices.DeleteFunc(byField[name], func(l planner.Lookup) bool { return l.Within != nil })
			byField[name] = append(rest, all)
		}
	}
	// Fields without an index are read together.
	names := slices.SortedFunc(maps.Keys(byField), func(a, b string) int {
		indexed := func(name string) string { return strconv.FormatBool(planner.HasDictionary(byField[name][0].Field)) }
		return cmp.Or(cmp.Compare(indexed(a), indexed(b)), cmp.Compare(a, b))
	})
	for some := range slices.Chunk(names, maxFieldsPerStatement) {
		var list []planner.Lookup
		for _, name := range some {
			list = append(list, byField[name]...)
		}
		for some := range slices.Chunk(list, maxLookupsPerStatement) {
			if err := d.read(ctx, some); err != nil {
				return err
			}
		}
	}
	return nil
}

func allTerms(f algebra.Field) planner.Lookup { return planner.AllTerms(f, maxCandidates+1) }

// known returns the terms of a lookup if they were read. They must not be modified.
func (d *dictionary) known(l planner.Lookup) (terms []string, ok bool) {
	if terms, ok = d.lists[l.Key]; !ok {
		terms, ok = d.snapshot.Terms(l.Key)
	}
	return terms, ok
}

// terms returns the sorted terms of a lookup, and reads them if they are not known. They must not be modified.
func (d *dictionary) terms(ctx context.Context, l planner.Lookup) ([]string, error) {
	terms, ok := d.known(l)
	if !ok && l.Within != nil {
		of := allTerms(l.Field)
		all, read := d.known(of)
		if ok = read && len(all) <= maxCandidates; ok {
			runtime.Gosched() // Cheaper searches need the processor.
			terms = l.Within(all)
			d.lists[l.Key] = terms
		} else if all, read = d.lists[of.Key]; read { // Reading them for each lookup takes longer.
			terms, ok = all, true
		}
	}
	if !ok {
		if err := d.read(ctx, []planner.Lookup{l}); err != nil {
			return nil, err
		}
		terms = d.lists[l.Key]
	}
	if len(terms) > maxCandidates {
		return nil, &TooExpensiveError{
			fmt.Sprintf("the pattern has to be matched with more than %d terms of %s: begin it "+
				"with letters", maxCandidates, l.Field.Name()),
		}
	}
	return terms, nil
}

// read reads the terms of lookups, from the indexes if possible.
func (d *dictionary) read(ctx context.Context, lookups []planner.Lookup) error {
	var terms [][]string
	scan := func(rows driver.Rows) error {
		var lookup uint16
		var term string
		if err := rows.Scan(&lookup, &term); err != nil {
			return err
		}
		terms[lookup] = append(terms[lookup], term)
		return nil
	}
	terms = make([][]string, len(lookups))
	err := d.query(ctx, stepDictionary, planner.LookupStatement(lookups, true), scan)
	var noIndex *unindexedError
	if errors.As(err, &noIndex) {
		terms = make([][]string, len(lookups))
		err = d.query(ctx, "texts", planner.LookupStatement(lookups, false), scan)
	}
	if err != nil {
		return err
	}
	d.found = true
	for i, l := range lookups {
		if terms[i] == nil {
			terms[i] = []string{}
		}
		slices.Sort(terms[i])
		d.lists[l.Key] = terms[i]
		d.snapshot.KeepTerms(l.Key, terms[i])
	}
	return nil
}

// unindexedError means that a table has no readable index, such as a distributed table.
type unindexedError struct{ error }

// living returns the first terms that a live document has: an index keeps those of replaced people for a while, and
// rows of erased ones remain until they are deleted.
func (d *dictionary) living(ctx context.Context, f algebra.Field, terms []string, most int) ([]string, error) {
	out := []string{}
	for len(terms) > 0 && len(out) < most {
		some := terms[:min(len(terms), max(64, most-len(out)))]
		terms = terms[len(some):]
		found, err := d.index.Living(ctx, d.snapshot, f, some, d.deps.Hidden(), slotFrom(ctx).priority != cheapPriority)
		if err != nil {
			return nil, err
		}
		out = append(out, found[:min(len(found), most-len(out))]...)
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
