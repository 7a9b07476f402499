package suppress

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"

	"muster/schemas/identity"
)

// Type says what an identifier is (records.md, kind erasure).
type Type string

// Types that a request may name.
const (
	Email             Type = "email"
	Phone             Type = "phone"
	NetworkUsername   Type = "network_username"
	CodehostUsername  Type = "codehost_username"
	MicroblogUsername Type = "microblog_username"
	ProfileID         Type = "profile_id" // of the professional network
	UserID            Type = "user_id"    // of the code host
)

// Types that follow from others and are never asked for.
const (
	// MicroblogUserID is the id of an account of the microblog.
	MicroblogUserID Type = "microblog_user_id"
	// CodehostAccount, NetworkAccount and MicroblogAccount are usernames that an
	// erased account bore: they suppress what others state of the account, and no
	// record of whoever bears the name next.
	CodehostAccount  Type = "codehost_account"
	NetworkAccount   Type = "network_account"
	MicroblogAccount Type = "microblog_account"
)

// bit tells the types apart that records are compared by; all others share one.
func (t Type) bit() uint64 {
	switch t {
	case Email:
		return 1 << 0
	case Phone:
		return 1 << 1
	case NetworkUsername:
		return 1 << 2
	case CodehostUsername:
		return 1 << 3
	case MicroblogUsername:
		return 1 << 4
	case ProfileID:
		return 1 << 5
	case UserID:
		return 1 << 6
	case MicroblogUserID:
		return 1 << 7
	case NetworkAccount:
		return 1 << 8
	case CodehostAccount:
		return 1 << 9
	case MicroblogAccount:
		return 1 << 10
	}
	return 1 << 11
}

// Types returns the types that a request may name, in a fixed order.
func Types() []Type {
	return []Type{Email, Phone, NetworkUsername, CodehostUsername, MicroblogUsername, ProfileID, UserID}
}

// TypeNames is Types as a list for people.
func TypeNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// Errors of Standard. Their texts follow the identifier's name and do not repeat
// it.
var (
	errType     = errors.New("is of an unknown type: use one of " + TypeNames())
	errEmpty    = errors.New("is empty")
	errUsername = errors.New("is not a username")
	errUserID   = errors.New("is not a user id: a number, 0 or more")
	errPhone    = errors.New("is not a telephone number of 7 to 15 digits")
	errLong     = errors.New("is longer than 512 bytes")
)

// Standard returns the form of an identifier that is hashed: an e-mail address
// and a username as they are compared (identity.EmailKey, identity.UsernameKey), a
// telephone number as its digits alone, with the country's and without leading
// zeros, an id as it is.
func Standard(t Type, value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return "", errEmpty
	}
	if len(value) > 512 {
		return "", errLong
	}
	switch t {
	case Email:
		return identity.EmailKey(value)
	case Phone:
		return phone(value)
	case NetworkUsername, CodehostUsername, MicroblogUsername, CodehostAccount, NetworkAccount, MicroblogAccount:
		if key := identity.UsernameKey(value); key != "" {
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

// phoneForms are the standard forms that a telephone number of a record may have
// been given in: with and without the country code of North America.
func phoneForms(value string) []string {
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

// Sum is the SHA-256 of a standard form: what a request may give instead of it.
func Sum(standard string) [sha256.Size]byte { return sha256.Sum256([]byte(standard)) }
