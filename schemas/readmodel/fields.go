package readmodel

import "slices"

// The names that must_have may ask for (schemas/MAPPING.md, section 8), in
// the order of their bits in the column present. Bits are stable: a new name
// goes to the end, nothing is ever renumbered, since stored rows carry them.
var (
	networkFields = []string{
		"profile_id", "username", "first_name", "middle_name", "last_name", "full_name",
		"url", "photo", "headline", "summary", "location", "connections", "followers",
		"following", "current_position", "experience", "education", "certifications",
		"languages", "skills", "codehost_username", "microblog_username",
		"social_accounts", "last_updated", "personal_email",
	}
	codehostFields = []string{
		"user_id", "codehost_username", "type", "first_name", "last_name", "full_name",
		"personal_email", "school_email", "additional_emails", "emails", "avatar_url",
		"url", "bio", "blog", "personal_website", "location", "location_canonical",
		"company", "hireable", "followers", "following", "public_repos", "public_gists",
		"created_at", "updated_at", "repo_languages", "commit_count", "social_accounts",
		"network_username", "microblog_username", "starred_repos", "issues",
		"follower_accounts", "followed_accounts", "last_updated",
	}
)

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
func NetworkFields() []string { return append(slices.Clone(networkFields), FieldCodehost) }

// CodehostFields lists every name that must_have accepts on the codehost
// webset, stored and computed ones.
func CodehostFields() []string {
	return append(slices.Clone(codehostFields), FieldRepos, FieldCommits, FieldNetwork)
}

// NetworkFieldMask is the bit of network_people.present that stands for a
// field. ok is false for a name that no bit stands for: an unknown one, or
// one that the reader computes.
func NetworkFieldMask(name string) (mask uint64, ok bool) { return fieldMask(networkFields, name) }

// CodehostFieldMask is NetworkFieldMask for codehost_people.present.
func CodehostFieldMask(name string) (mask uint64, ok bool) { return fieldMask(codehostFields, name) }

func fieldMask(fields []string, name string) (uint64, bool) {
	i := slices.Index(fields, name)
	if i < 0 {
		return 0, false
	}
	return 1 << uint(i), true
}
