package finder

import (
	"context"
	"math"

	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
)

// maxUnconfirmed is the maximum confidence of a profile whose own search leads to another account.
const maxUnconfirmed = 0.3

// confirm searches from each chosen profile without a link back for the input, in the store only.
// The confidence is the lower one of both directions. A profile for which another account fits
// better is not returned.
func (s *search) confirm(ctx context.Context, best map[string]*resolved) error {
	for _, platform := range otherPlatforms(s.seed.Platform) {
		r := best[platform]
		if r == nil || r.linked || r.via || r.confidence < event.DiscoveryThreshold {
			continue
		}
		confidence, raw := 0.0, 0.0
		// The linked accounts are the input's as well.
		for _, own := range append([]*people.Profile{s.seed}, s.selfAccounts...) {
			if own.Platform == platform {
				continue
			}
			c, p, err := s.searchBack(ctx, r.profile, own)
			if err != nil {
				return err
			}
			confidence, raw = max(confidence, c), max(raw, p)
		}
		before := r.confidence
		r.confidence, r.raw = min(r.confidence, round(confidence)), min(r.raw, round(raw))
		finding := "input"
		if r.confidence < event.DiscoveryThreshold {
			finding = "other"
		}
		r.evidence = append(r.evidence, event.Evidence{Kind: "reverse", Finding: finding,
			Weight: bitsBetween(before, r.confidence)})
	}
	return nil
}

// searchBack returns the confidence that an account is the owner's of a profile, among the accounts
// of its platform in the store.
func (s *search) searchBack(ctx context.Context, from, to *people.Profile) (confidence, raw float64, err error) {
	back := s.finder.newSearch(from)
	back.cache, back.features, back.population = s.cache, s.features, s.population
	back.platforms = []string{to.Platform}
	back.addExternalCandidate(to, rankLink)
	if err := back.findSimilar(ctx, from); err != nil {
		return 0, 0, err
	}
	if err := back.readCandidates(ctx); err != nil {
		return 0, 0, err
	}
	for _, c := range back.rank(from) {
		for i, candidate := range c.Candidates {
			if c.Platform != to.Platform || candidate.B != to {
				continue
			}
			if i > 0 {
				return min(candidate.Confidence, maxUnconfirmed), candidate.Raw, nil
			}
			return candidate.Confidence, candidate.Raw, nil
		}
	}
	return 0, 0, nil
}

// bitsBetween returns the difference of the log odds of two probabilities.
func bitsBetween(before, after float64) float64 {
	if before <= 0 || before >= 1 || after <= 0 || after >= 1 {
		return 0
	}
	return math.Round(100*(math.Log2(after/(1-after))-math.Log2(before/(1-before)))) / 100
}
