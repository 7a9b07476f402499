package websearch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// maxSnippet bounds what is kept of a page's text, in bytes.
const maxSnippet = 1000

// Queries writes the questions that lead from a profile to somebody's profile on
// a host: the name, with employer and place, and with the headline. Without a
// name of two words there is none: nobody is found by a first name.
func Queries(p *people.Profile, host string) []Query {
	name := ""
	for _, n := range p.Names {
		if words := strings.Fields(clean(n)); len(words) >= 2 && len(words) <= 6 || len(words) == 1 && len([]rune(n)) >= 2 && len(n) > len([]rune(n)) {
			name = strings.Join(words, " ")
			break
		}
	}
	if name == "" {
		return nil
	}
	var out []Query
	add := func(parts ...string) {
		text := `"` + name + `"`
		for _, part := range parts {
			if part = clean(part); part != "" {
				text += " " + cut(part, 80)
			}
		}
		if q := (Query{Text: text, Host: host}); !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	first := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return list[0]
	}
	add(first(p.Employers), first(p.Places))
	if p.Headline != "" {
		add(p.Headline)
	} else {
		add()
	}
	return out
}

// clean leaves words: no quotes or operators of a search service.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"'`:()[]{}|&<>\\+~^*?!@#=", r) || r < ' ' {
			return ' '
		}
		return r
	}, s)
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = strings.TrimLeft(w, "-")
	}
	return strings.TrimSpace(cut(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" || w == "OR" || w == "AND" || w == "NOT" }), " "), 120))
}

// Page is a profile that was found, and what the search says of it.
type Page struct {
	Account event.Account
	Title   string
	Snippet string
}

// Searcher asks all services.
type Searcher struct {
	services  []Service
	platforms *identity.Platforms
}

// New returns a searcher over services that are guarded; without any it finds
// nothing.
func New(services []Service, platforms *identity.Platforms) *Searcher {
	return &Searcher{services: services, platforms: platforms}
}

// Any reports whether there is a service to ask.
func (s *Searcher) Any() bool { return s != nil && len(s.services) > 0 }

// maxPages bounds the profiles that are found on one platform.
const maxPages = 20

// Find asks every service for a profile on platforms, all at once. The error
// joins those of services that failed; what the others found is returned with it.
func (s *Searcher) Find(ctx context.Context, p *people.Profile, platforms []string) ([]Page, error) {
	type ask struct {
		service  Service
		query    Query
		platform string
	}
	var asks []ask
	for _, platform := range platforms {
		host := s.platforms.Host(platform)
		for _, q := range Queries(p, host) {
			for _, service := range s.services {
				asks = append(asks, ask{service, q, platform})
			}
		}
	}
	results, errs := make([][]Result, len(asks)), make([]error, len(asks))
	var g errgroup.Group
	for i, a := range asks {
		g.Go(func() error {
			results[i], errs[i] = a.service.Ask(ctx, a.query)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	counts := make(map[string]int)
	seen := make(map[event.Account]bool)
	var out []Page
	for i := range asks {
		for _, r := range results[i] {
			account, ok := s.profile(r.URL, asks[i].platform)
			key := event.Account{Platform: account.Platform, Username: identity.UsernameKey(account.Username)}
			if !ok || seen[key] || counts[account.Platform] >= maxPages {
				continue
			}
			seen[key] = true
			counts[account.Platform]++
			out = append(out, Page{Account: account, Title: limit(r.Title), Snippet: limit(r.Snippet)})
		}
	}
	return out, errors.Join(distinct(errs)...)
}

// profile is whose profile a URL is; false for every other page.
func (s *Searcher) profile(url, platform string) (event.Account, bool) {
	if len(url) > 2000 {
		return event.Account{}, false
	}
	found, username, err := s.platforms.ParseAny(url)
	return event.Account{Platform: found, Username: username}, err == nil && found == platform
}

// distinct leaves one error of each text.
func distinct(errs []error) []error {
	seen := make(map[string]bool)
	return slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || seen[err.Error()] {
			return true
		}
		seen[err.Error()] = true
		return false
	})
}

func limit(s string) string {
	if len(s) > maxSnippet {
		s = s[:maxSnippet]
	}
	return strings.ToValidUTF8(s, "")
}

// Profile is what a page says of its account: the name in its title, and its
// snippet as the bio. Titles read "Juno Abara (@junoa) / Microblog" or "junoa
// (Juno Abara) · Codehost".
func (p Page) Profile() *people.Profile {
	key := identity.UsernameKey(p.Account.Username)
	out := &people.Profile{Platform: p.Account.Platform, Username: p.Account.Username, Key: key, Bio: p.Snippet, Followers: -1, Person: true}
	title := p.Title
	for _, separator := range []string{" | ", " · ", " / ", " – ", " — ", " - ", " on "} {
		title, _, _ = strings.Cut(title, separator)
	}
	before, inside, _ := strings.Cut(title, "(")
	inside, _, _ = strings.Cut(inside, ")")
	for _, name := range []string{before, inside} {
		name = strings.TrimSpace(name)
		if name != "" && !strings.HasPrefix(name, "@") && identity.UsernameKey(name) != key {
			out.Names = append(out.Names, name)
			break
		}
	}
	return out
}
