package readmodel

import (
	"crypto/md5" //nolint:gosec // callers have such hashes of addresses; nothing relies on their strength
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"
)

// LookupType is the kind of value of a row of lookups.
type LookupType string

// The lookup types. Values are normalized: usernames and slugs by identity.NormalizeUsername, e-mail addresses by
// identity.NormalizeEmail. Other ids are unchanged.
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
	// LookupCompanyDomain: a network-company by the registrable domain of its website (company.WebsiteDomain).
	LookupCompanyDomain LookupType = "company.domain"
	// LookupCompanyName: a network-company by the key of its name (company.NameKey).
	LookupCompanyName LookupType = "company.name"
	// LookupLinkCodehost: account-links that name a codehost username.
	LookupLinkCodehost LookupType = "link.codehost"
	// LookupLinkNetwork: account-links that name a network username.
	LookupLinkNetwork LookupType = "link.network"
	// LookupLinkMicroblog: account-links that name a microblog username.
	LookupLinkMicroblog LookupType = "link.microblog"
	// LookupEmailMD5: a person by the MD5 of an e-mail address ([EmailMD5]).
	LookupEmailMD5 LookupType = "email_md5"
	// LookupPhone: a person by a phone number (suppress.RecordPhones).
	LookupPhone LookupType = "phone"
	// LookupHintCodehost: a codehost-person by a network username (source) that names its username (value).
	LookupHintCodehost LookupType = "hint.codehost"
	// LookupHintNetwork: a network-person by a codehost username (source) that names its username (value).
	LookupHintNetwork LookupType = "hint.network"
)

// LookupLink returns the lookup type of account links by an account of a platform ("codehost", "network",
// "microblog").
func LookupLink(platform string) LookupType { return LookupType("link." + platform) }

// LookupUsername returns the lookup type of a platform's usernames.
func LookupUsername(platform string) LookupType { return LookupType(platform + ".username") }

// LookupEmail returns the lookup type of a platform's e-mail addresses.
func LookupEmail(platform string) LookupType { return LookupType(platform + ".email") }

// LookupDeclared returns the lookup type of records of a platform by usernames of another one that they
// declare.
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

// KeyHash returns the hash under which lookups index a value: XXH64 of the value's namespace, a zero byte and
// the value. All types of usernames of one platform share a namespace, as do all types of e-mail addresses:
// they are looked up together, and the cost of a read grows with its keys. The hash of an e-mail address is
// [EmailHash] of its SHA-256. Readers compare type and value, since hashes may collide.
func KeyHash(t LookupType, value string) uint64 {
	if t.isEmail() {
		return EmailHash(sha256.Sum256([]byte(value)))
	}
	var stack [96]byte
	buf := append(stack[:0], t.namespace()...)
	buf = append(buf, 0)
	buf = append(buf, value...)
	return xxhash.Sum64(buf)
}

// namespace returns the namespace of the values of a type.
func (t LookupType) namespace() string {
	switch t {
	case LookupNetworkUsername, LookupCodehostNetworkUsername, LookupLinkNetwork, LookupHintCodehost:
		return "network username"
	case LookupCodehostUsername, LookupNetworkCodehostUsername, LookupLinkCodehost, LookupHintNetwork:
		return "codehost username"
	case LookupMicroblogUsername, LookupNetworkMicroblogUsername, LookupCodehostMicroblogUsername, LookupLinkMicroblog:
		return "microblog username"
	}
	return string(t)
}

// Namespaces of the hashes of IDs.
const (
	namespaceProfile LookupType = "network.profile_id"
	namespaceCompany LookupType = "company.company_id"
)

// isEmail reports whether the values of a type are e-mail addresses.
func (t LookupType) isEmail() bool { return t == LookupNetworkEmail || t == LookupCodehostEmail }

// EmailHash returns the hash under which lookups index an e-mail address, from the SHA-256 of its normalized form:
// an address can be found by its SHA-256 without a row of its own.
func EmailHash(sum [sha256.Size]byte) uint64 { return binary.BigEndian.Uint64(sum[:8]) }

// HasEmailSum reports whether a row indexes an e-mail address with this SHA-256.
func (r *LookupRow) HasEmailSum(sum [sha256.Size]byte) bool {
	return LookupType(r.Type).isEmail() && sha256.Sum256([]byte(r.Value)) == sum
}

// EmailMD5 returns the value under which [LookupEmailMD5] indexes a normalized e-mail address: the first half of its
// MD5. Readers compare the whole MD5 with the addresses of the record.
func EmailMD5(address string) string {
	sum := md5.Sum([]byte(address)) //nolint:gosec // see the import
	return EmailMD5Prefix(sum)
}

// EmailMD5Prefix returns EmailMD5 of the address with an MD5.
func EmailMD5Prefix(sum [md5.Size]byte) string { return hex.EncodeToString(sum[:8]) }

// ProfileHash returns network_people.profile_hash of a profile_id.
func ProfileHash(profileID string) uint64 { return KeyHash(namespaceProfile, profileID) }

// CompanyHash returns network_companies.company_hash of a company_id.
func CompanyHash(companyID string) uint64 { return KeyHash(namespaceCompany, companyID) }

// MicroblogHash returns microblog_people.user_hash of a user_id.
func MicroblogHash(userID string) uint64 { return KeyHash("microblog.user_id", userID) }

// LinkHash returns account_links.link_hash of an account link's identity.
func LinkHash(identity string) uint64 { return KeyHash("account-link", identity) }
