package readmodel

import "github.com/cespare/xxhash/v2"

// LookupType says what kind of value a row of lookups was filed under.
type LookupType string

// The lookup types. Values are comparison forms: usernames and slugs as
// identity.UsernameKey, e-mails as identity.EmailKey, other ids exactly.
const (
	// LookupNetworkUsername: a network-person by its username.
	LookupNetworkUsername LookupType = "network.username"
	// LookupNetworkEmail: a network-person by one of its e-mail addresses.
	LookupNetworkEmail LookupType = "network.email"
	// LookupNetworkCodehostUsername: a network-person by a codehost username that it declares.
	LookupNetworkCodehostUsername LookupType = "network.codehost_username"
	// LookupNetworkMicroblogUsername: a network-person by a microblog username that it declares.
	LookupNetworkMicroblogUsername LookupType = "network.microblog_username"
	// LookupCodehostUsername: a codehost-person by its username.
	LookupCodehostUsername LookupType = "codehost.username"
	// LookupCodehostEmail: a codehost-person by one of its e-mail addresses.
	LookupCodehostEmail LookupType = "codehost.email"
	// LookupCodehostNetworkUsername: a codehost-person by a network username that it declares.
	LookupCodehostNetworkUsername LookupType = "codehost.network_username"
	// LookupCodehostMicroblogUsername: a codehost-person by a microblog username that it declares.
	LookupCodehostMicroblogUsername LookupType = "codehost.microblog_username"
	// LookupMicroblogUsername: a microblog-person by its username.
	LookupMicroblogUsername LookupType = "microblog.username"
	// LookupCompanySlug: a network-company by its slug.
	LookupCompanySlug LookupType = "company.slug"
	// LookupCompanyNetworkID: a network-company by the professional network's id.
	LookupCompanyNetworkID LookupType = "company.network_id"
	// LookupLinkCodehost: account-links that name a codehost username.
	LookupLinkCodehost LookupType = "link.codehost"
	// LookupLinkNetwork: account-links that name a network username.
	LookupLinkNetwork LookupType = "link.network"
	// LookupLinkMicroblog: account-links that name a microblog username.
	LookupLinkMicroblog LookupType = "link.microblog"
)

// LookupLink is the lookup type under which account-links file the accounts
// of a platform ("codehost", "network", "microblog").
func LookupLink(platform string) LookupType { return LookupType("link." + platform) }

// LookupUsername is the lookup type of a platform's usernames.
func LookupUsername(platform string) LookupType { return LookupType(platform + ".username") }

// LookupEmail is the lookup type of a platform's e-mail addresses.
func LookupEmail(platform string) LookupType { return LookupType(platform + ".email") }

// LookupDeclared is the lookup type under which records of a platform are filed by the
// usernames of another that they declare.
func LookupDeclared(platform, other string) LookupType {
	return LookupType(platform + "." + other + "_username")
}

// Target kinds of lookups: what the column target names.
const (
	// TargetNetworkPerson: target is a profile_id.
	TargetNetworkPerson = "network-person"
	// TargetCodehostPerson: target is a user_id in decimal.
	TargetCodehostPerson = "codehost-person"
	// TargetMicroblogPerson: target is a user_id.
	TargetMicroblogPerson = "microblog-person"
	// TargetNetworkCompany: target is a company_id.
	TargetNetworkCompany = "network-company"
	// TargetAccount: target is "<platform>:<username key>", the other side of an account-link.
	TargetAccount = "account"
)

// KeyHash is the hash under which lookups file a value: XXH64 of what the value is, a zero byte and the value. Types
// whose values are usernames of one platform share it, and those whose values are e-mail addresses: callers look for
// them together, and a read takes as long as it has keys. Readers compare type and value, since hashes may collide.
func KeyHash(t LookupType, value string) uint64 {
	var stack [96]byte
	buf := append(stack[:0], t.names()...)
	buf = append(buf, 0)
	buf = append(buf, value...)
	return xxhash.Sum64(buf)
}

// names is what values of a type are.
func (t LookupType) names() string {
	switch t {
	case LookupNetworkUsername, LookupCodehostNetworkUsername, LookupLinkNetwork:
		return "network username"
	case LookupCodehostUsername, LookupNetworkCodehostUsername, LookupLinkCodehost:
		return "codehost username"
	case LookupMicroblogUsername, LookupNetworkMicroblogUsername, LookupCodehostMicroblogUsername, LookupLinkMicroblog:
		return "microblog username"
	case LookupNetworkEmail, LookupCodehostEmail:
		return "email"
	}
	return string(t)
}

// ProfileHash is network_people.profile_hash of a profile_id.
func ProfileHash(profileID string) uint64 { return KeyHash("network.profile_id", profileID) }

// CompanyHash is network_companies.company_hash of a company_id.
func CompanyHash(companyID string) uint64 { return KeyHash("company.company_id", companyID) }

// MicroblogHash is microblog_people.user_hash of a user_id.
func MicroblogHash(userID string) uint64 { return KeyHash("microblog.user_id", userID) }

// LinkHash is account_links.link_hash of an account-link's identity.
func LinkHash(identity string) uint64 { return KeyHash("account-link", identity) }
