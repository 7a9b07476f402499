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

// maxSnippet limits the text of a page, in bytes.
const maxSnippet = 1000

// Queries returns the queries for a person's profile on a host: the name with employer and place,
// and the name with the headline. It returns none for a name of one word, which is too ambiguous.
func Queries(p *people.Profile, host string) []Query {
	name := ""
	for _, n := range p.Names {
		if words := strings.Fields(cleanQuery(n)); len(words) >= 2 && len(words) <= 6 ||
			len(words) == 1 && len([]rune(n)) >= 2 && len(n) > len([]rune(n)) {
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
			if part = cleanQuery(part); part != "" {
				text += " " + truncate(part, 80)
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

// cleanQuery removes quotes and operators of search services.
func cleanQuery(s string) string {
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
	return strings.TrimSpace(truncate(strings.Join(slices.DeleteFunc(words, func(w string) bool {
		return w == "" || w == "OR" || w == "AND" || w == "NOT"
	}), " "), 120))
}

// Page is a profile page with its search result.
type Page struct {
	Account event.Account
	Title   string
	Snippet string
}

// Searcher queries all services.
type Searcher struct {
	services  []Service
	platforms *identity.Platforms
}

// New returns a searcher over guarded services. Without any it finds nothing.
func New(services []Service, platforms *identity.Platforms) *Searcher {
	return &Searcher{services: services, platforms: platforms}
}

// Enabled reports whether there is a service.
func (s *Searcher) Enabled() bool { return s != nil && len(s.services) > 0 }

// maxPages limits the pages of one platform.
const maxPages = 20

// Find queries every service for a profile on the platforms, concurrently. It returns all pages
// found, even with an error, which joins those of the failed services.
func (s *Searcher) Find(ctx context.Context, p *people.Profile, platforms []string) ([]Page, error) {
	type request struct {
		service  Service
		query    Query
		platform string
	}
	var requests []request
	for _, platform := range platforms {
		host := s.platforms.Host(platform)
		for _, q := range Queries(p, host) {
			for _, service := range s.services {
				requests = append(requests, request{service, q, platform})
			}
		}
	}
	results, errs := make([][]Result, len(requests)), make([]error, len(requests))
	var g errgroup.Group
	for i, a := range requests {
		g.Go(func() error {
			results[i], errs[i] = a.service.Ask(ctx, a.query)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	counts := make(map[string]int)
	seen := make(map[event.Account]bool)
	var out []Page
	for i := range requests {
		for _, r := range results[i] {
			account, ok := s.parseProfileURL(r.URL, requests[i].platform)
			key := event.Account{Platform: account.Platform, Username: identity.NormalizeUsername(account.Username)}
			if !ok || seen[key] || counts[account.Platform] >= maxPages {
				continue
			}
			seen[key] = true
			counts[account.Platform]++
			out = append(out, Page{Account: account, Title: truncateSnippet(r.Title),
				Snippet: truncateSnippet(r.Snippet)})
		}
	}
	return out, errors.Join(distinct(errs)...)
}

// parseProfileURL returns the account of a profile URL, and false for any other page.
func (s *Searcher) parseProfileURL(url, platform string) (event.Account, bool) {
	if len(url) > 2000 {
		return event.Account{}, false
	}
	found, username, err := s.platforms.ParseAny(url)
	return event.Account{Platform: found, Username: username}, err == nil && found == platform
}

// distinct removes nil errors and repeated messages.
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

func truncateSnippet(s string) string {
	if len(s) > maxSnippet {
		s = s[:maxSnippet]
	}
	return strings.ToValidUTF8(s, "")
}

// Profile converts a page: the title has the name, the snippet is the bio. Titles look like "Juno
// Abara (@junoa) / Microblog" or "junoa (Juno Abara) · Codehost".
func (p Page) Profile() *people.Profile {
	key := identity.NormalizeUsername(p.Account.Username)
	out := &people.Profile{Platform: p.Account.Platform, Username: p.Account.Username, Key: key, Bio: p.Snippet,
		Followers: -1, Person: true}
	title := p.Title
	for _, separator := range []string{" | ", " · ", " / ", " – ", " — ", " - ", " on "} {
		title, _, _ = strings.Cut(title, separator)
	}
	before, inside, _ := strings.Cut(title, "(")
	inside, _, _ = strings.Cut(inside, ")")
	for _, name := range []string{before, inside} {
		name = strings.TrimSpace(name)
		if name != "" && !strings.HasPrefix(name, "@") && identity.NormalizeUsername(name) != key {
			out.Names = append(out.Names, name)
			break
		}
	}
	return out
}
