package record

import (
	"strings"

	"muster/schemas/identity"
)

func (p *MicroblogPerson) head() (string, bool) { return p.LastUpdated, p.Deleted }

func (p *MicroblogPerson) key() (string, *ValidationError) {
	return strings.Clone(p.UserID), identityString("user_id", p.UserID)
}

func (p *MicroblogPerson) check() *ValidationError {
	return first(
		date(p.CreatedAt, "created_at"),
		oneOf("account_type", p.AccountType, "personal", "business", "government"),
	)
}

func (l *AccountLink) head() (string, bool) { return l.ObservedAt, l.Deleted }

// key does not depend on the order of the two accounts, nor on the spelling of usernames.
func (l *AccountLink) key() (string, *ValidationError) {
	a, bad := accountKey("a", l.A)
	if bad != nil {
		return "", bad
	}
	b, bad := accountKey("b", l.B)
	if bad != nil {
		return "", bad
	}
	if bad := identityString("source", l.Source); bad != nil {
		return "", bad
	}
	switch {
	case a == b:
		return "", &ValidationError{Path: "b", Code: CodeBadIdentity, Reason: "is the same account as a"}
	case a > b:
		a, b = b, a
	}
	return a + "|" + b + "|" + l.Source, nil
}

func accountKey(field string, account Account) (string, *ValidationError) {
	switch {
	case account.Platform == "":
		return "", &ValidationError{Path: field + ".platform", Code: CodeMissingIdentity, Reason: "is missing"}
	case !identity.KnownPlatform(account.Platform):
		return "", &ValidationError{
			Path: field + ".platform", Code: CodeBadIdentity,
			Reason: "must be one of " + strings.Join(identity.PlatformNames(), ", "),
		}
	case strings.TrimSpace(account.Username) == "":
		return "", &ValidationError{Path: field + ".username", Code: CodeMissingIdentity, Reason: "is missing"}
	}
	name := identity.NormalizeUsername(account.Username)
	if name == "" {
		return "", &ValidationError{Path: field + ".username", Code: CodeBadIdentity, Reason: "is not a username"}
	}
	return account.Platform + ":" + name, nil
}

func (l *AccountLink) check() *ValidationError {
	if c := l.Confidence; c != nil && (*c < 0 || *c > 1) {
		return &ValidationError{Path: "confidence", Code: CodeOutOfRange, Reason: "must be between 0 and 1"}
	}
	return nil
}
