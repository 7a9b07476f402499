package readmodel

import "slices"

// Bits of network_people.present, in the order of networkFields. Stored rows
// carry them: a new one goes to the end, none is ever renumbered.
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

// networkFields are the names of the bits (schemas/MAPPING.md, section 8).
func networkFields() []string {
	return []string{
		"profile_id", "username", "first_name", "middle_name", "last_name", "full_name",
		"url", "photo", "headline", "summary", "location", "connections", "followers",
		"following", "current_position", "experience", "education", "certifications",
		"languages", "skills", "codehost_username", "microblog_username",
		"social_accounts", "last_updated", "personal_email",
	}
}

// Bits of codehost_people.present, in the order of codehostFields; as stable.
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

// codehostFields are the names of the bits (schemas/MAPPING.md, section 8).
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

// Fields that depend on other records than the row's own: the reader tests
// them, no bit stands for them.
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

// NetworkFields lists every name that must_have accepts on the network
// webset, stored and computed ones.
func NetworkFields() []string { return append(networkFields(), FieldCodehost) }

// CodehostFields lists every name that must_have accepts on the codehost
// webset, stored and computed ones.
func CodehostFields() []string {
	return append(codehostFields(), FieldRepos, FieldCommits, FieldNetwork)
}

// NetworkFieldMask is the bit of network_people.present that stands for a
// field. ok is false for a name that no bit stands for: an unknown one, or
// one that the reader computes.
func NetworkFieldMask(name string) (mask uint64, ok bool) { return fieldMask(networkFields(), name) }

// CodehostFieldMask is NetworkFieldMask for codehost_people.present.
func CodehostFieldMask(name string) (mask uint64, ok bool) { return fieldMask(codehostFields(), name) }

func fieldMask(fields []string, name string) (uint64, bool) {
	i := slices.Index(fields, name)
	if i < 0 {
		return 0, false
	}
	return 1 << uint(i), true
}

// present collects bits.
type present uint64

func (p *present) str(bit uint64, value string) {
	if value != "" {
		*p |= present(bit)
	}
}

func (p *present) int(bit uint64, value *int64) {
	if value != nil {
		*p |= present(bit)
	}
}

func (p *present) is(bit uint64, there bool) {
	if there {
		*p |= present(bit)
	}
}
