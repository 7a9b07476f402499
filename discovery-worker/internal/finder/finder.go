package finder

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"muster/discovery-worker/internal/background"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Finder discovers profiles. It is safe for concurrent use.
type Finder struct {
	reader *people.Reader
	model  *evidence.Model
	// descriptions compares descriptions in Identify.
	descriptions *evidence.Model
	logger       *slog.Logger
	now          func() time.Time

	populations *populations
	providers   Providers
}

// New returns a finder without providers.
func New(reader *people.Reader, model *evidence.Model, logger *slog.Logger, now func() time.Time) *Finder {
	return &Finder{reader: reader, model: model, descriptions: model, logger: logger, now: now,
		populations: newPopulations(reader, evidence.Prior{}, now)}
}

// WithPrior returns a finder with another prior.
func (f *Finder) WithPrior(prior evidence.Prior) *Finder {
	out := *f
	out.populations = newPopulations(f.reader, prior, f.now)
	return &out
}

// WithDescriptions returns a finder with another model for [Finder.Identify].
func (f *Finder) WithDescriptions(model *evidence.Model) *Finder {
	out := *f
	out.descriptions = model
	return &out
}

// maxCandidates is the maximum number of profiles compared on each platform.
const maxCandidates = 60

// minConfidenceToFollow is the minimum confidence of a linked profile whose own links are followed.
const minConfidenceToFollow = 0.9

// Find discovers the account's other profiles. It returns when ctx ends at the latest.
func (f *Finder) Find(ctx context.Context, input event.Account) *event.Discovery {
	d, _ := f.find(ctx, input)
	return d
}

// RankedCandidates are the candidates of a platform, most likely first, with the chosen one,
// whether or not it is returned.
type RankedCandidates struct {
	Platform   string
	Candidates []*evidence.Candidate
	Best       *Decision // nil if none
}

// Decision is the most likely profile of a platform.
type Decision struct {
	Identity        string
	Confidence, Raw float64
	Linked          bool // by its own link or one of a linked profile
	Via             bool // by a link of a linked profile
}

// Explain is like Find and also returns every candidate, for evaluation.
func (f *Finder) Explain(ctx context.Context, input event.Account) (*event.Discovery, []RankedCandidates) {
	return f.find(ctx, input)
}

func (f *Finder) find(ctx context.Context, input event.Account) (*event.Discovery, []RankedCandidates) {
	d := &event.Discovery{
		Input: input, Socials: []event.Social{{Account: input, Confidence: 1}},
		Versions: map[string]string{"evidence": f.model.Version},
	}
	defer func() { d.At = f.now().UTC() }()
	seed, err := f.reader.Owner(ctx, input)
	if err != nil {
		f.recordStageFailure(ctx, d, event.StageInput, err)
	}
	s := f.newSearch(nil)
	defer func() {
		if err := errors.Join(s.host.errs...); err != nil {
			f.recordStageFailure(ctx, d, event.StageCodeHost, err)
		}
	}()
	live, status := s.lookUpLive(ctx, input.Platform, input.Username)
	if status == statusErased {
		return d, nil
	}
	if seed = mergeLive(seed, live); seed == nil {
		// There is no record, but others may name the account.
		seed = people.NewUnrecorded(input)
	} else {
		d.Socials[0] = social(seed, 1, 1, nil)
		if !seed.Person {
			return d, nil
		}
	}
	s.seed = seed
	fail := func(stage string, err error) { f.recordStageFailure(ctx, d, stage, err) }
	if s.population, err = f.populations.get(ctx); err != nil {
		fail(event.StageKnownLinks, err)
	}
	ranked, best := s.resolveStored(ctx, fail)
	if open := s.unresolvedPlatforms(best); len(open) > 0 && f.providers.Web.Enabled() {
		if err := s.searchWeb(ctx, open); err != nil {
			fail(event.StageWebSearch, err)
		}
		if err := s.readCandidates(ctx); err != nil {
			fail(event.StageWebSearch, err)
		}
		ranked = s.rerank(best)
	}
	if err := s.confirm(ctx, best); err != nil {
		fail(event.StageKnownLinks, err)
	}
	if f.providers.Judge != nil {
		others, err := s.judge(ctx, d, ranked, best)
		if err != nil {
			fail(event.StageLanguageModel, err)
		}
		if err := s.confirm(ctx, others); err != nil {
			fail(event.StageKnownLinks, err)
		}
	}
	for i, c := range ranked {
		if r := best[c.Platform]; r != nil {
			ranked[i].Best = &Decision{r.profile.Identity, r.confidence, r.raw, r.linked || r.via, r.via}
		}
	}
	for _, platform := range identity.PlatformNames() {
		switch r := best[platform]; {
		case r == nil:
		case r.confidence >= event.DiscoveryThreshold:
			d.Socials = append(d.Socials, social(r.profile, r.confidence, r.raw, r.evidence))
		default:
			d.BelowConfidence = true
		}
	}
	slices.SortStableFunc(d.Socials[1:], func(a, b event.Social) int { return cmp.Compare(b.Confidence, a.Confidence) })
	return d, ranked
}

// resolveStored finds the seed's other profiles in the read models, by links and by similarity. fail is called for each
// stage that fails.
func (s *search) resolveStored(
	ctx context.Context, fail func(stage string, err error),
) ([]RankedCandidates, map[string]*resolved) {
	s.prefetch(ctx, s.seed)
	if err := s.findLinked(ctx, s.seed); err != nil {
		fail(event.StageKnownLinks, err)
	}
	if err := s.findSimilar(ctx, s.seed); err != nil {
		fail(event.StageWebSearch, err)
	}
	s.prefetchChain = true
	if err := s.readCandidates(ctx); err != nil {
		fail(event.StageKnownLinks, err)
		fail(event.StageWebSearch, err)
	}
	s.prefetchChain = false
	ranked := s.rank(s.seed)
	best := s.finder.pickBest(ranked)
	if err := s.followTransitive(ctx, best); err != nil {
		fail(event.StageKnownLinks, err)
	}
	// With two, no platform is left.
	if linked := linkedProfiles(best); len(linked) == 1 {
		s.selfAccounts = linked
		if err := s.findSimilar(ctx, linked[0]); err != nil {
			fail(event.StageWebSearch, err)
		}
		if err := s.readCandidates(ctx); err != nil {
			fail(event.StageWebSearch, err)
		}
		ranked = s.rerank(best)
	}
	return ranked, best
}

// degradable is a result of which a stage may be missing.
type degradable interface{ Degrade(stage string) }

// recordStageFailure marks a stage as degraded.
func (f *Finder) recordStageFailure(ctx context.Context, d degradable, stage string, err error) {
	d.Degrade(stage)
	if errors.Is(context.Cause(ctx), background.ErrStopped) {
		// The caller has gone.
		return
	}
	f.logger.WarnContext(ctx, "discovery: stage failed", slog.String("stage", stage), slog.Any("error", err))
}

// resolved is the chosen profile of a platform.
type resolved struct {
	profile         *people.Profile
	confidence, raw float64
	evidence        []event.Evidence
	linked          bool // by a link of any kind, not by score alone
	via             bool // by a link of a linked profile
}

// linkedProfiles returns the profiles with a certain link, whose fields count for the input too.
func linkedProfiles(best map[string]*resolved) []*people.Profile {
	var out []*people.Profile
	for _, platform := range identity.PlatformNames() {
		if r := best[platform]; r != nil && (r.linked || r.via) && r.confidence >= minConfidenceToFollow {
			out = append(out, r.profile)
		}
	}
	return out
}

// pickBest returns the best candidate of each platform.
func (f *Finder) pickBest(ranked []RankedCandidates) map[string]*resolved {
	best := make(map[string]*resolved)
	for _, c := range ranked {
		if len(c.Candidates) == 0 {
			continue
		}
		best[c.Platform] = f.resolve(c.Candidates[0])
	}
	return best
}

func (f *Finder) resolve(c *evidence.Candidate) *resolved {
	return &resolved{
		profile: c.B, confidence: round(c.Confidence), raw: round(c.Raw), evidence: f.model.Reasons(c),
		linked: evidence.IsLink(evidence.Level(c.Comparisons, evidence.FieldLink)),
	}
}

// rerank ranks all candidates again, and replaces choices that have no link by better ones.
func (s *search) rerank(best map[string]*resolved) []RankedCandidates {
	ranked := s.rank(s.seed)
	for platform, r := range s.finder.pickBest(ranked) {
		if have := best[platform]; have == nil || !have.linked && !have.via {
			best[platform] = r
		}
	}
	return ranked
}

func round(p float64) float64 { return math.Round(p*1e4) / 1e4 }

func social(p *people.Profile, confidence, raw float64, reasons []event.Evidence) event.Social {
	return event.Social{
		Account: p.Account(), Identity: p.Identity, Confidence: confidence, Raw: raw, Context: summary(p),
		Evidence: reasons,
	}
}

// maxContextBytes limits the context of a social.
const maxContextBytes = 4000

// summary returns the context of a social: bio, headline, experience and skills (interface.md,
// Discovered social).
func summary(p *people.Profile) *string {
	var b strings.Builder
	add := func(label string, values ...string) {
		values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return strings.TrimSpace(s) == "" })
		if len(values) == 0 || b.Len() > maxContextBytes {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(label + ": " + strings.Join(values, "; "))
	}
	add("Name", p.Names[:min(1, len(p.Names))]...)
	add("Headline", p.Headline)
	add("Bio", p.Bio)
	add("Location", strings.Join(specificPlaces(p), ", "))
	add("Experience", p.Titles[:min(5, len(p.Titles))]...)
	add("Companies", p.Employers[:min(5, len(p.Employers))]...)
	add("Education", p.Schools[:min(3, len(p.Schools))]...)
	add("Skills", p.Topics[:min(20, len(p.Topics))]...)
	if b.Len() == 0 {
		return nil
	}
	text := b.String()
	if len(text) > maxContextBytes {
		text = strings.ToValidUTF8(text[:maxContextBytes], "")
	}
	return &text
}

// specificPlaces returns the two most specific places of a profile.
func specificPlaces(p *people.Profile) []string {
	places := p.Places[:min(2, len(p.Places))]
	if len(places) == 2 && strings.Contains(places[1], places[0]) {
		places = places[1:] // "Bergen" adds nothing to "Bergen, Norway"
	}
	return places
}

// usernameKey returns the lookup key of a username.
func usernameKey(a event.Account) people.Key {
	return people.Key{Type: readmodel.LookupUsername(a.Platform), Value: identity.NormalizeUsername(a.Username)}
}

// otherPlatforms returns all platforms except one.
func otherPlatforms(platform string) []string {
	return slices.DeleteFunc(identity.PlatformNames(), func(p string) bool { return p == platform })
}

// linkTarget returns the account that an account-link lookup names.
func linkTarget(row readmodel.LookupRow) (event.Account, bool) {
	platform, username, ok := strings.Cut(row.Target, ":")
	return event.Account{Platform: platform, Username: username}, ok && row.TargetKind == readmodel.TargetAccount
}
