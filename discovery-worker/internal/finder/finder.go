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

	"muster/discovery-worker/internal/detached"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Finder finds. It is safe for concurrent use.
type Finder struct {
	reader *people.Reader
	model  *evidence.Model
	logger *slog.Logger
	now    func() time.Time

	outside Outside
}

// New returns a finder.
func New(reader *people.Reader, model *evidence.Model, logger *slog.Logger, now func() time.Time) *Finder {
	return &Finder{reader: reader, model: model, logger: logger, now: now}
}

// maxCandidates bounds how many profiles of a platform are compared.
const maxCandidates = 60

// maxRivals bounds how many others of the input's own platform are.
const maxRivals = 30

// chained is the least confidence of a linked profile whose own links are
// followed.
const chained = 0.9

// Find finds who has the account's other profiles. It takes as long as ctx lets
// it.
func (f *Finder) Find(ctx context.Context, input event.Account) *event.Discovery {
	d, _ := f.find(ctx, input)
	return d
}

// Considered are the candidates of a platform, the likeliest first, and who was
// decided on, whether that suffices to be returned or not.
type Considered struct {
	Platform   string
	Candidates []*evidence.Candidate
	Best       *Decision // nil: nobody
}

// Decision is the likeliest profile of a platform.
type Decision struct {
	Identity        string
	Confidence, Raw float64
	Linked          bool // by a link, its own or one of a linked profile's
	Via             bool // by a linked profile's
}

// Explain is Find with every candidate that was compared with the input, for
// evaluation.
func (f *Finder) Explain(ctx context.Context, input event.Account) (*event.Discovery, []Considered) {
	return f.find(ctx, input)
}

func (f *Finder) find(ctx context.Context, input event.Account) (*event.Discovery, []Considered) {
	d := &event.Discovery{
		Input: input, Socials: []event.Social{{Account: input, Confidence: 1}},
		Versions: map[string]string{"evidence": f.model.Version},
	}
	defer func() { d.At = f.now().UTC() }()
	seed, err := f.reader.Holder(ctx, input)
	if err != nil {
		f.failed(ctx, d, event.StageInput, err)
	}
	s := f.search(nil)
	defer func() {
		if err := errors.Join(s.host.failed...); err != nil {
			f.failed(ctx, d, event.StageCodeHost, err)
		}
	}()
	now, said := s.live(ctx, input.Platform, input.Username)
	if said == erased {
		return d, nil
	}
	if seed = freshen(seed, now); seed == nil {
		// Nobody is on record, but others may name the account.
		seed = people.Unrecorded(input)
	} else {
		d.Socials[0] = social(seed, 1, 1, nil)
		if !seed.Person {
			return d, nil
		}
	}
	s.seed = seed
	s.ahead(ctx, seed)
	if err := s.links(ctx, seed); err != nil {
		f.failed(ctx, d, event.StageKnownLinks, err)
	}
	if err := s.similar(ctx, seed); err != nil {
		f.failed(ctx, d, event.StageWebSearch, err)
	}
	s.foresees = true
	if err := s.read(ctx); err != nil {
		f.failed(ctx, d, event.StageKnownLinks, err)
		f.failed(ctx, d, event.StageWebSearch, err)
	}
	s.foresees = false
	considered := s.rank(seed)
	best := f.decide(considered)
	if err := s.chain(ctx, best); err != nil {
		f.failed(ctx, d, event.StageKnownLinks, err)
	}
	if more := sure(best); len(more) == 1 { // with two, nothing is open
		s.more = more
		if err := s.similar(ctx, more[0]); err != nil {
			f.failed(ctx, d, event.StageWebSearch, err)
		}
		if err := s.read(ctx); err != nil {
			f.failed(ctx, d, event.StageWebSearch, err)
		}
		considered = s.again(best)
	}
	if open := s.open(best); len(open) > 0 && f.outside.Web.Any() {
		if err := s.web(ctx, open); err != nil {
			f.failed(ctx, d, event.StageWebSearch, err)
		}
		if err := s.read(ctx); err != nil {
			f.failed(ctx, d, event.StageWebSearch, err)
		}
		considered = s.again(best)
	}
	if f.outside.Judge != nil {
		if err := s.judge(ctx, d, considered, best); err != nil {
			f.failed(ctx, d, event.StageLanguageModel, err)
		}
	}
	for i, c := range considered {
		if r := best[c.Platform]; r != nil {
			considered[i].Best = &Decision{r.profile.Identity, r.confidence, r.raw, r.linked || r.via, r.via}
		}
	}
	for _, platform := range identity.PlatformNames() {
		if r := best[platform]; r != nil && Returned(r.confidence, r.linked || r.via) {
			d.Socials = append(d.Socials, social(r.profile, r.confidence, r.raw, r.evidence))
		}
	}
	slices.SortStableFunc(d.Socials[1:], func(a, b event.Social) int { return cmp.Compare(b.Confidence, a.Confidence) })
	return d, considered
}

// Unlinked is the confidence from which a profile is returned that no link
// supports: it must be likelier than not, and by more than what a store that
// lacks most people does not know. See deploy/docs/discovery.md.
const Unlinked = 0.55

// Returned reports whether a profile of a confidence is returned.
func Returned(confidence float64, linked bool) bool {
	if linked {
		return confidence >= event.DiscoveryThreshold
	}
	return confidence >= Unlinked
}

// failed notes a stage that gave no whole answer.
func (f *Finder) failed(ctx context.Context, d *event.Discovery, stage string, err error) {
	d.Degrade(stage)
	if errors.Is(context.Cause(ctx), detached.ErrEnded) {
		return // nobody waits for it any more
	}
	f.logger.WarnContext(ctx, "discovery stage failed", slog.String("stage", stage), slog.Any("error", err))
}

// resolved is who was decided on for a platform.
type resolved struct {
	profile         *people.Profile
	confidence, raw float64
	evidence        []event.Evidence
	linked          bool // by a link of any kind, not by scoring alone
	via             bool // by the links of a linked profile
}

// sure are the profiles that links lead to with all certainty that counts
// elsewhere.
func sure(best map[string]*resolved) []*people.Profile {
	var out []*people.Profile
	for _, platform := range identity.PlatformNames() {
		if r := best[platform]; r != nil && (r.linked || r.via) && r.confidence >= chained {
			out = append(out, r.profile)
		}
	}
	return out
}

// decide takes the best of each platform.
func (f *Finder) decide(considered []Considered) map[string]*resolved {
	best := make(map[string]*resolved)
	for _, c := range considered {
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
		linked: evidence.Linked(evidence.Level(c.Findings, evidence.FieldLink)),
	}
}

// again ranks all candidates again and takes what is better than what no link
// supports.
func (s *search) again(best map[string]*resolved) []Considered {
	considered := s.rank(s.seed)
	for platform, r := range s.finder.decide(considered) {
		if have := best[platform]; have == nil || !have.linked && !have.via {
			best[platform] = r
		}
	}
	return considered
}

func round(p float64) float64 { return math.Round(p*1e4) / 1e4 }

func social(p *people.Profile, confidence, raw float64, reasons []event.Evidence) event.Social {
	return event.Social{
		Account: p.Account(), Identity: p.Identity, Confidence: confidence, Raw: raw, Context: summary(p), Evidence: reasons,
	}
}

// maxContext bounds a context, in bytes.
const maxContext = 4000

// summary composes a context of bio, headline, experience and skills
// (interface.md, Discovered social).
func summary(p *people.Profile) *string {
	var b strings.Builder
	add := func(label string, values ...string) {
		values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return strings.TrimSpace(s) == "" })
		if len(values) == 0 || b.Len() > maxContext {
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
	places := p.Places[:min(2, len(p.Places))]
	if len(places) == 2 && strings.Contains(places[1], places[0]) {
		places = places[1:] // "Bergen" says nothing beside "Bergen, Norway"
	}
	add("Location", strings.Join(places, ", "))
	add("Experience", p.Titles[:min(5, len(p.Titles))]...)
	add("Companies", p.Employers[:min(5, len(p.Employers))]...)
	add("Education", p.Schools[:min(3, len(p.Schools))]...)
	add("Skills", p.Topics[:min(20, len(p.Topics))]...)
	if b.Len() == 0 {
		return nil
	}
	text := b.String()
	if len(text) > maxContext {
		text = strings.ToValidUTF8(text[:maxContext], "")
	}
	return &text
}

// keyOf is a lookup of a platform's usernames.
func keyOf(a event.Account) people.Key {
	return people.Key{Type: readmodel.LookupUsername(a.Platform), Value: identity.UsernameKey(a.Username)}
}

// others are the platforms beside one.
func others(platform string) []string {
	return slices.DeleteFunc(identity.PlatformNames(), func(p string) bool { return p == platform })
}

// splitAccount reads the target of an account-link's lookup.
func splitAccount(row readmodel.LookupRow) (event.Account, bool) {
	platform, username, ok := strings.Cut(row.Target, ":")
	return event.Account{Platform: platform, Username: username}, ok && row.TargetKind == readmodel.TargetAccount
}
