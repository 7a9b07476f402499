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

// Answer is what discovery says of one platform.
type Answer struct {
	Question *Question
	Platform string
	// Identity of the best candidate; empty: there is none.
	Identity        string
	Confidence, Raw float64
	// Linked says that the answer rests on a link: one of a linked profile's, when
	// Via is set, and else of the kind Link, an evidence level.
	Linked, Via bool
	Link        string
	Namesakes   int
	// Group is what was compared, for fitting.
	Group evidence.Group
	// Top says that the best candidate is the first of the group, and not one that
	// links of another profile led to; its raw probability is then the model's.
	Top bool
	// SameName and SameUsername are what the trivial baselines answer.
	SameName, SameUsername, Both string
}

// Right reports whether the answer is true.
func (a *Answer) Right() bool { return a.Identity != "" && a.Identity == a.Question.Truth[a.Platform] }

// Ask asks discovery all questions.
func Ask(ctx context.Context, f *finder.Finder, questions []Question) ([]Answer, error) {
	const callers = 4
	answers := make([][]Answer, len(questions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for i := range questions {
		g.Go(func() error {
			d, considered := f.Explain(ctx, questions[i].Input)
			if !d.Complete() {
				return fmt.Errorf("question %d: stages %v failed", i, d.Degraded)
			}
			answers[i] = answersOf(&questions[i], considered)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	return slices.Concat(answers...), nil
}

func answersOf(q *Question, considered []finder.Considered) []Answer {
	var out []Answer
	for _, platform := range identity.PlatformNames() {
		if platform == q.Input.Platform {
			continue
		}
		a := Answer{Question: q, Platform: platform, Group: evidence.Group{Truth: -1}}
		for _, c := range considered {
			if c.Platform != platform {
				continue
			}
			if c.Best != nil {
				a.Identity, a.Confidence, a.Raw, a.Linked, a.Via = c.Best.Identity, c.Best.Confidence, c.Best.Raw, c.Best.Linked, c.Best.Via
			}
			for i, candidate := range c.Candidates {
				a.candidate(i, candidate)
			}
		}
		out = append(out, a)
	}
	return out
}

// candidate notes one candidate, which is the i-th by likelihood.
func (a *Answer) candidate(i int, c *evidence.Candidate) {
	if i == 0 {
		a.Namesakes = c.Namesakes
		a.Top = a.Identity == c.B.Identity && !a.Via
		a.Link = evidence.Level(c.Findings, evidence.FieldLink)
	}
	if c.B.Person {
		if c.B.Identity == a.Question.Truth[a.Platform] {
			a.Group.Truth = len(a.Group.Candidates)
		}
		a.Group.Candidates = append(a.Group.Candidates, c.Findings)
	}
	sameName := slices.ContainsFunc(c.A.Names, func(n string) bool { return slices.Contains(c.B.Names, n) })
	sameUsername := c.A.Key == c.B.Key
	for _, b := range []struct {
		is   bool
		said *string
	}{{sameName, &a.SameName}, {sameUsername, &a.SameUsername}, {sameName && sameUsername, &a.Both}} {
		if b.is && (*b.said == "" || c.B.Identity < *b.said) { // an arbitrary one of several
			*b.said = c.B.Identity
		}
	}
}
