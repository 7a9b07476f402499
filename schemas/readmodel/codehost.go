package readmodel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/derive"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// codehostShapes are the reserved names in codehost shapes: unknown fields with these names are dropped.
type codehostShapes struct {
	webset, enrich, location             reserved
	repo, enrichRepo, commit, commitRepo reserved
}

func newCodehostShapes() codehostShapes {
	names := []string{"user_id", "codehost_username", "type", "first_name", "last_name", "full_name", "personal_email",
		"school_email",
		"avatar_url", "url", "bio", "blog", "personal_website", "location", "location_canonical", "company", "hireable",
		"followers", "following", "public_repos", "public_gists", "created_at", "updated_at", "commit_count",
		"network_username", "microblog_username", "last_updated", "network", "codehost", "deleted", "repos_complete",
		"commits_complete",
		"discovered_link", "derived"}
	lists := []string{"names", "emails", "additional_emails", "social_accounts", "repo_languages", "repos", "commits",
		"starred_repos", "issues", "follower_accounts", "followed_accounts"}
	return codehostShapes{
		webset: reserve(names...).lists(lists...),
		enrich: reserve(append(names, "email")...).lists(lists...),
		location: reserve("city", "state", "country", "country_code", "latitude", "longitude", "postal_code",
			"continent", "label", "timezone"),
		repo: reserve("user_id", "deleted", "id", "name", "full_name", "description", "language",
			"stargazers_count", "forks_count", "created_at", "updated_at").lists("topics"),
		enrichRepo: reserve("user_id", "deleted", "id", "repo_id", "owner", "name", "full_name", "description",
			"language", "stargazers_count", "forks_count", "created_at", "updated_at").lists("topics"),
		commit: reserve("user_id", "deleted", "sha", "message", "author_name", "author_email", "author_login",
			"author_date", "repo"),
		commitRepo: reserve("full_name", "language"),
	}
}

// maxFoundNames is the maximum number of names by which discovery finds an account.
const maxFoundNames = 20

// codehostPerson adds the rows of a codehost-person.
func (r *Renderer) codehostPerson(b *Batch, rec *record.Record, given *record.CodehostPerson, at Position) {
	t := &b.codehostPeople
	if rec.Deleted {
		t.addDeletion(rec, at, *given.UserID, given.LastUpdated)
		return
	}
	full, derived := r.deriver.CodehostPerson(given)
	p := &full
	usernameKey := identity.NormalizeUsername(p.CodehostUsername)
	addresses := [][]string{p.Emails, optional(unknownEmail(p.Unknown)), optional(p.PersonalEmail),
		optional(p.SchoolEmail), p.AdditionalEmails}
	emails := b.copyList(emailKeys(r.keys[:0], addresses...))
	accounts := r.platforms.FindAccounts(p.SocialAccounts)
	network := b.copyList(declaredKeys(r.keys[:0], p.NetworkUsername, identity.Network, accounts))
	microblog := b.copyList(declaredKeys(r.keys[:0], p.MicroblogUsername, identity.Microblog, accounts))

	l := b.lookupsOf(rec, TargetCodehostPerson, itoa(*p.UserID), at)
	l.addUsername(LookupCodehostUsername, usernameKey, network)
	l.addEmails(LookupCodehostEmail, emails...)
	l.addPhones()
	l.addDeclared(LookupCodehostNetworkUsername, network, usernameKey)
	l.addAll(LookupCodehostMicroblogUsername, microblog)
	if p.Type != "Organization" && p.Type != "Bot" {
		known := names(given)
		l.find(identity.Codehost, p.CodehostUsername, known[:min(len(known), maxFoundNames)]...)
		r.mention(&l, identity.Codehost, []string{p.Blog, p.PersonalWebsite}, p.Bio)
	}

	w := &r.w
	w.own.set(addresses...)

	t.common.add(rec, at)
	t.userID.add(*p.UserID)
	t.lastUpdated.add(p.LastUpdated)
	t.codehostUsername.add(p.CodehostUsername)
	t.usernameKey.add(usernameKey)
	t.accountType.add(p.Type)
	t.emailKeys.add(emails)
	t.networkUsername.add(p.NetworkUsername)
	t.networkUsernameKeys.add(network)
	t.microblogUsernameKeys.add(microblog)
	t.present.add(uint64(codehostPresent(p)))

	content := r.appendAccountLists(r.content[:0], p, names(given), derived)
	w.reset(false)
	w.integer(`"user_id":`, *p.UserID)
	w.str(`"codehost_username":`, p.CodehostUsername)
	w.str(`"avatar_url":`, p.AvatarURL)
	content = appendPiece(content, w.fragment(), shapeSpecial)
	w.reset(false)
	r.codehostEnrich(p)
	content = appendPiece(content, w.fragment(), ShapeEnrich)
	w.reset(false)
	r.codehostWebset(p)
	content = appendPiece(content, w.fragment(), ShapeWebset)
	content = r.appendWithoutMail(content, ShapeAddon, func() { r.codehostAddon(p) })
	t.content.add(content)
	r.content = content
}

// appendAccountLists appends the leading fields of an account's content column (accountValues).
func (r *Renderer) appendAccountLists(
	b []byte, p *record.CodehostPerson, names []string, derived derive.Fields,
) []byte {
	email := unknownEmail(p.Unknown)
	merged := r.mergedEmails(p, email)
	b = appendUnsigned(b, uint64(derived))
	for _, list := range [][]string{names, p.Names, merged, p.Emails} {
		b = appendServed(b, list)
	}
	return appendField(b, cmp.Or(email, p.PersonalEmail))
}

func codehostPresent(p *record.CodehostPerson) fieldMask {
	mask := fieldMask(hostUserID | hostCodehostUsername | hostLastUpdated)
	mask.setString(hostType, p.Type)
	mask.setString(hostFirstName, p.FirstName)
	mask.setString(hostLastName, p.LastName)
	mask.setString(hostFullName, p.FullName)
	mask.setIf(hostPersonalEmail, p.PersonalEmail != "" || unknownEmail(p.Unknown) != "" || anyString(p.Emails))
	mask.setString(hostSchoolEmail, p.SchoolEmail)
	mask.setIf(hostAdditionalEmails, anyString(p.AdditionalEmails))
	mask.setIf(hostEmails, anyString(p.Emails))
	mask.setString(hostAvatarURL, p.AvatarURL)
	mask.setString(hostURL, p.URL)
	mask.setString(hostBio, p.Bio)
	mask.setString(hostBlog, p.Blog)
	mask.setString(hostPersonalWebsite, p.PersonalWebsite)
	mask.setString(hostLocation, p.Location)
	mask.setIf(hostLocationCanonical, !isEmptyCanonical(p.LocationCanon))
	mask.setString(hostCompany, p.Company)
	mask.setIf(hostHireable, p.Hireable != nil)
	mask.setInt(hostFollowers, p.Followers)
	mask.setInt(hostFollowing, p.Following)
	mask.setInt(hostPublicRepos, p.PublicRepos)
	mask.setInt(hostPublicGists, p.PublicGists)
	mask.setString(hostCreatedAt, string(p.CreatedAt))
	mask.setString(hostUpdatedAt, string(p.UpdatedAt))
	mask.setIf(hostRepoLanguages, anyString(p.RepoLanguages))
	mask.setInt(hostCommitCount, p.CommitCount)
	mask.setIf(hostSocialAccounts, anyString(p.SocialAccounts))
	mask.setString(hostNetworkUsername, p.NetworkUsername)
	mask.setString(hostMicroblogUsername, p.MicroblogUsername)
	mask.setIf(hostStarredRepos, anyValue(p.StarredRepos))
	mask.setIf(hostIssues, anyValue(p.Issues))
	mask.setIf(hostFollowerAccounts, anyValue(p.FollowerAccounts))
	mask.setIf(hostFollowedAccounts, anyValue(p.FollowedAccounts))
	return mask
}

func anyValue(list []jsontext.Value) bool {
	return slices.ContainsFunc(list, func(v jsontext.Value) bool { return !isAbsent(v) })
}

func isEmptyCanonical(l *record.CanonicalLocation) bool {
	return l == nil || l.City == "" && l.State == "" && l.Country == "" && l.CountryCode == "" && l.Latitude == nil &&
		l.Longitude == nil && l.PostalCode == "" && l.Continent == "" && l.Label == "" && l.Timezone == "" &&
		!anyPresent(l.Unknown)
}

// codehostEnrich writes person.codehost without the parts that the reader adds (schemas/MAPPING.md, 3.1).
func (r *Renderer) codehostEnrich(p *record.CodehostPerson) {
	w := &r.w
	mark := w.open(`"codehost":`, '{')
	w.integer(`"user_id":`, *p.UserID)
	w.str(`"codehost_username":`, p.CodehostUsername)
	from := len(w.buf)
	w.accountDetails(p)
	to := len(w.buf)
	w.close(mark, '}')
	w.integer(`"user_id":`, *p.UserID)
	w.str(`"codehost_username":`, p.CodehostUsername)
	w.repeat(from, to)
	w.str(`"first_name":`, p.FirstName)
	w.str(`"last_name":`, p.LastName)
	w.str(`"full_name":`, p.FullName)
	w.str(`"bio":`, p.Bio)
	w.str(`"blog":`, p.Blog)
	w.str(`"url":`, p.URL)
	w.str(`"personal_website":`, p.PersonalWebsite)
	w.str(`"microblog_username":`, p.MicroblogUsername)
	w.bool(`"hireable":`, p.Hireable)
	w.strings(`"social_accounts":`, p.SocialAccounts, always)
	w.canonical(&r.codehost, p.LocationCanon)
	w.strings(`"repo_languages":`, p.RepoLanguages, always)
	w.int(`"commit_count":`, p.CommitCount)
	w.unknown(p.Unknown, r.codehost.enrich)
}

// repeat appends the fields already written in [from, to); to is after their last comma.
func (w *writer) repeat(from, to int) {
	if to > from {
		w.buf = append(w.buf, w.buf[from:to-1]...)
		w.buf = append(w.buf, ',')
	}
}

// accountDetails writes the fields that person.codehost has both nested and at the top level.
func (w *writer) accountDetails(p *record.CodehostPerson) {
	w.str(`"avatar_url":`, p.AvatarURL)
	w.str(`"company":`, p.Company)
	w.str(`"location":`, p.Location)
	w.int(`"followers":`, p.Followers)
	w.int(`"following":`, p.Following)
	w.int(`"public_repos":`, p.PublicRepos)
	w.int(`"public_gists":`, p.PublicGists)
	w.str(`"type":`, p.Type)
	w.str(`"created_at":`, p.CreatedAt.Full())
	w.str(`"updated_at":`, p.UpdatedAt.Full())
}

// names returns the full name, first and last name together, and the other names of the record, each once.
// Derived names are parts of them.
func names(p *record.CodehostPerson) []string {
	var parts []string
	for _, s := range []string{p.FirstName, p.LastName} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	out := optional(p.FullName)
	if joined := strings.Join(parts, " "); joined != p.FullName {
		out = append(out, optional(joined)...)
	}
	seen := make(map[string]bool, len(p.Names))
	for _, s := range p.Names {
		if s != "" && !seen[s] && !slices.Contains(out[:min(len(out), 2)], s) {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// mergedEmails are all addresses of the record, each once; email is that of the unknown field "email".
func (r *Renderer) mergedEmails(p *record.CodehostPerson, email string) []string {
	out := r.emails[:0]
	seen := make(map[string]struct{}, len(p.Emails)+len(p.AdditionalEmails)+2)
	add := func(list ...string) {
		for _, s := range list {
			if s == "" {
				continue
			}
			key, err := identity.NormalizeEmail(s)
			if err != nil {
				key = strings.ToLower(s)
			}
			if _, have := seen[key]; !have {
				seen[key] = struct{}{}
				out = append(out, s)
			}
		}
	}
	add(p.Emails...)
	add(email, p.PersonalEmail, p.SchoolEmail)
	add(p.AdditionalEmails...)
	r.emails = out
	return out
}

func (w *writer) canonical(s *codehostShapes, l *record.CanonicalLocation) {
	if l == nil {
		return
	}
	mark := w.open(`"location_canonical":`, '{')
	w.str(`"city":`, l.City)
	w.str(`"state":`, l.State)
	w.str(`"country":`, l.Country)
	w.str(`"country_code":`, l.CountryCode)
	w.float(`"latitude":`, l.Latitude)
	w.float(`"longitude":`, l.Longitude)
	w.str(`"postal_code":`, l.PostalCode)
	w.str(`"continent":`, l.Continent)
	w.str(`"label":`, l.Label)
	w.str(`"timezone":`, l.Timezone)
	w.unknown(l.Unknown, s.location)
	w.close(mark, '}')
}

// codehostWebset writes the webset record without the parts that the reader adds (schemas/MAPPING.md, 7.1).
func (r *Renderer) codehostWebset(p *record.CodehostPerson) {
	w := &r.w
	w.integer(`"user_id":`, *p.UserID)
	w.str(`"codehost_username":`, p.CodehostUsername)
	w.str(`"type":`, p.Type)
	w.str(`"first_name":`, p.FirstName)
	w.str(`"last_name":`, p.LastName)
	w.str(`"full_name":`, p.FullName)
	w.str(`"personal_email":`, p.PersonalEmail)
	w.str(`"school_email":`, p.SchoolEmail)
	w.strings(`"additional_emails":`, p.AdditionalEmails, always)
	w.str(`"avatar_url":`, p.AvatarURL)
	w.str(`"url":`, p.URL)
	w.str(`"bio":`, p.Bio)
	w.str(`"blog":`, p.Blog)
	w.str(`"personal_website":`, p.PersonalWebsite)
	w.str(`"location":`, p.Location)
	w.canonical(&r.codehost, p.LocationCanon)
	w.str(`"company":`, p.Company)
	w.bool(`"hireable":`, p.Hireable)
	w.int(`"followers":`, p.Followers)
	w.int(`"following":`, p.Following)
	w.int(`"public_repos":`, p.PublicRepos)
	w.int(`"public_gists":`, p.PublicGists)
	w.str(`"created_at":`, p.CreatedAt.Timestamp())
	w.str(`"updated_at":`, p.UpdatedAt.Timestamp())
	w.strings(`"repo_languages":`, p.RepoLanguages, always)
	w.int(`"commit_count":`, p.CommitCount)
	w.strings(`"social_accounts":`, p.SocialAccounts, always)
	w.str(`"network_username":`, p.NetworkUsername)
	w.str(`"microblog_username":`, p.MicroblogUsername)
	w.values(`"starred_repos":`, p.StarredRepos, always)
	w.values(`"issues":`, p.Issues, always)
	w.values(`"follower_accounts":`, p.FollowerAccounts, always)
	w.values(`"followed_accounts":`, p.FollowedAccounts, always)
	w.unknown(p.Unknown, r.codehost.webset)
}

// codehostAddon writes the add-on codehost without repos, commits and last_updated
// (schemas/MAPPING.md, 6.4).
func (r *Renderer) codehostAddon(p *record.CodehostPerson) {
	w := &r.w
	w.integer(`"user_id":`, *p.UserID)
	w.str(`"username":`, p.CodehostUsername)
	w.str(`"full_name":`, p.FullName)
	w.str(`"url":`, p.URL)
	w.str(`"bio":`, p.Bio)
	w.str(`"avatar_url":`, p.AvatarURL)
	w.str(`"blog":`, p.Blog)
	w.str(`"personal_website":`, p.PersonalWebsite)
	w.str(`"company":`, p.Company)
	w.str(`"location":`, p.Location)
	w.str(`"type":`, p.Type)
	w.bool(`"hireable":`, p.Hireable)
	w.int(`"followers":`, p.Followers)
	w.int(`"following":`, p.Following)
	w.int(`"public_repos":`, p.PublicRepos)
	w.int(`"public_gists":`, p.PublicGists)
	w.int(`"commit_count":`, p.CommitCount)
	w.str(`"created_at":`, p.CreatedAt.Timestamp())
	w.str(`"updated_at":`, p.UpdatedAt.Timestamp())
	w.strings(`"repo_languages":`, p.RepoLanguages, always)
	w.values(`"stars":`, p.StarredRepos, always)
	w.values(`"issues":`, p.Issues, always)
}
