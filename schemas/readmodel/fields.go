package readmodel

import "slices"

// Bits of network_people.present, in the order of networkFields. They are stored: append new ones, never
// renumber.
const (
	netProfileID uint64 = 1 << iota
	netUsername
	netFirstName
	netMiddleName
	netLastName
	netFullName
	netURL
	netPhoto
	netHeadline
	netSummary
	netLocation
	netConnections
	netFollowers
	netFollowing
	netCurrentPosition
	netExperience
	netEducation
	netCertifications
	netLanguages
	netSkills
	netCodehostUsername
	netMicroblogUsername
	netSocialAccounts
	netLastUpdated
	netPersonalEmail
)

// networkFields returns the names of the bits (schemas/MAPPING.md, section 8).
func networkFields() []string {
	return []string{
		"profile_id", "username", "first_name", "middle_name", "last_name", "full_name",
		"url", "photo", "headline", "summary", "location", "connections", "followers",
		"following", "current_position", "experience", "education", "certifications",
		"languages", "skills", "codehost_username", "microblog_username",
		"social_accounts", "last_updated", "personal_email",
	}
}

// Bits of codehost_people.present, in the order of codehostFields. They are stored, too.
const (
	hostUserID uint64 = 1 << iota
	hostCodehostUsername
	hostType
	hostFirstName
	hostLastName
	hostFullName
	hostPersonalEmail
	hostSchoolEmail
	hostAdditionalEmails
	hostEmails
	hostAvatarURL
	hostURL
	hostBio
	hostBlog
	hostPersonalWebsite
	hostLocation
	hostLocationCanonical
	hostCompany
	hostHireable
	hostFollowers
	hostFollowing
	hostPublicRepos
	hostPublicGists
	hostCreatedAt
	hostUpdatedAt
	hostRepoLanguages
	hostCommitCount
	hostSocialAccounts
	hostNetworkUsername
	hostMicroblogUsername
	hostStarredRepos
	hostIssues
	hostFollowerAccounts
	hostFollowedAccounts
	hostLastUpdated
)

// codehostFields returns the names of the bits (schemas/MAPPING.md, section 8).
func codehostFields() []string {
	return []string{
		"user_id", "codehost_username", "type", "first_name", "last_name", "full_name",
		"personal_email", "school_email", "additional_emails", "emails", "avatar_url",
		"url", "bio", "blog", "personal_website", "location", "location_canonical",
		"company", "hireable", "followers", "following", "public_repos", "public_gists",
		"created_at", "updated_at", "repo_languages", "commit_count", "social_accounts",
		"network_username", "microblog_username", "starred_repos", "issues",
		"follower_accounts", "followed_accounts", "last_updated",
	}
}

// Fields that depend on other records. The reader computes them; they have no bit.
const (
	// FieldCodehost on the network webset: a followed link leads to a codehost-person.
	FieldCodehost = "codehost"
	// FieldNetwork on the codehost webset: a followed link leads to a network-person.
	FieldNetwork = "network"
	// FieldRepos on the codehost webset: there is a visible repository.
	FieldRepos = "repos"
	// FieldCommits on the codehost webset: there is a visible commit.
	FieldCommits = "commits"
)

// NetworkFields returns all names that must_have accepts on the network webset, stored and computed.
func NetworkFields() []string { return append(networkFields(), FieldCodehost) }

// CodehostFields returns all names that must_have accepts on the codehost webset, stored and computed.
func CodehostFields() []string {
	return append(codehostFields(), FieldRepos, FieldCommits, FieldNetwork)
}

// NetworkFieldMask returns the bit of a field in network_people.present. ok is false if the field is unknown
// or computed by the reader.
func NetworkFieldMask(name string) (mask uint64, ok bool) { return maskOf(networkFields(), name) }

// CodehostFieldMask is NetworkFieldMask for codehost_people.present.
func CodehostFieldMask(name string) (mask uint64, ok bool) { return maskOf(codehostFields(), name) }

func maskOf(fields []string, name string) (uint64, bool) {
	i := slices.Index(fields, name)
	if i < 0 {
		return 0, false
	}
	return 1 << uint(i), true
}

// fieldMask is a bit set of non-empty fields.
type fieldMask uint64

func (p *fieldMask) setString(bit uint64, value string) {
	if value != "" {
		*p |= fieldMask(bit)
	}
}

func (p *fieldMask) setInt(bit uint64, value *int64) {
	if value != nil {
		*p |= fieldMask(bit)
	}
}

func (p *fieldMask) setIf(bit uint64, present bool) {
	if present {
		*p |= fieldMask(bit)
	}
}
