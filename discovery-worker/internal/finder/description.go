package finder

import (
	"context"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
)

// Match is a profile that matches a description.
type Match struct {
	Profile    *people.Profile
	Confidence float64
	Evidence   []event.Evidence
}

// maxNameAlone is the maximum confidence of a described person of whom only the name agrees: unlike
// an account, a description may be of a person who is nowhere.
const maxNameAlone = 0.8

// FindByDescription returns the profiles that a description without an account may be of: a name
// with an employer, a place, a school, skills. The candidates are the profiles with that name in
// the read models. They are ranked with the same model as linked profiles, so a common name alone
// is not enough. It returns at most one match for each platform, the
// most likely one, in the order of identity.PlatformNames. Errors are those of the store.
func (f *Finder) FindByDescription(ctx context.Context, person *people.Profile) ([]Match, error) {
	described := *person
	described.Platform, described.Username, described.Key, described.Identity = "", "", "", ""
	if len(nameBlockingKeys(&described)) == 0 {
		return nil, nil
	}
	s := f.newSearch(&described)
	var err error
	if s.population, err = f.populations.get(ctx); err != nil {
		return nil, err
	}
	if err := s.findSimilar(ctx, &described); err != nil {
		return nil, err
	}
	if err := s.readCandidates(ctx); err != nil {
		return nil, err
	}
	var out []Match
	for _, c := range s.rank(&described) {
		if len(c.Candidates) == 0 {
			continue
		}
		best := c.Candidates[0]
		if name := evidence.Level(best.Comparisons, evidence.FieldName); name == evidence.Missing ||
			name == evidence.Different {
			// Found by a guessed username only.
			continue
		}
		if len(c.Candidates) > 1 && 2*c.Candidates[1].Raw > best.Raw {
			continue // one of several namesakes
		}
		if best.RestsOnName() {
			best.Confidence = min(best.Confidence, maxNameAlone)
		}
		out = append(out, Match{Profile: best.B, Confidence: round(best.Confidence), Evidence: f.model.Reasons(best)})
	}
	return out, nil
}
