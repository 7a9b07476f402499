package search

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
)

// rewritten joins the terms that a fuzzy one or a pattern becomes. share is what each counts; terms of a blend are all as
// rare as the most frequent.
func rewritten(f algebra.Field, how algebra.Rewriting, terms []string, blend int, share func(term string) float64) (algebra.Node, error) {
	if len(terms) > clause.MaxExpansions {
		return nil, &Budget{fmt.Sprintf("a word or pattern becomes more than %d terms of %s by scoring_boolean: narrow it, or use top_terms_%d", clause.MaxExpansions, f.Name(), clause.MaxExpansions)}
	}
	b := algebra.Bool{Minimum: 1}
	for _, t := range terms {
		term := algebra.Term{Field: f, Text: t}
		switch how {
		case algebra.RewriteNearness:
			b.Should = append(b.Should, algebra.Constant{Node: term, Score: share(t)})
			continue
		case algebra.RewriteScored:
		default:
			term.Blend = blend
		}
		b.Should = append(b.Should, algebra.Boost{Node: term, Factor: share(t)})
	}
	if len(b.Should) == 0 {
		return algebra.None{}, nil
	}
	return b, nil
}

// anyNear is the set of all terms near a text.
func (d *dictionary) anyNear(ctx context.Context, n algebra.Fuzzy) (algebra.Node, error) {
	list, err := d.nearTerms(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(list) > clause.MaxTerms {
		return nil, &Budget{fmt.Sprintf("%q is near to more than %d terms of %s: use another rewrite than constant_score, or a prefix_length", n.Text, clause.MaxTerms, n.Field.Name())}
	}
	set := algebra.Set{Field: n.Field}
	for _, t := range list {
		set.Values = append(set.Values, t.term)
	}
	return oneOf(set), nil
}

func oneOf(set algebra.Set) algebra.Node {
	if len(set.Values) == 0 {
		return algebra.None{}
	}
	return set
}

// near is a term that a fuzzy one may become.
type near struct {
	term  string
	score float64
}

func (d *dictionary) nearTerms(ctx context.Context, n algebra.Fuzzy) ([]near, error) {
	found, err := d.terms(ctx, planner.NearTerms(n))
	if err != nil {
		return nil, err
	}
	var list []near
	for _, t := range found {
		distance := edits(n.Text, t, n.Transpositions)
		if distance <= n.Edits {
			list = append(list, near{t, nearness(n.Text, t, distance)})
		}
	}
	return list, nil
}

func patternKey(n algebra.Pattern) string {
	return strings.Join([]string{
		"pattern", n.Field.Name(), strconv.Itoa(int(n.Kind)), n.Text, n.Flags, strconv.FormatBool(n.Insensitive), strconv.Itoa(n.Expansions),
	}, "\x00")
}

// firstTerms finds the first existing terms, by the alphabet, that a pattern matches.
func (d *dictionary) firstTerms(ctx context.Context, n algebra.Pattern) ([]string, error) {
	terms, err := d.everyMatch(ctx, n)
	if err != nil {
		return nil, err
	}
	slices.Sort(terms)
	return d.living(ctx, n.Field, terms, n.Expansions)
}

// maxCandidates bounds the terms that are looked through here, one by one.
const maxCandidates = 500_000

// everyMatch finds all terms that a pattern matches.
func (d *dictionary) everyMatch(ctx context.Context, n algebra.Pattern) ([]string, error) {
	found, err := d.terms(ctx, planner.PatternTerms(n, maxCandidates+1))
	if err != nil {
		return nil, err
	}
	if len(found) > maxCandidates {
		return nil, &Budget{fmt.Sprintf("the pattern has more than %d terms of %s to look through: begin it with letters", maxCandidates, n.Field.Name())}
	}
	if n.Regexp == nil {
		return found, nil
	}
	out := found[:0]
	for i, term := range found {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if i%64 == 0 {
			runtime.Gosched() // others need the processor for less
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

// matchingTerms is the set of the terms that a regular expression matches that ClickHouse's library has no form for.
func (d *dictionary) matchingTerms(ctx context.Context, n algebra.Pattern) (algebra.Node, error) {
	terms, err := d.everyMatch(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(terms) > clause.MaxTerms {
		return nil, &Budget{fmt.Sprintf("the regular expression with & or ~ matches more than %d terms of %s: narrow it", clause.MaxTerms, n.Field.Name())}
	}
	return oneOf(algebra.Set{Field: n.Field, Values: terms}), nil
}
