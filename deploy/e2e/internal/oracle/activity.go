package oracle

import (
	"cmp"
	"slices"

	"muster/schemas/identity"
)

// activity has values derived from an account's repositories and commits (MAPPING.md, "Derived values").
type activity struct {
	languages, authors, addresses []string // most frequent first
}

// activityOf reads the visible repositories and commits of an account.
func (s *Store) activityOf(id int64, username string) activity {
	languages, authors, addresses := map[string]int{}, map[string]int{}, map[string]int{}
	count := func(counts map[string]int, value string) {
		if value != "" {
			counts[value]++
		}
	}
	for _, it := range s.reposOf[id] {
		count(languages, str(decodeObject(it.raw), "language"))
	}
	for _, it := range s.commitsOf[id] {
		rec := decodeObject(it.raw)
		if login := identity.NormalizeUsername(str(rec, "author_login")); login != "" &&
			login != identity.NormalizeUsername(username) {
			continue
		}
		count(authors, str(rec, "author_name"))
		address := str(rec, "author_email")
		if _, _, noReply := s.platforms.NoReply(address); noReply || len(emailKeys([]string{address})) == 0 {
			continue
		}
		count(addresses, address)
	}
	asGiven := func(value string) string { return value }
	return activity{
		frequent(languages, asGiven), frequent(authors, asGiven),
		frequent(addresses, func(address string) string { return emailKeys([]string{address})[0] }),
	}
}

// frequent returns values by decreasing frequency, then by comparison form, then as written.
func frequent(counts map[string]int, form func(string) string) []string {
	var out []string
	for v := range counts {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(form(a), form(b)), cmp.Compare(a, b))
	})
	return out
}

// deriveAccount is deriveCodehost with the activity of the account.
func (s *Store) deriveAccount(a *Account) (rec Object, derived []string, seen activity) {
	rec, derived = deriveCodehost(decodeObject(a.raw))
	seen = s.activityOf(a.ID, a.Username)
	if len(present(rec["repo_languages"])) == 0 && len(seen.languages) > 0 {
		rec["repo_languages"] = anys(seen.languages)
		derived = append(derived, "repo_languages")
	}
	if n := len(s.commitsOf[a.ID]); absent(rec["commit_count"]) && n > 0 {
		rec["commit_count"] = number(n)
		derived = append(derived, "commit_count")
	}
	return rec, derived, seen
}

// putMerged adds a list with further entries after it, without duplicates, and returns the path if there were any. A
// truncated list stays unchanged.
func putMerged(dst Object, name string, own []any, more ...string) []string {
	out := own
	for _, v := range more {
		if len(own) <= maxEntries && v != "" && !slices.Contains(out, any(v)) {
			out = append(out, v)
		}
	}
	putList(dst, name, out)
	if len(out) > len(own) {
		return []string{name}
	}
	return nil
}

// names returns the names of an account that the commits and the linked profile add.
func (s *Store) names(a *Account, seen activity) []string {
	var out []string
	if p := s.LinkedProfile(a); p != nil {
		linked, _ := deriveNetwork(decodeObject(p.raw))
		out = append(out, str(linked, "full_name"))
	}
	return append(out, seen.authors...)
}

// newAddresses returns the addresses of commits that the record lacks.
func newAddresses(a *Account, seen activity) []string {
	known := emailKeys(a.emails)
	var out []string
	for _, address := range seen.addresses {
		if key := emailKeys([]string{address})[0]; !slices.Contains(known, key) {
			known, out = append(known, key), append(out, address)
		}
	}
	return out
}

// HasByCommit reports whether an account, which may be nil, has an address only from its commits.
func (s *Store) HasByCommit(a *Account, address string) bool {
	if a == nil {
		return false
	}
	keys := emailKeys([]string{address})
	return len(keys) > 0 && !slices.Contains(emailKeys(a.emails), keys[0]) &&
		slices.Contains(emailKeys(s.activityOf(a.ID, a.Username).addresses), keys[0])
}
