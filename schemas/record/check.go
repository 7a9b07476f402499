package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// date validates an optional date. The path is formatted only for an invalid one.
func date(d PartialDate, format string, args ...any) *ValidationError {
	if d == "" {
		return nil
	}
	if _, err := ParseVersion(string(d)); err != nil {
		return &ValidationError{Path: fmt.Sprintf(format, args...), Code: CodeBadDate, Reason: err.Error()}
	}
	return nil
}

// required checks that a string is not empty.
func required(field, value string) *ValidationError {
	if strings.TrimSpace(value) == "" {
		return &ValidationError{Path: field, Code: CodeMissingField, Reason: "is missing"}
	}
	return nil
}

// oneOf checks an optional string against its allowed values.
func oneOf(field, value string, allowed ...string) *ValidationError {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return &ValidationError{Path: field, Code: CodeBadValue, Reason: "must be one of " + strings.Join(allowed, ", ")}
}

// first returns the first error.
func first(defects ...*ValidationError) *ValidationError {
	for _, d := range defects {
		if d != nil {
			return d
		}
	}
	return nil
}

func (e *Erasure) head() (string, bool) { return e.RequestedAt, e.Deleted }

// key is a hash of the identifiers, so that the key does not contain them. Withdrawals are not validated
// elsewhere, so their identity is validated here.
func (e *Erasure) key() (string, *ValidationError) {
	if len(e.Identifiers) == 0 {
		return "", &ValidationError{Path: "identifiers", Code: CodeMissingIdentity, Reason: "is missing or empty"}
	}
	if len(e.Identifiers) > MaxIdentifiers {
		return "", &ValidationError{
			Path: "identifiers",
			Code: CodeBadIdentity,
			Reason: fmt.Sprintf("has more than %d entries",
				MaxIdentifiers),
		}
	}
	names := make([]string, len(e.Identifiers))
	for i := range e.Identifiers {
		id := &e.Identifiers[i]
		if bad := id.check(); bad != nil {
			return "", bad.below(KindErasure, entryPath("identifiers", i))
		}
		names[i] = id.Type + "\x00" + strings.TrimSpace(string(id.Value)) + "\x00" + strings.ToLower(id.SHA256)
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x01")))
	return hex.EncodeToString(sum[:16]), nil
}

func (i *ErasureIdentifier) check() *ValidationError {
	switch value := strings.TrimSpace(string(i.Value)); {
	case i.Type == "":
		return &ValidationError{Path: "type", Code: CodeMissingIdentity, Reason: "is missing"}
	case !slices.Contains(ErasureTypes(), i.Type):
		return &ValidationError{
			Path: "type",
			Code: CodeBadIdentity,
			Reason: "must be one of " + strings.Join(ErasureTypes(),
				", "),
		}
	case value == "" && i.SHA256 == "":
		return &ValidationError{Path: "value", Code: CodeMissingIdentity, Reason: "is missing, and so is sha256"}
	case value != "" && i.SHA256 != "":
		return &ValidationError{
			Path:   "sha256",
			Code:   CodeBadIdentity,
			Reason: "is set in addition to value: set only one of them",
		}
	case i.SHA256 != "":
		if raw, err := hex.DecodeString(i.SHA256); err != nil || len(raw) != sha256.Size {
			return &ValidationError{
				Path:   "sha256",
				Code:   CodeBadIdentity,
				Reason: "is not a SHA-256 in hexadecimal: 64 digits",
			}
		}
		return nil
	}
	return identityString("value", string(i.Value))
}

func (e *Erasure) check() *ValidationError {
	return oneOf("scope", e.Scope, "all", "codehost", "network")
}
