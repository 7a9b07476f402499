package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/integer"
)

// Erasure requests the erasure of the people with the identifiers (records.md, kind erasure). With Deleted it
// withdraws an earlier request.
type Erasure struct {
	Identifiers []ErasureIdentifier `json:"identifiers"`
	RequestedAt string              `json:"requested_at"`
	Deleted     bool                `json:"deleted,omitzero"`

	// Scope is "all" (the default), or the webset ("codehost", "network") whose records are erased.
	Scope string `json:"scope,omitempty"`
	// RequestedBy names the requester, Note the reference of the request. Both are stored.
	RequestedBy string `json:"requested_by,omitempty"`
	Note        string `json:"note,omitempty"`
	// Urgent requests deletion immediately instead of within a day.
	Urgent bool `json:"urgent,omitzero"`

	Unknown jsontext.Value `json:",embed"`
}

// ErasureIdentifier is an identifier, given either by value or by the SHA-256 of its normalized form in
// hexadecimal.
type ErasureIdentifier struct {
	Type    string         `json:"type"`
	Value   Scalar         `json:"value,omitempty"`
	SHA256  string         `json:"sha256,omitempty"`
	Unknown jsontext.Value `json:",embed"`
}

// Scalar is a string that may be given as a number.
type Scalar string

// UnmarshalJSONFrom reads a string or a number. It implements json.UnmarshalerFrom.
func (s *Scalar) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '0' {
		v, err := d.ReadValue()
		*s = Scalar(v)
		if n, ok := integer.Parse(v); ok { // 42.0 is the user id 42.
			*s = Scalar(strconv.FormatInt(n, 10))
		}
		return err
	}
	return json.UnmarshalDecode(d, (*string)(s))
}

// MaxIdentifiers is the maximum number of identifiers per erasure.
const MaxIdentifiers = 1000

// ErasureTypes returns the types of identifiers in erasures.
func ErasureTypes() []string {
	return []string{"email", "phone", "network_username", "codehost_username", "microblog_username", "profile_id",
		"user_id"}
}

func (e *Erasure) head() (string, bool) { return e.RequestedAt, e.Deleted }

// key is a hash of the identifiers, so that the key does not contain them. Withdrawals are not validated
// elsewhere, so their identity is validated here.
func (e *Erasure) key() (string, *ValidationError) {
	if len(e.Identifiers) == 0 {
		return "", &ValidationError{Path: "identifiers", Code: CodeMissingIdentity, Reason: "is missing or empty"}
	}
	if len(e.Identifiers) > MaxIdentifiers {
		return "", &ValidationError{Path: "identifiers", Code: CodeBadIdentity,
			Reason: fmt.Sprintf("has more than %d entries",
				MaxIdentifiers)}
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
		return &ValidationError{Path: "type", Code: CodeBadIdentity, Reason: "must be one of " + strings.Join(ErasureTypes(),
			", ")}
	case value == "" && i.SHA256 == "":
		return &ValidationError{Path: "value", Code: CodeMissingIdentity, Reason: "is missing, and so is sha256"}
	case value != "" && i.SHA256 != "":
		return &ValidationError{Path: "sha256", Code: CodeBadIdentity, Reason: "stands beside a value: give one of the two"}
	case i.SHA256 != "":
		if raw, err := hex.DecodeString(i.SHA256); err != nil || len(raw) != sha256.Size {
			return &ValidationError{Path: "sha256", Code: CodeBadIdentity, Reason: "is not a SHA-256 in hexadecimal: 64 digits"}
		}
		return nil
	}
	return identityString("value", string(i.Value))
}

func (e *Erasure) check() *ValidationError {
	return oneOf("scope", e.Scope, "all", "codehost", "network")
}
