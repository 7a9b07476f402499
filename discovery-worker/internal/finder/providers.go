package finder

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/judge"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/discovery-worker/internal/websearch"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// Providers are the data sources in addition to the read models. All are optional.
type Providers struct {
	// Web searches for profile pages.
	Web *websearch.Searcher
	// Live looks up code host accounts by username. It returns nil if there is no such account.
	Live provider.Provider[string, *people.Profile]
	// Judge scores candidates. JudgeVersion names it in results.
	Judge        provider.Provider[judge.Question, []float64]
	JudgeVersion string
}

// WithProviders returns a finder that also uses the providers.
func (f *Finder) WithProviders(o Providers) *Finder {
	out := *f
	out.providers = o
	return &out
}

// Limits of provider calls in one discovery.
const (
	maxLive   = 6
	maxJudged = 3 // candidates per platform
)

// minConfidenceToJudge is the minimum confidence of candidates that are sent to the judge.
const minConfidenceToJudge = 0.3

// withTimeShare returns a context with the given part of the remaining time.
func withTimeShare(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(part*float64(time.Until(end))))
}

// hostLookups counts the live lookups of one discovery.
type hostLookups struct {
	count int
	errs  []error
}

// hostStatus is the result of a live lookup.
type hostStatus int

const (
	statusUnknown hostStatus = iota // not asked, or no answer
	statusNotFound
	statusErased // the account of an erased person
	statusFound
)

// lookUpLive looks up an account at its host, if that is supported. The profile is not nil if the
// status is statusFound.
func (s *search) lookUpLive(ctx context.Context, platform, username string) (*people.Profile, hostStatus) {
	if s.finder.providers.Live == nil || platform != identity.Codehost || s.host.count >= maxLive {
		return nil, statusUnknown
	}
	if s.finder.reader.IsErased(&people.Profile{Platform: platform, Key: identity.NormalizeUsername(username)}) {
		return nil, statusErased
	}
	s.host.count++
	ctx, cancel := withTimeShare(ctx, 0.4)
	defer cancel()
	p, err := s.finder.providers.Live.Ask(ctx, username)
	switch {
	case err != nil:
		s.host.errs = append(s.host.errs, err)
		return nil, statusUnknown
	case p == nil:
		return nil, statusNotFound
	case s.finder.reader.IsErased(p):
		return nil, statusErased
	}
	return p, statusFound
}

// mergeLive updates a recorded profile from a live one. If the username has moved to another
// account, the record is dropped.
func mergeLive(recorded, live *people.Profile) *people.Profile {
	if recorded == nil || live == nil || recorded.Identity != live.Identity {
		return cmp.Or(live, recorded)
	}
	out := *live
	out.Topics, out.Schools, out.Titles = recorded.Topics, recorded.Schools, recorded.Titles
	out.Version = recorded.Version
	join := func(a, b []string) []string {
		return append(slices.Clone(a), slices.DeleteFunc(slices.Clone(b), func(s string) bool {
			return slices.Contains(a, s)
		})...)
	}
	out.Places, out.Emails = join(live.Places, recorded.Places), join(live.Emails, recorded.Emails)
	out.Country = recorded.Country
	if len(live.Employers) == 0 {
		out.Employers, out.Current = recorded.Employers, recorded.Current
	}
	return &out
}

// addExternalCandidate adds a profile without a record as a candidate.
func (s *search) addExternalCandidate(p *people.Profile, rank int) *candidateSource {
	ref := people.Ref{Platform: p.Platform, Identity: p.Identity}
	if p.Identity == "" {
		ref.Identity = "username:" + p.Key // stable IDs never have this form
	}
	s.profiles[ref] = p
	l := s.addCandidate(ref, rank)
	l.usernames = append(l.usernames, p.Key)
	return l
}

// searchWeb searches the web for profiles on platforms and adds them as candidates: from records,
// or a live lookup, or the search result.
func (s *search) searchWeb(ctx context.Context, platforms []string) error {
	searchCtx, cancel := withTimeShare(ctx, 0.6)
	defer cancel()
	pages, err := s.finder.providers.Web.Find(searchCtx, s.seed, platforms)
	errs := []error{err}
	keys := make([]people.Key, 0, len(pages))
	for _, p := range pages {
		keys = append(keys, usernameKey(p.Account))
	}
	found, err := s.finder.reader.Lookup(ctx, keys)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i, p := range pages {
		for _, row := range found[keys[i]] {
			if ref, ok := people.RefOf(row); ok {
				l := s.addCandidate(ref, rankUsername)
				l.usernames = append(l.usernames, keys[i].Value)
			}
		}
		if len(found[keys[i]]) > 0 {
			continue
		}
		switch profile, status := s.lookUpLive(ctx, p.Account.Platform, p.Account.Username); status {
		case statusFound:
			s.addExternalCandidate(profile, rankGuess)
		case statusUnknown:
			if profile := p.Profile(); !s.finder.reader.IsErased(profile) {
				s.addExternalCandidate(profile, rankGuess)
			}
		case statusNotFound, statusErased:
		}
	}
	return errors.Join(errs...)
}

// unresolvedPlatforms returns the platforms without a confident choice.
func (s *search) unresolvedPlatforms(best map[string]*resolved) []string {
	return slices.DeleteFunc(otherPlatforms(s.seed.Platform), func(platform string) bool {
		r := best[platform]
		return r != nil && r.confidence >= minConfidenceToFollow
	})
}

// judge lets the language model lower the confidence of choices without a link, which are confirmed, and chooses the
// best candidates again. It returns those that were not chosen before, which are not confirmed.
func (s *search) judge(ctx context.Context, d *event.Discovery, ranked []RankedCandidates,
	best map[string]*resolved) (others map[string]*resolved, err error) {
	var candidates []*evidence.Candidate
	for _, c := range ranked {
		if r := best[c.Platform]; r != nil && !r.linked && !r.via {
			candidates = append(candidates, c.Candidates[:min(len(c.Candidates), maxJudged)]...)
		}
	}
	opinionByAccount, err := s.askJudge(ctx, d.Versions, candidates)
	if err != nil || opinionByAccount == nil {
		return nil, err
	}
	others = make(map[string]*resolved)
	for _, c := range ranked {
		chosen := best[c.Platform]
		if chosen == nil || chosen.linked || chosen.via {
			continue
		}
		var top *resolved
		for i, candidate := range c.Candidates {
			r := chosen
			if candidate.B != chosen.profile {
				r = s.finder.resolve(candidate)
			}
			if opinion, asked := opinionByAccount[candidate.B.Account()]; asked && i < maxJudged {
				r.confidence, r.evidence = applyOpinion(r.confidence, opinion, r.evidence)
			}
			if top == nil || r.confidence > top.confidence {
				top = r
			}
		}
		if best[c.Platform] = top; top != chosen {
			others[c.Platform] = top
		}
	}
	return others, nil
}

// askJudge asks the language model about candidates with enough confidence, and returns its opinions by account; nil if
// there is no such candidate.
func (s *search) askJudge(
	ctx context.Context, versions map[string]string, candidates []*evidence.Candidate,
) (map[event.Account]float64, error) {
	q := judge.Question{Account: s.seed.Account(), Context: valueOrEmpty(summary(s.seed))}
	for _, c := range candidates {
		if c.Confidence >= minConfidenceToJudge {
			q.Candidates = append(q.Candidates, judge.Candidate{
				Account: c.B.Account(), Context: valueOrEmpty(summary(c.B)), Evidence: s.model.Reasons(c),
			})
		}
	}
	if len(q.Candidates) == 0 {
		return nil, nil //nolint:nilnil // nothing to judge
	}
	versions[event.StageLanguageModel] = s.finder.providers.JudgeVersion
	opinions, err := s.finder.providers.Judge.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make(map[event.Account]float64, len(opinions))
	for i, o := range opinions[:min(len(opinions), len(q.Candidates))] {
		if !math.IsNaN(o) {
			out[q.Candidates[i].Account] = o
		}
	}
	return out, nil
}

// applyOpinion lowers a confidence by the language model's opinion, and adds the effect to the evidence.
func applyOpinion(confidence, opinion float64, reasons []event.Evidence) (float64, []event.Evidence) {
	after := round(judge.Blend(confidence, opinion))
	return after, append(reasons, opinionEvidence(confidence, after, opinion))
}

// opinionEvidence returns the effect of the language model's opinion, as evidence.
func opinionEvidence(before, after, opinion float64) event.Evidence {
	finding := "unsure"
	switch {
	case opinion >= 0.7:
		finding = "likely"
	case opinion <= 0.3:
		finding = "unlikely"
	}
	return event.Evidence{Kind: event.StageLanguageModel, Finding: finding, Weight: bitsBetween(before, after)}
}

func valueOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}
