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

// typeCount is how many types there are that records are compared by.
const typeCount = 16

// index numbers the types that records are compared by; all others share typeCount.
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

// indexed are the types in the order of their index.
func indexed() [typeCount]Type {
	return [typeCount]Type{
		Email, Phone, NetworkUsername, CodehostUsername, MicroblogUsername, ProfileID, UserID, MicroblogUserID,
		NetworkAccount, CodehostAccount, MicroblogAccount, DropPhone, DropNDZ, DropNameVIN, DropMAID, DropCTVID,
	}
}

// bit is a type's place in a word of types.
func (t Type) bit() uint64 { return 1 << t.index() }

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
