package oracle

import (
	"slices"
	"strings"

	"muster/schemas/identity"
)

// The names that shapes have or reserve, as in the tables of MAPPING.md.
var (
	canonicalNames = []string{
		"city", "state", "country", "country_code", "postal_code", "continent", "label", "timezone", "latitude", "longitude",
	}
	repoNames = []string{
		"id", "name", "full_name", "description", "language", "stargazers_count", "forks_count", "topics", "topics_count",
		"created_at", "updated_at", "user_id", "deleted",
	}
	commitNames = []string{
		"sha", "message", "author_name", "author_email", "author_login", "author_date", "repo", "user_id", "deleted",
	}
	accountDetails = []string{
		"avatar_url", "company", "location", "followers", "following", "public_repos", "public_gists", "type",
	}
	otherLists = []string{"starred_repos", "issues", "follower_accounts", "followed_accounts"}
)

// repo renders section 7.2.
func (sh shaper) repo(rec Object) Object {
	dst := Object{}
	pick(dst, rec, "id", "name", "full_name", "description", "language", "stargazers_count", "forks_count", "created_at", "updated_at")
	putDeepList(dst, "topics", present(rec["topics"]))
	sh.unknown(dst, rec, repoNames)
	return object(sh.scrub(dst, rec))
}

// commit renders section 7.3.
func (sh shaper) commit(rec Object, authorEmail bool) Object {
	dst := Object{}
	pick(dst, rec, "sha", "message", "author_name", "author_login", "author_date")
	if authorEmail {
		pick(dst, rec, "author_email")
	}
	put(dst, "repo", sh.plain(rec["repo"], []string{"full_name", "language"}))
	sh.unknown(dst, rec, commitNames)
	return object(sh.scrub(dst, rec))
}

// putActivity adds repositories and commits as in the websets.
func (s *Store) putActivity(dst Object, a *Account, sh shaper, authorEmail bool) {
	var repos, commits []any
	for i, it := range s.reposOf[a.ID] {
		if i < maxEntries {
			repos = append(repos, sh.repo(decodeObject(it.raw)))
		}
	}
	for i, it := range s.commitsOf[a.ID] {
		if i < maxEntries {
			commits = append(commits, sh.commit(decodeObject(it.raw), authorEmail))
		}
	}
	s.putCounted(dst, a, repos, commits)
}

func (s *Store) putCounted(dst Object, a *Account, repos, commits []any) {
	if n := len(s.reposOf[a.ID]); n > 0 {
		dst["repos"], dst["repos_count"] = repos, number(n)
	}
	if n := len(s.commitsOf[a.ID]); n > 0 {
		dst["commits"], dst["commits_count"] = commits, number(n)
	}
}

// others renders a list of section 7.4.
func (sh shaper) others(v any) []any {
	var out []any
	for _, e := range present(v) {
		out = append(out, sh.unknownValue(e))
	}
	return out
}

// CodehostWebset renders section 7.
func (s *Store) CodehostWebset(a *Account, network bool) Object {
	dst := s.codehostRecord(a)
	if network {
		if p := s.LinkedProfile(a); p != nil {
			dst["network"] = s.networkAddOn(p)
		}
	}
	return dst
}

func (s *Store) codehostRecord(a *Account) Object {
	sh := shaper{}
	rec, derived, seen := s.deriveAccount(a)
	dst := Object{}
	plain := []string{
		"user_id", "codehost_username", "type", "first_name", "last_name", "full_name", "personal_email", "school_email", "avatar_url", "url",
		"bio", "blog", "personal_website", "location", "company", "network_username", "microblog_username", "hireable", "followers", "following",
		"public_repos", "public_gists", "commit_count", "created_at", "updated_at", "last_updated",
	}
	lists := []string{"names", "emails", "additional_emails", "social_accounts", "repo_languages"}
	pick(dst, rec, plain...)
	putTimestamps(dst, rec, "created_at", "updated_at")
	putInstant(dst, "last_updated", rec, "last_updated")
	for _, n := range lists {
		putList(dst, n, present(rec[n]))
	}
	others := append(anyStrings(first100(namesFound(decodeObject(a.raw)))), s.names(a, seen)...)
	derived = append(derived, putMerged(dst, "names", present(rec["names"]), others...)...)
	derived = append(derived, putMerged(dst, "emails", present(rec["emails"]), newAddresses(a, seen)...)...)
	putDerived(dst, derived, asIs)
	put(dst, "location_canonical", sh.plain(rec["location_canonical"], canonicalNames))
	for _, n := range otherLists {
		putList(dst, n, sh.others(rec[n]))
	}
	s.putActivity(dst, a, sh, true)
	sh.unknown(dst, rec, plain, lists, counts(lists), otherLists, counts(otherLists), topReserved,
		[]string{"location_canonical", "repos", "repos_count", "commits", "commits_count"})
	return dst
}

func counts(lists []string) []string {
	var out []string
	for _, n := range lists {
		out = append(out, n+"_count")
	}
	return out
}

// CodehostPresent is NetworkPresent for the codehost webset.
func (s *Store) CodehostPresent(a *Account) map[string]bool {
	present := names(s.codehostRecord(a))
	present["network"] = s.LinkedProfile(a) != nil
	present["personal_email"] = present["personal_email"] || present["emails"] || givenEmail(decodeObject(a.raw)["email"]) != ""
	return present
}

// codehostAddOn renders section 6.4.
func (s *Store) codehostAddOn(a *Account, personalEmail bool) Object {
	sh := shaper{noMail: !personalEmail}
	rec, derived, _ := s.deriveAccount(a)
	dst := Object{}
	putDerived(dst, derived, func(path string) string {
		if slices.Contains([]string{"full_name", "url", "commit_count", "repo_languages"}, path) {
			return path
		}
		return ""
	})
	pick(dst, rec, "user_id", "full_name", "url", "bio", "avatar_url", "blog", "personal_website", "company", "location", "type", "hireable",
		"followers", "following", "public_repos", "public_gists", "commit_count")
	putTimestamps(dst, rec, "created_at", "updated_at")
	putInstant(dst, "last_updated", rec, "last_updated")
	put(dst, "username", rec["codehost_username"])
	putList(dst, "repo_languages", present(rec["repo_languages"]))
	putList(dst, "stars", sh.others(rec["starred_repos"]))
	putList(dst, "issues", sh.others(rec["issues"]))
	dst = object(sh.scrub(dst, rec))
	s.putActivity(dst, a, sh, personalEmail)
	return dst
}

// EnrichedCodehost renders section 3.1.
func (s *Store) EnrichedCodehost(a *Account) Object {
	sh := shaper{}
	given := decodeObject(a.raw)
	rec, derived, seen := s.deriveAccount(a)
	dst := Object{}
	plain := []string{
		"user_id", "codehost_username", "first_name", "last_name", "full_name", "bio", "blog", "url", "personal_website", "microblog_username",
		"hireable", "commit_count", "last_updated",
	}
	pick(dst, rec, plain...)
	putInstant(dst, "last_updated", rec, "last_updated")
	details := Object{}
	pick(details, rec, accountDetails...)
	putDay(details, "created_at", rec, "created_at")
	putDay(details, "updated_at", rec, "updated_at")
	for name, v := range details {
		dst[name] = v
	}
	pick(details, rec, "user_id", "codehost_username")
	dst["codehost"] = details

	derived = append(derived, putMerged(dst, "names", namesFound(given), s.names(a, seen)...)...)
	emails, added := addresses(rec), newAddresses(a, seen)
	derived = append(derived, putMerged(dst, "emails", anys(emails), added...)...)
	emails = append(emails, added...)
	putDerived(dst, derived, asIs)
	put(dst, "email", givenEmail(rec["email"]))
	if dst["email"] == nil {
		put(dst, "email", str(rec, "personal_email"))
	}
	if dst["email"] == nil && len(emails) > 0 {
		dst["email"] = emails[0]
	}
	putList(dst, "social_accounts", present(rec["social_accounts"]))
	put(dst, "network_username", rec["network_username"])
	if dst["network_username"] == nil {
		if p := s.LinkedProfile(a); p != nil {
			dst["network_username"] = p.Username
		}
	}
	put(dst, "location_canonical", sh.plain(rec["location_canonical"], canonicalNames))
	putList(dst, "repo_languages", present(rec["repo_languages"]))

	owner := Object{}
	pick(owner, rec, "user_id", "codehost_username", "avatar_url")
	var repos, commits []any
	for _, it := range first(s.reposOf[a.ID]) {
		repos = append(repos, enrichedRepo(decodeObject(it.raw), owner))
	}
	for _, it := range first(s.commitsOf[a.ID]) {
		commits = append(commits, sh.commit(decodeObject(it.raw), true))
	}
	s.putCounted(dst, a, repos, commits)

	sh.unknown(dst, rec, plain, accountDetails, otherLists, topReserved, []string{
		"created_at", "updated_at", "codehost", "email", "network_username", "location_canonical",
		"personal_email", "school_email", "additional_emails",
	}, withCounts("names", "emails", "social_accounts", "repo_languages", "repos", "commits"))
	return dst
}

func anyStrings(list []any) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.(string))
	}
	return out
}

func first100(list []any) []any { return list[:min(len(list), maxEntries)] }

func first(items []*item) []*item { return items[:min(len(items), maxEntries)] }

func withCounts(lists ...string) []string { return append(counts(lists), lists...) }

// enrichedRepo renders section 3.2.
func enrichedRepo(rec, owner Object) Object {
	dst := Object{}
	pick(dst, rec, "full_name", "name", "description", "language", "stargazers_count", "forks_count")
	put(dst, "repo_id", rec["id"])
	putDeepList(dst, "topics", present(rec["topics"]))
	putDay(dst, "created_at", rec, "created_at")
	putDay(dst, "updated_at", rec, "updated_at")
	dst["owner"] = owner
	shaper{}.unknown(dst, rec, repoNames, []string{"repo_id", "owner"})
	return dst
}

// namesFound returns the names found in the record.
func namesFound(rec Object) []any {
	var out []any
	all := append([]string{str(rec, "full_name"), join(rec, " ", "first_name", "last_name")}, presentStrings(rec["names"])...)
	for _, n := range all {
		if n != "" && !slices.Contains(out, any(n)) {
			out = append(out, n)
		}
	}
	return out
}

// addresses returns all distinct email addresses of an account.
func addresses(rec Object) []string {
	var out []string
	seen := map[string]bool{}
	all := presentStrings(rec["emails"])
	all = append(all, givenEmail(rec["email"]), str(rec, "personal_email"), str(rec, "school_email"))
	all = append(all, presentStrings(rec["additional_emails"])...)
	for _, e := range all {
		key, err := identity.NormalizeEmail(e)
		if err != nil {
			key = strings.ToLower(e)
		}
		if e != "" && !seen[key] {
			seen[key] = true
			out = append(out, e)
		}
	}
	return out
}
