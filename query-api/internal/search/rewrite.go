package search

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// anyTerm returns the disjunction of the terms that a fuzzy word or a pattern expands to, each with a boost. Terms of a
// blend have the statistics of the most frequent one.
func (d *dictionary) anyTerm(f algebra.Field, method algebra.RewriteMethod, terms []string, blend int,
	boost func(term string) float64) (algebra.Node, error) {
	d.leaves += len(terms)
	if err := postings.CheckLeaves(d.leaves); err != nil {
		return nil, err
	}
	if len(terms) > clause.MaxExpansions {
		return nil, &TooExpensiveError{fmt.Sprintf("a word or pattern expands to more than %d terms of %s with "+
			"scoring_boolean: narrow it, or use top_terms_%d", clause.MaxExpansions, f.Name(), clause.MaxExpansions)}
	}
	b := algebra.Bool{Minimum: 1}
	for _, t := range terms {
		term := algebra.Term{Field: f, Text: t}
		switch method {
		case algebra.RewriteTopTermsBoost:
			b.Should = append(b.Should, algebra.Constant{Node: term, Score: boost(t)})
			continue
		case algebra.RewriteScored:
		default:
			term.Blend = blend
		}
		b.Should = append(b.Should, algebra.Boost{Node: term, Factor: boost(t)})
	}
	if len(b.Should) == 0 {
		return algebra.None{}, nil
	}
	return b, nil
}

// fuzzySet returns the set of all terms within the edit distance of a fuzzy word.
func (d *dictionary) fuzzySet(ctx context.Context, n algebra.Fuzzy) (algebra.Node, error) {
	list, err := d.fuzzyTerms(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(list) > clause.MaxTerms {
		return nil, &TooExpensiveError{fmt.Sprintf("%q matches more than %d terms of %s: use another rewrite than "+
			"constant_score, or a prefix_length", n.Text, clause.MaxTerms, n.Field.Name())}
	}
	set := algebra.Set{Field: n.Field}
	for _, t := range list {
		set.Values = append(set.Values, t.term)
	}
	return setOrNone(set), nil
}

func setOrNone(set algebra.Set) algebra.Node {
	if len(set.Values) == 0 {
		return algebra.None{}
	}
	return set
}

// candidateTerm is a term that a fuzzy word may expand to.
type candidateTerm struct {
	term  string
	score float64
}

// fuzzyTerms returns all terms within the edit distance of a fuzzy word.
func (d *dictionary) fuzzyTerms(ctx context.Context, n algebra.Fuzzy) ([]candidateTerm, error) {
	terms, err := d.terms(ctx, planner.NearTerms(n, maxCandidates+1))
	if err != nil {
		return nil, err
	}
	var list []candidateTerm
	for _, t := range terms {
		distance := algebra.Edits(n.Text, t, n.Transpositions)
		if distance <= n.Edits {
			list = append(list, candidateTerm{t, fuzzySortKey(n.Text, t, distance)})
		}
	}
	return list, nil
}

func patternKey(n algebra.Pattern) string {
	return strings.Join([]string{
		"pattern", n.Field.Name(), strconv.Itoa(int(n.Kind)), n.Text, n.Flags, strconv.FormatBool(n.Insensitive),
		strconv.Itoa(n.Expansions),
	}, "\x00")
}

// firstTerms returns the first live terms, in alphabetical order, that a pattern matches.
func (d *dictionary) firstTerms(ctx context.Context, n algebra.Pattern) ([]string, error) {
	terms, err := d.matchingTerms(ctx, n)
	if err != nil {
		return nil, err
	}
	return d.living(ctx, n.Field, terms, n.Expansions)
}

// maxCandidates is the maximum number of terms that are matched one by one.
const maxCandidates = 500_000

// matchingTerms returns all terms that a pattern matches.
func (d *dictionary) matchingTerms(ctx context.Context, n algebra.Pattern) ([]string, error) {
	candidates, err := d.terms(ctx, planner.PatternTerms(n, maxCandidates+1))
	if err != nil {
		return nil, err
	}
	if n.Regexp == nil {
		return candidates, nil
	}
	var out []string
	for i, term := range candidates {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if i%64 == 0 {
			runtime.Gosched() // Cheaper searches need the processor.
		}
		ok, err := n.Regexp.Match(ctx, term)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, term)
		}
	}
	return out, nil
}

// regexpSet returns the set of the terms that match a regular expression without RE2 equivalent.
func (d *dictionary) regexpSet(ctx context.Context, n algebra.Pattern) (algebra.Node, error) {
	terms, err := d.matchingTerms(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(terms) > clause.MaxTerms {
		return nil, &TooExpensiveError{
			fmt.Sprintf("the regular expression with & or ~ matches more than %d terms of %s: "+
				"narrow it", clause.MaxTerms, n.Field.Name()),
		}
	}
	return setOrNone(algebra.Set{Field: n.Field, Values: terms}), nil
}
