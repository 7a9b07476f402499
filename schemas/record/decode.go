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
	// MaxSize is the largest record in bytes.
	MaxSize = 1 << 20
	// MaxDepth is how deep lists and objects may be nested, the record itself
	// included.
	MaxDepth = 64
	// maxIdentity is the longest identity in bytes.
	maxIdentity = 512
)

// DeletedHash is the content hash of a withdrawal, the greatest there is.
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
	// VersionText is the version as the record gives it: "2026-03" and
	// "2026-03-01T00:00:00Z" are the same Version.
	VersionText string
	// Revision is the mapping revision: of equal versions the greater one wins, before
	// deletion and content hash decide. It travels in a header of the record's message
	// (event.HeaderRevision), so Decode leaves it 0.
	Revision uint32
	// Deleted marks a withdrawal: there is only identity and version.
	Deleted bool
	// Hash is of the content without the version field, and without the lists
	// that Split takes out. It does not depend on white space, on the order of
	// members or on how strings are escaped; the spelling of numbers counts, but for the
	// integers of known fields.
	// Equal content has equal hashes, in every process and release. That of a withdrawal is the
	// greatest there is: of equal versions and revisions it counts.
	Hash uint64
	// JSON is the record without insignificant white space, the integers of known fields
	// without a fraction or an exponent and their dates as RFC 3339 has them, as it is published. Decoding it gives the same record. A withdrawal has nothing in
	// it but identity, version and "deleted".
	JSON []byte
	// Body is a *NetworkPerson, *NetworkCompany, *CodehostPerson,
	// *CodehostRepo, *CodehostCommit, *MicroblogPerson, *AccountLink or
	// *CodehostList.
	Body any
}

// Decode reads one JSON object as a record of the kind. The error is an
// [*Invalid], which tells all defects that can be found. The record's JSON may share memory with raw, which must not be
// changed afterwards.
func Decode(kind Kind, raw []byte) (*Record, error) {
	c, ok := codecOf(kind)
	if !ok {
		return nil, &Invalid{Kind: kind, Code: CodeUnknownKind, Reason: "is of an unknown kind"}
	}
	r, bad := c.decode(raw)
	if bad != nil {
		bad.Kind, bad.Also = kind, c.findOthers(raw, bad)
		return nil, bad
	}
	return r, nil
}

func (c codec) decode(raw []byte) (*Record, *Invalid) {
	if len(raw) > MaxSize {
		return nil, &Invalid{Code: CodeTooLarge, Reason: "is larger than 1 MiB"}
	}
	b, content, bad := c.read(raw)
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
		return nil, &Invalid{Path: c.version, Code: CodeMissingVersion, Reason: "is missing"}
	}
	r.VersionText = version
	var err error
	if r.Version, err = ParseVersion(version); err != nil {
		return nil, &Invalid{Path: c.version, Code: CodeBadDate, Reason: err.Error()}
	}
	if deleted {
		return c.withdrawal(r)
	}
	if bad := b.check(); bad != nil {
		return nil, bad
	}
	if content.absent { // after the checks, which name places by their index
		dropAbsent(b)
	}
	return r, nil
}

// read decodes raw, compacted first if need be, so that the body is the same
// whether it comes from a crawler's line or from what ingest published.
func (c codec) read(raw []byte) (body, content, *Invalid) {
	for {
		if likelySpaced(raw) {
			value := jsontext.Value(bytes.Clone(raw))
			if err := value.Compact(); err == nil { // else the decoder says what is wrong
				raw = value
			}
		}
		if b, found, ok := c.readFast(raw); ok {
			return b, found, nil
		}
		b, found, bad := c.readSlow(raw)
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

// readSlow decodes raw whatever it is. What it found may have white space in it
// and must be compacted and read again then, or integers that must be rewritten first.
func (c codec) readSlow(raw []byte) (body, content, *Invalid) {
	b := c.new()
	var integers integer.Rewriter
	if err := json.Unmarshal(raw, b, json.WithUnmarshalers(json.JoinUnmarshalers(integers.Unmarshalers(), dates(&integers)))); err != nil {
		return nil, content{}, invalidOf(c.kind, raw, err)
	}
	if jsontext.Value(raw).Kind() != '{' { // null decodes to anything
		return nil, content{}, &Invalid{Code: CodeWrongType, Reason: "is null where an object is needed"}
	}
	if integers.Found() {
		return b, content{rewritten: integers.Rewrite(raw)}, nil
	}
	found, bad := scan(raw, c.hashed)
	if bad != nil {
		return nil, content{}, bad
	}
	return b, found, nil
}

// dates has partial dates read in any form of [NormalizeDate], and notes how they are written.
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

// withdrawal cuts a withdrawn record down to identity and version: what is to
// be gone must not travel on.
func (c codec) withdrawal(r *Record) (*Record, *Invalid) {
	keep := func(m member) bool {
		name := string(m.name)
		return name == "deleted" || name == c.version || slices.Contains(strings.Fields(c.identity), name) ||
			c.kind == KindErasure && (name == "requested_by" || name == "note") // who withdraws, for the log
	}
	r.JSON = filterMembers(r.JSON, keep)
	b, content, bad := c.read(r.JSON)
	if bad != nil {
		return nil, bad
	}
	if content.absent {
		dropAbsent(b)
	}
	r.Body, r.Hash = b, content.hash
	if c.kind != KindErasure {
		r.Hash = DeletedHash // of equal versions the greater hash counts, and a commit is withdrawn with the only version that it has
	}
	return r, nil
}

// AsInvalid returns the [*Invalid] in err's chain.
func AsInvalid(err error) (*Invalid, bool) {
	var bad *Invalid
	ok := errors.As(err, &bad)
	return bad, ok
}

// identityString checks one identity field that is a string.
func identityString(field, value string) *Invalid {
	switch {
	case strings.TrimSpace(value) == "":
		return &Invalid{Path: field, Code: CodeMissingIdentity, Reason: "is missing"}
	case len(value) > maxIdentity:
		return &Invalid{Path: field, Code: CodeBadIdentity, Reason: "is longer than 512 bytes"}
	case strings.ContainsFunc(value, unicode.IsControl):
		return &Invalid{Path: field, Code: CodeBadIdentity, Reason: "holds a control character"}
	}
	return nil
}

// identityNumber checks one identity field that is an integer.
func identityNumber(field string, value *int64) *Invalid {
	switch {
	case value == nil:
		return &Invalid{Path: field, Code: CodeMissingIdentity, Reason: "is missing"}
	case *value < 0:
		return &Invalid{Path: field, Code: CodeBadIdentity, Reason: "is negative"}
	}
	return nil
}
