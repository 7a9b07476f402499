package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/discovery-worker/histories"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// Description is a query about a person with its ground truth.
type Description struct {
	histories.Selection
	// Truth are the person's accounts; none if the store does not have the person.
	Truth map[people.Ref]bool
}

// absentSeed is added to the seed of a world for the one with the people that the store does not have.
const absentSeed = 1_000_000

// LoadDescriptions generates synthetic data into empty read models, and describes people of it, and, for every second
// one of them, one of another world, who is not in the store. Each person is described in several ways.
func LoadDescriptions(
	ctx context.Context, conn driver.Conn, count int, seed uint64, described int,
) ([]Description, error) {
	var out []Description
	r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a repeatable draw
	for _, absent := range []bool{false, true} {
		s := &describedSink{sink: sink{ctx: ctx, conn: conn, renderer: readmodel.NewRenderer(identity.Default()),
			name: fmt.Sprintf("world-%d", seed)}, profiles: make(map[string]*record.Record), absent: absent}
		from := seed
		if absent {
			from += absentSeed
		}
		if err := sampledata.Generate(ctx, sampledata.Options{People: count, Seed: from}, s, nil); err != nil {
			return nil, fmt.Errorf("generate synthetic data: %w", err)
		}
		if err := s.flush(); err != nil {
			return nil, err
		}
		r.Shuffle(len(s.people), func(i, j int) { s.people[i], s.people[j] = s.people[j], s.people[i] })
		left := described
		if absent {
			left /= 2
		}
		for _, e := range s.people {
			if left == 0 {
				break
			}
			if list := s.describe(r, e); len(list) > 0 {
				out = append(out, list...)
				left--
			}
		}
	}
	return out, nil
}

// describedSink also keeps the newest profile of each person of the network. With absent nothing is projected.
type describedSink struct {
	sink
	profiles map[string]*record.Record
	absent   bool
}

// Record implements sampledata.Sink.
func (s *describedSink) Record(kind string, text []byte) error {
	if kind == sampledata.NetworkPerson {
		r, err := record.Decode(record.Kind(kind), slices.Clone(text))
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if have := s.profiles[r.Key]; have == nil || have.Version <= r.Version {
			s.profiles[r.Key] = r
		}
	}
	if s.absent {
		return nil
	}
	return s.sink.Record(kind, text)
}

// describe returns the descriptions of a person with a profile.
func (s *describedSink) describe(r *rand.Rand, e entity) []Description {
	truth := make(map[people.Ref]bool)
	var p *record.NetworkPerson
	for _, a := range e.Accounts {
		if a.Withdrawn {
			continue
		}
		truth[people.Ref{Platform: a.Platform, Identity: a.Identity}] = true
		if rec := s.profiles[a.Identity]; a.Platform == identity.Network && rec != nil && !rec.Deleted {
			p, _ = rec.Body.(*record.NetworkPerson)
		}
	}
	if p == nil {
		return nil
	}
	if s.absent {
		truth = nil
	}
	name := cmp.Or(p.FullName, strings.TrimSpace(p.FirstName+" "+p.LastName))
	if len(identity.NameBlockingKeys(name)) == 0 {
		return nil
	}
	about := event.PersonQuery{Name: variantOfName(r, name, e.Name)}
	if len(p.Experience) > 0 {
		job := p.Experience[0]
		if r.IntN(4) == 0 {
			job = p.Experience[r.IntN(len(p.Experience))]
		}
		about.Title = cmp.Or(job.Title, job.Summary)
		if job.Company != nil {
			about.Company = variantOfCase(r, job.Company.Name)
		}
	}
	if len(p.Education) > 0 && p.Education[0].School != nil {
		about.School = p.Education[0].School.Name
	}
	if l := p.Location; l != nil {
		about.Location = strings.Trim([]string{l.City, l.City + ", " + l.Country, l.Country}[r.IntN(3)], ", ")
	}
	if len(e.Emails) > 0 {
		about.Email, _ = identity.NormalizeEmail(e.Emails[r.IntN(len(e.Emails))])
	}
	var out []Description
	for _, selected := range histories.Selections(r, about) {
		out = append(out, Description{selected, truth})
	}
	return out
}

// variantOfName returns a name as a caller may write it.
func variantOfName(r *rand.Rand, name, official string) string {
	given, family, both := strings.Cut(name, " ")
	switch n := r.IntN(10); {
	case n == 0:
		return strings.ToLower(name)
	case n == 1 && both:
		return family + ", " + given
	case n == 2 && official != "":
		return official
	case n == 3:
		return misspell(r, name)
	}
	return name
}

// misspell doubles or leaves out a letter of a name.
func misspell(r *rand.Rand, name string) string {
	letters := []rune(name)
	i := 1 + r.IntN(max(1, len(letters)-1))
	if i >= len(letters) || letters[i] == ' ' || letters[i-1] == ' ' {
		return name
	}
	if r.IntN(2) == 0 {
		return string(slices.Insert(letters, i, letters[i]))
	}
	return string(slices.Delete(letters, i, i+1))
}

func variantOfCase(r *rand.Rand, text string) string {
	if r.IntN(5) == 0 {
		return strings.ToLower(text)
	}
	return text
}

// DescribedAnswer is the answer to a description.
type DescribedAnswer struct {
	Outcome histories.GivenOutcome
	// Groups are the candidates of each platform, for training; Raw are the outcomes of the matches, for calibration.
	Groups []evidence.Group
	Raw    []evidence.Outcome
}

// AskDescriptions identifies the people of descriptions.
func AskDescriptions(ctx context.Context, f *finder.Finder, list []Description) ([]DescribedAnswer, error) {
	const callers = 4
	out := make([]DescribedAnswer, len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for i, q := range list {
		g.Go(func() error {
			d, candidates := f.ExplainPeople(ctx, q.Query)
			if !d.Complete() {
				return fmt.Errorf("description %d: stages %v failed", i, d.Degraded)
			}
			a := &out[i]
			a.Outcome = histories.GivenOutcome{Given: q.Given, Exists: len(q.Truth) > 0}
			for _, m := range d.Matches {
				right := slices.ContainsFunc(m.Accounts, func(s event.Social) bool {
					return q.Truth[people.Ref{Platform: s.Platform, Identity: s.Identity}]
				})
				a.Outcome.Matches = append(a.Outcome.Matches, histories.ScoredMatch{Confidence: m.Confidence, Right: right})
				a.Raw = append(a.Raw, evidence.Outcome{Raw: m.Raw, Right: right})
			}
			for _, platform := range identity.PlatformNames() {
				if group := groupOf(q.Truth, platform, candidates); len(group.Candidates) > 0 {
					a.Groups = append(a.Groups, group)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	return out, nil
}

func groupOf(truth map[people.Ref]bool, platform string, candidates []*evidence.Candidate) evidence.Group {
	group := evidence.Group{Truth: -1}
	for _, c := range candidates {
		if c.B.Platform != platform {
			continue
		}
		if truth[people.Ref{Platform: platform, Identity: c.B.Identity}] {
			group.Truth = len(group.Candidates)
		}
		group.Prior = c.Population.PriorBits(platform)
		group.Candidates = append(group.Candidates, c.Comparisons)
	}
	return group
}
