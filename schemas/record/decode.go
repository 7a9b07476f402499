package record

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/integer"
)

// Limits of a record (records.md, rule 4).
const (
	// MaxSize is the maximum size of a record in bytes.
	MaxSize = 1 << 20
	// MaxDepth is the maximum nesting depth of arrays and objects, including the record itself.
	MaxDepth = 64
	// maxIdentity is the maximum length of an identity in bytes.
	maxIdentity = 512
)

// DeletedHash is the content hash of a deletion, the greatest possible one.
const DeletedHash = math.MaxUint64

// Record is one decoded record.
type Record struct {
	Kind Kind
	// Key is the identity as Kafka key: "p_12" of a network-person, "42" of a
	// codehost-person, "42/7" of a repository, "42/<sha>" of a commit,
	// "42/repos" of a list, and of a link the two accounts in order and the
	// source, "codehost:a|network:b|source".
	Key     string
	Version Version
	// VersionText is the version as given: "2026-03" and "2026-03-01T00:00:00Z" are the same Version.
	VersionText string
	// Revision is the mapping revision: if versions tie, the greater revision wins, before deletion and
	// content hash. It is sent in a message header (event.HeaderRevision), so Decode leaves it 0.
	Revision uint32
	// Deleted marks a deletion, which has only identity and version.
	Deleted bool
	// Hash is the content hash, without the version field and the lists that SplitEmbedded extracts. It does not depend
	// on white space, field order or string escapes; it depends on the spelling of numbers, except for integers of
	// known fields. Equal content has equal hashes in every process and release. A deletion has the greatest hash, so
	// that it wins among equal versions and revisions.
	Hash uint64
	// JSON is the record as published: without insignificant white space, integers of known fields without
	// fraction or exponent, and dates in RFC 3339 form. Decoding it gives the same record. A deletion
	// contains identity, version and "deleted" only.
	JSON []byte
	// Body is a *NetworkPerson, *NetworkCompany, *CodehostPerson,
	// *CodehostRepo, *CodehostCommit, *MicroblogPerson, *AccountLink or
	// *CodehostList.
	Body any
}

// Decode decodes one JSON object as a record of the kind. The error is a [*ValidationError] with all validation
// errors that can be found. The record's JSON may share memory with raw, which must not be modified
// afterwards.
func Decode(kind Kind, raw []byte) (*Record, error) {
	c, ok := codecOf(kind)
	if !ok {
		return nil, &ValidationError{Kind: kind, Code: CodeUnknownKind, Reason: "is of an unknown kind"}
	}
	r, bad := c.decode(raw)
	if bad != nil {
		bad.Kind, bad.Also = kind, c.findOthers(raw, bad)
		return nil, bad
	}
	return r, nil
}

func (c codec) decode(raw []byte) (*Record, *ValidationError) {
	if len(raw) > MaxSize {
		return nil, &ValidationError{Code: CodeTooLarge, Reason: "is larger than 1 MiB"}
	}
	b, content, bad := c.decodeBody(raw)
	if bad != nil {
		return nil, bad
	}
	version, deleted := b.head()
	if text, err := NormalizeDate(version); err == nil && text != version {
		return c.decode(replaceMember(content.compact, c.version, text))
	}
	r := &Record{Kind: c.kind, Deleted: deleted, Hash: content.hash, JSON: content.compact, Body: b}
	if r.Key, bad = b.key(); bad != nil {
		return nil, bad
	}
	if version == "" {
		return nil, &ValidationError{Path: c.version, Code: CodeMissingVersion, Reason: "is missing"}
	}
	r.VersionText = version
	var err error
	if r.Version, err = ParseVersion(version); err != nil {
		return nil, &ValidationError{Path: c.version, Code: CodeBadDate, Reason: err.Error()}
	}
	if deleted {
		return c.deletion(r)
	}
	if bad := b.check(); bad != nil {
		return nil, bad
	}
	if content.absent { // After the checks, which report array indices.
		dropAbsent(b)
	}
	return r, nil
}

// decodeBody decodes raw, compacted first if necessary, so that the body is the same for a crawler's line and for
// what ingest published.
func (c codec) decodeBody(raw []byte) (body, content, *ValidationError) {
	for {
		if likelySpaced(raw) {
			value := jsontext.Value(bytes.Clone(raw))
			if err := value.Compact(); err == nil { // Otherwise the decoder reports the error.
				raw = value
			}
		}
		b, found, bad := c.decodeOnce(raw)
		switch {
		case bad != nil:
			return b, found, bad
		case found.rewritten != nil:
			raw = found.rewritten
			continue
		case !found.spaces:
			return b, found, nil
		}
		value := jsontext.Value(bytes.Clone(found.compact))
		if err := value.Compact(); err != nil {
			return nil, content{}, invalidOf(c.kind, raw, err)
		}
		raw = value
	}
}

// decodeOnce decodes any input. If it contains white space, or integers or dates to rewrite, the result must be
// normalized and decoded again.
func (c codec) decodeOnce(raw []byte) (body, content, *ValidationError) {
	b := c.new()
	if json.Unmarshal(raw, b) != nil {
		// Invalid, or not canonical. The unmarshalers that distinguish them take three times as long.
		b = c.new()
		var integers integer.Rewriter
		if err := json.Unmarshal(raw, b, json.WithUnmarshalers(json.JoinUnmarshalers(integers.Unmarshalers(),
			dates(&integers)))); err != nil {
			return nil, content{}, invalidOf(c.kind, raw, err)
		}
		if integers.Found() {
			return b, content{rewritten: integers.Rewrite(raw)}, nil
		}
	}
	if jsontext.Value(raw).Kind() != '{' { // null decodes to any type.
		return nil, content{}, &ValidationError{Code: CodeWrongType, Reason: "is null where an object is needed"}
	}
	found, bad := scan(raw, c.hashed)
	if bad != nil {
		return nil, content{}, bad
	}
	return b, found, nil
}

// dates returns unmarshalers that accept dates in any form of [NormalizeDate] and record their spelling.
func dates(r *integer.Rewriter) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *PartialDate) error {
		if d.PeekKind() != '"' {
			return errors.ErrUnsupported
		}
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		given, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return err
		}
		*v = PartialDate(given)
		if text, err := NormalizeDate(string(given)); err == nil && text != string(given) {
			r.Replace(d, len(raw), []byte(`"`+text+`"`))
		}
		return nil
	})
}

// deletion reduces a deleted record to identity and version: deleted content must not be published.
func (c codec) deletion(r *Record) (*Record, *ValidationError) {
	keep := func(m member) bool {
		name := string(m.name)
		return name == "deleted" || name == c.version || slices.Contains(strings.Fields(c.identity), name) ||
			c.kind == KindErasure && (name == "requested_by" || name == "note") // logged
	}
	r.JSON = filterMembers(r.JSON, keep)
	b, content, bad := c.decodeBody(r.JSON)
	if bad != nil {
		return nil, bad
	}
	if content.absent {
		dropAbsent(b)
	}
	r.Body, r.Hash = b, content.hash
	if c.kind != KindErasure {
		r.Hash = DeletedHash // The greater hash wins among equal versions, and a commit has one version only.
	}
	return r, nil
}

// AsValidationError returns the [*ValidationError] in err's chain.
func AsValidationError(err error) (*ValidationError, bool) {
	var bad *ValidationError
	ok := errors.As(err, &bad)
	return bad, ok
}

// identityString validates an identity field that is a string.
func identityString(field, value string) *ValidationError {
	switch {
	case strings.TrimSpace(value) == "":
		return &ValidationError{Path: field, Code: CodeMissingIdentity, Reason: "is missing"}
	case len(value) > maxIdentity:
		return &ValidationError{Path: field, Code: CodeBadIdentity, Reason: "is longer than 512 bytes"}
	case strings.ContainsFunc(value, unicode.IsControl):
		return &ValidationError{Path: field, Code: CodeBadIdentity, Reason: "contains a control character"}
	}
	return nil
}

// identityNumber validates an identity field that is an integer.
func identityNumber(field string, value *int64) *ValidationError {
	switch {
	case value == nil:
		return &ValidationError{Path: field, Code: CodeMissingIdentity, Reason: "is missing"}
	case *value < 0:
		return &ValidationError{Path: field, Code: CodeBadIdentity, Reason: "is negative"}
	}
	return nil
}
