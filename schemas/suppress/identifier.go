package suppress

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"

	"muster/schemas/identity"
)

// Type is a type of identifier (records.md, kind erasure).
type Type string

// Types that a request may contain.
const (
	Email             Type = "email"
	Phone             Type = "phone"
	NetworkUsername   Type = "network_username"
	CodehostUsername  Type = "codehost_username"
	MicroblogUsername Type = "microblog_username"
	ProfileID         Type = "profile_id" // of the professional network
	UserID            Type = "user_id"    // of the code host
)

// Derived types. Requests cannot contain them.
const (
	// MicroblogUserID is the id of an account of the microblog.
	MicroblogUserID Type = "microblog_user_id"
	// CodehostAccount, NetworkAccount and MicroblogAccount are usernames of erased accounts. They suppress
	// what other records state about the account, but not the record of a later owner of the username.
	CodehostAccount  Type = "codehost_account"
	NetworkAccount   Type = "network_account"
	MicroblogAccount Type = "microblog_account"
)

// typeCount is the number of types that records are compared by.
const typeCount = 16

// index returns the index of a type that records are compared by, and typeCount for all others.
func (t Type) index() int {
	switch t {
	case Email:
		return 0
	case Phone:
		return 1
	case NetworkUsername:
		return 2
	case CodehostUsername:
		return 3
	case MicroblogUsername:
		return 4
	case ProfileID:
		return 5
	case UserID:
		return 6
	case MicroblogUserID:
		return 7
	case NetworkAccount:
		return 8
	case CodehostAccount:
		return 9
	case MicroblogAccount:
		return 10
	case DropPhone:
		return 11
	case DropNDZ:
		return 12
	case DropNameVIN:
		return 13
	case DropMAID:
		return 14
	case DropCTVID:
		return 15
	}
	return typeCount
}

// indexed returns the types in the order of their index.
func indexed() [typeCount]Type {
	return [typeCount]Type{
		Email, Phone, NetworkUsername, CodehostUsername, MicroblogUsername, ProfileID, UserID, MicroblogUserID,
		NetworkAccount, CodehostAccount, MicroblogAccount, DropPhone, DropNDZ, DropNameVIN, DropMAID, DropCTVID,
	}
}

// bit returns a type's bit in a word of types.
func (t Type) bit() uint64 { return 1 << t.index() }

// Types returns the types that a request may contain, in a fixed order.
func Types() []Type {
	return []Type{Email, Phone, NetworkUsername, CodehostUsername, MicroblogUsername, ProfileID, UserID}
}

// TypeNames returns Types as text for messages.
func TypeNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// Errors of Normalize, phrased to follow the identifier's name.
var (
	errType     = errors.New("is of an unknown type: use one of " + TypeNames())
	errEmpty    = errors.New("is empty")
	errUsername = errors.New("is not a username")
	errUserID   = errors.New("is not a user id: a number, 0 or more")
	errPhone    = errors.New("is not a phone number of 7 to 15 digits")
	errLong     = errors.New("is longer than 512 bytes")
)

// Normalize returns the normalized form of an identifier, which is hashed: e-mail addresses and usernames as
// in identity.NormalizeEmail and identity.NormalizeUsername, phone numbers as digits with country code and without
// leading zeros, ids unchanged.
func Normalize(t Type, value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return "", errEmpty
	}
	if len(value) > 512 {
		return "", errLong
	}
	switch t {
	case Email:
		return identity.NormalizeEmail(value)
	case Phone:
		return phone(value)
	case NetworkUsername, CodehostUsername, MicroblogUsername, CodehostAccount, NetworkAccount, MicroblogAccount:
		if key := identity.NormalizeUsername(value); key != "" {
			return key, nil
		}
		return "", errUsername
	case ProfileID, MicroblogUserID:
		return value, nil
	case UserID:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return "", errUserID
		}
		return strconv.FormatInt(n, 10), nil
	}
	return "", errType
}

func phone(value string) (string, error) {
	digits := make([]byte, 0, 16)
	for i := range len(value) {
		switch c := value[i]; {
		case '0' <= c && c <= '9':
			digits = append(digits, c)
		case strings.IndexByte(" +-.()/\t", c) >= 0:
		default:
			return "", errPhone
		}
	}
	s := strings.TrimLeft(string(digits), "0")
	if len(s) < 7 || len(s) > 15 {
		return "", errPhone
	}
	return s, nil
}

// PhoneForms returns the normalized forms of a phone number: with and without the country code of North America. It
// returns none for a malformed number.
func PhoneForms(value string) []string {
	s, err := phone(value)
	switch {
	case err != nil:
		return nil
	case len(s) == 10:
		return []string{s, "1" + s}
	case len(s) == 11 && s[0] == '1':
		return []string{s, s[1:]}
	}
	return []string{s}
}

// Sum returns the SHA-256 of a normalized form, which a request may give instead.
func Sum(standard string) [sha256.Size]byte { return sha256.Sum256([]byte(standard)) }
