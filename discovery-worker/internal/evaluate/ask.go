package evaluate

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/schemas/identity"
)

// Answer is the result of discovery for one platform.
type Answer struct {
	Question *Question
	Platform string
	// Identity is the best candidate, or "" if there is none.
	Identity        string
	Confidence, Raw float64
	// Linked means that the answer is based on a link. If Via is set, it is a link of a linked profile; otherwise Link
	// is its evidence level.
	Linked, Via bool
	Link        string
	Namesakes   int
	// Group has the comparisons, for training.
	Group evidence.Group
	// Top means that the best candidate is the first of the group, so its raw probability is the
	// model's. It is false if links of another profile led to it.
	Top bool
	// SameName, SameUsername and Both are the answers of the baselines.
	SameName, SameUsername, Both string
}

// Right reports whether the answer is correct.
func (a *Answer) Right() bool { return a.Identity != "" && a.Identity == a.Question.Truth[a.Platform] }

// Ask runs discovery for all questions.
func Ask(ctx context.Context, f *finder.Finder, questions []Question) ([]Answer, error) {
	const callers = 4
	answers := make([][]Answer, len(questions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for i := range questions {
		g.Go(func() error {
			d, ranked := f.Explain(ctx, questions[i].Input)
			if !d.Complete() {
				return fmt.Errorf("question %d: stages %v failed", i, d.Degraded)
			}
			answers[i] = answersOf(&questions[i], ranked)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	return slices.Concat(answers...), nil
}

func answersOf(q *Question, ranked []finder.RankedCandidates) []Answer {
	var out []Answer
	for _, platform := range identity.PlatformNames() {
		if platform == q.Input.Platform {
			continue
		}
		a := Answer{Question: q, Platform: platform, Group: evidence.Group{Truth: -1}}
		for _, c := range ranked {
			if c.Platform != platform {
				continue
			}
			if c.Best != nil {
				a.Identity, a.Linked, a.Via = c.Best.Identity, c.Best.Linked, c.Best.Via
				a.Confidence, a.Raw = c.Best.Confidence, c.Best.Raw
			}
			for i, candidate := range c.Candidates {
				a.addCandidate(i, candidate)
			}
		}
		out = append(out, a)
	}
	return out
}

// addCandidate adds the i-th candidate in order of likelihood.
func (a *Answer) addCandidate(i int, c *evidence.Candidate) {
	if i == 0 {
		a.Namesakes = c.SameName
		a.Group.Prior = c.Population.PriorBits(c.B.Platform)
		a.Top = a.Identity == c.B.Identity && !a.Via
		a.Link = evidence.Level(c.Comparisons, evidence.FieldLink)
	}
	if c.B.Person {
		if c.B.Identity == a.Question.Truth[a.Platform] {
			a.Group.Truth = len(a.Group.Candidates)
		}
		a.Group.Candidates = append(a.Group.Candidates, c.Comparisons)
	}
	sameName := slices.ContainsFunc(c.A.Names, func(n string) bool { return slices.Contains(c.B.Names, n) })
	sameUsername := c.A.Key == c.B.Key
	for _, b := range []struct {
		match  bool
		answer *string
	}{{sameName, &a.SameName}, {sameUsername, &a.SameUsername}, {sameName && sameUsername, &a.Both}} {
		// Of several, the choice is arbitrary but fixed.
		if b.match && (*b.answer == "" || c.B.Identity < *b.answer) {
			*b.answer = c.B.Identity
		}
	}
}
