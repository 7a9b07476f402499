package finder

import (
	"context"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
)

// Match is a profile that a description may be of.
type Match struct {
	Profile    *people.Profile
	Confidence float64
	Evidence   []event.Evidence
}

// Described finds whose profiles a description may be of that names no account: a
// name with an employer, a place, a school, skills. The candidates are those of the
// name in the read models; how sure each is says the same model that links
// profiles, so that one of many namesakes needs more than the name to be believed.
// At most one of each platform is returned, the likeliest, in the order of
// identity.PlatformNames. The error is that of the store.
func (f *Finder) Described(ctx context.Context, who *people.Profile) ([]Match, error) {
	described := *who
	described.Platform, described.Username, described.Key, described.Identity = "", "", "", ""
	if len(nameKeys(&described)) == 0 {
		return nil, nil
	}
	s := f.search(&described)
	if err := s.similar(ctx, &described); err != nil {
		return nil, err
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	var out []Match
	for _, c := range s.rank(&described) {
		if len(c.Candidates) == 0 {
			continue
		}
		best := c.Candidates[0]
		if name := evidence.Level(best.Findings, evidence.FieldName); name == evidence.Missing || name == evidence.Different {
			continue // of a username that people of such a name have
		}
		out = append(out, Match{Profile: best.B, Confidence: round(best.Confidence), Evidence: f.model.Reasons(best)})
	}
	return out, nil
}
