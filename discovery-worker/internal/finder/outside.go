package finder

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"muster/discovery-worker/internal/judge"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/discovery-worker/internal/websearch"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// Outside are the providers beside the read models. Each may be left out.
type Outside struct {
	// Web searches for profile pages.
	Web *websearch.Searcher
	// Live looks accounts of the code host up by username; nil is nobody.
	Live provider.Provider[string, *people.Profile]
	// Judge gives an opinion on candidates. JudgeVersion names it.
	Judge        provider.Provider[judge.Question, []float64]
	JudgeVersion string
}

// With returns a finder that asks outside too.
func (f *Finder) With(o Outside) *Finder {
	out := *f
	out.outside = o
	return &out
}

// Bounds of what is asked outside in one discovery.
const (
	maxLive   = 6
	maxJudged = 3 // candidates of a platform
)

// worthJudging is the least confidence of a candidate that is worth an opinion.
const worthJudging = 0.3

// share is a part of the time that is left.
func share(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(part*float64(time.Until(end))))
}

// host is what was asked of the code host in one discovery.
type host struct {
	asked  int
	failed []error
}

// said is what a host says of an account.
type said int

const (
	unasked said = iota // or it gave no answer
	nobody
	erased // somebody who was
	somebody
)

// live looks an account up at its host, where that is possible. The profile is that of
// somebody.
func (s *search) live(ctx context.Context, platform, username string) (*people.Profile, said) {
	if s.finder.outside.Live == nil || platform != identity.Codehost || s.host.asked >= maxLive {
		return nil, unasked
	}
	if s.finder.reader.Erased(&people.Profile{Platform: platform, Key: identity.UsernameKey(username)}) {
		return nil, erased
	}
	s.host.asked++
	ctx, cancel := share(ctx, 0.4)
	defer cancel()
	p, err := s.finder.outside.Live.Ask(ctx, username)
	switch {
	case err != nil:
		s.host.failed = append(s.host.failed, err)
		return nil, unasked
	case p == nil:
		return nil, nobody
	case s.finder.reader.Erased(p):
		return nil, erased
	}
	return p, somebody
}

// freshen is a profile on record with what its host says of it now. When the
// username has moved to another account, the record is not of this one.
func freshen(record, now *people.Profile) *people.Profile {
	if record == nil || now == nil || record.Identity != now.Identity {
		return cmp.Or(now, record)
	}
	out := *now
	out.Topics, out.Schools, out.Titles, out.Version = record.Topics, record.Schools, record.Titles, record.Version
	join := func(a, b []string) []string {
		return append(slices.Clone(a), slices.DeleteFunc(slices.Clone(b), func(s string) bool { return slices.Contains(a, s) })...)
	}
	out.Places, out.Country, out.Emails = join(now.Places, record.Places), record.Country, join(now.Emails, record.Emails)
	if len(now.Employers) == 0 {
		out.Employers, out.Current = record.Employers, record.Current
	}
	return &out
}

// adopt makes a profile that is not on record a candidate.
func (s *search) adopt(p *people.Profile, rank int) *lead {
	ref := people.Ref{Platform: p.Platform, Identity: p.Identity}
	if p.Identity == "" {
		ref.Identity = "username:" + p.Key // no stable id has this form
	}
	s.profiles[ref] = p
	l := s.add(ref, rank)
	l.usernames = append(l.usernames, p.Key)
	return l
}

// web searches the web for profiles on platforms, and makes candidates of what
// is found: of records where there are any, else of what the host says now, else
// of what the search says.
func (s *search) web(ctx context.Context, platforms []string) error {
	searching, cancel := share(ctx, 0.6)
	defer cancel()
	pages, err := s.finder.outside.Web.Find(searching, s.seed, platforms)
	errs := []error{err}
	keys := make([]people.Key, 0, len(pages))
	for _, p := range pages {
		keys = append(keys, keyOf(p.Account))
	}
	found, err := s.finder.reader.Lookup(ctx, keys)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i, p := range pages {
		for _, row := range found[keys[i]] {
			if ref, ok := people.RefOf(row); ok {
				l := s.add(ref, rankHandle)
				l.usernames = append(l.usernames, keys[i].Value)
			}
		}
		if len(found[keys[i]]) > 0 {
			continue
		}
		switch profile, said := s.live(ctx, p.Account.Platform, p.Account.Username); said {
		case somebody:
			s.adopt(profile, rankGuess)
		case unasked:
			if profile := p.Profile(); !s.finder.reader.Erased(profile) {
				s.adopt(profile, rankGuess)
			}
		case nobody, erased:
		}
	}
	return errors.Join(errs...)
}

// open are the platforms on which nobody is sure yet.
func (s *search) open(best map[string]*resolved) []string {
	return slices.DeleteFunc(others(s.seed.Platform), func(platform string) bool {
		r := best[platform]
		return r != nil && r.confidence >= chained
	})
}

// judge lets the language model lower what scoring alone is confident of.
func (s *search) judge(ctx context.Context, d *event.Discovery, considered []Considered, best map[string]*resolved) error {
	q := judge.Question{Account: s.seed.Account(), Context: text(summary(s.seed))}
	for _, c := range considered {
		if r := best[c.Platform]; r == nil || r.linked || r.via {
			continue
		}
		for _, candidate := range c.Candidates[:min(len(c.Candidates), maxJudged)] {
			if candidate.Confidence >= worthJudging {
				q.Candidates = append(q.Candidates, judge.Candidate{
					Account: candidate.B.Account(), Context: text(summary(candidate.B)), Evidence: s.finder.model.Reasons(candidate),
				})
			}
		}
	}
	if len(q.Candidates) == 0 {
		return nil
	}
	d.Versions[event.StageLanguageModel] = s.finder.outside.JudgeVersion
	opinions, err := s.finder.outside.Judge.Ask(ctx, q)
	if err != nil {
		return err
	}
	said := make(map[event.Account]float64, len(opinions))
	for i, o := range opinions[:min(len(opinions), len(q.Candidates))] {
		said[q.Candidates[i].Account] = o
	}
	for _, c := range considered {
		if r := best[c.Platform]; r == nil || r.linked || r.via {
			continue
		}
		var top *resolved
		for i, candidate := range c.Candidates {
			r := s.finder.resolve(candidate)
			if opinion, asked := said[candidate.B.Account()]; asked && i < maxJudged && !math.IsNaN(opinion) {
				before := r.confidence
				r.confidence = round(judge.Blend(before, opinion))
				r.evidence = append(r.evidence, opinionOf(before, r.confidence, opinion))
			}
			if top == nil || r.confidence > top.confidence {
				top = r
			}
		}
		best[c.Platform] = top
	}
	return nil
}

// opinionOf is what the language model's opinion did, as evidence.
func opinionOf(before, after, opinion float64) event.Evidence {
	finding := "unsure"
	switch {
	case opinion >= 0.7:
		finding = "likely"
	case opinion <= 0.3:
		finding = "unlikely"
	}
	bits := 0.0
	if before > 0 && before < 1 && after > 0 && after < 1 {
		bits = math.Log2(after/(1-after)) - math.Log2(before/(1-before))
	}
	return event.Evidence{Kind: event.StageLanguageModel, Finding: finding, Weight: math.Round(bits*100) / 100}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}
