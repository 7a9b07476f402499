package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/jsonname"
)

// ValidationError is the reason why a record was rejected (records.md, rule 4). Its text names
// fields, never their values, so it may be logged.
type ValidationError struct {
	Kind Kind
	// Path is the location in the record, as in "experience[3].start". It is empty for the record as a whole.
	Path string
	// Code is stable, for counting and filtering.
	Code string
	// Reason is a clause that follows the path.
	Reason string
	// Also has the record's other validation errors, as far as they can be found, at most 9.
	Also []FieldError
}

// Codes of validation errors.
const (
	CodeUnknownKind     = "unknown_kind"     // unknown kind of record
	CodeTooLarge        = "too_large"        // more than MaxSize bytes
	CodeTooDeep         = "too_deep"         // nested deeper than MaxDepth
	CodeSyntax          = "syntax"           // not JSON
	CodeDuplicateKey    = "duplicate_key"    // an object has a field twice
	CodeBadUTF8         = "bad_utf8"         // bytes that are not UTF-8, or an unpaired surrogate
	CodeNULByte         = "nul_byte"         // a NUL, raw or escaped
	CodeWrongType       = "wrong_type"       // a known field of another JSON type
	CodeOutOfRange      = "out_of_range"     // a number outside the field's range
	CodeMissingIdentity = "missing_identity" // an identity field is absent, null or empty
	CodeMissingVersion  = "missing_version"  // the version field is absent, null or empty
	CodeMissingField    = "missing_field"    // another required field is absent, null or empty
	CodeBadIdentity     = "bad_identity"     // an invalid value of an identity field
	CodeBadDate         = "bad_date"         // not a year, month, day or timestamp
	CodeBadValue        = "bad_value"        // not one of the values allowed
	CodeMapping         = "mapping"          // a mapping failed on a source object
	CodeIncompleteList  = "incomplete_list"  // a list marked complete has unreadable entries
)

const reasonTooDeep = "is nested deeper than 64 levels"

// Error returns kind, path, reason and code, and those of the other validation errors.
func (e *ValidationError) Error() string {
	var b strings.Builder
	if e.Path == "" {
		fmt.Fprintf(&b, "%s record %s (%s)", e.Kind, e.Reason, e.Code)
	} else {
		fmt.Fprintf(&b, "%s record: %s %s (%s)", e.Kind, e.Path, e.Reason, e.Code)
	}
	for _, d := range e.Also {
		fmt.Fprintf(&b, "; %s %s (%s)", d.Path, d.Reason, d.Code)
	}
	return b.String()
}

// below returns the error as one of a value at path in a record of the kind.
func (e *ValidationError) below(kind Kind, path string) *ValidationError {
	moved := *e
	moved.Kind, moved.Path = kind, pathBelow(path, e.Path)
	moved.Also = slices.Clone(e.Also)
	for i := range moved.Also {
		moved.Also[i].Path = pathBelow(path, moved.Also[i].Path)
	}
	return &moved
}

func pathBelow(path, inner string) string {
	switch {
	case inner == "":
		return path
	case strings.HasPrefix(inner, "["):
		return path + inner
	}
	return path + "." + inner
}

// invalidOf converts an error of the JSON decoder.
func invalidOf(kind Kind, raw []byte, err error) *ValidationError {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		bad := &ValidationError{Kind: kind, Path: pathOf(semantic.JSONPointer), Code: CodeWrongType}
		bad.Reason = "is " + jsonname.OfKind(semantic.JSONKind) + " where " + jsonname.OfType(semantic.GoType) +
			" is needed"
		if semantic.JSONKind == '0' {
			if isIntegral(semantic.GoType) && !isInteger(semantic.JSONValue) {
				bad.Reason = "is not an integer"
			} else if errors.Is(err, strconv.ErrRange) || isIntegral(semantic.GoType) {
				bad.Code, bad.Reason = CodeOutOfRange, "is a number out of range"
			}
		}
		return bad
	}
	bad := &ValidationError{Kind: kind, Code: CodeSyntax, Reason: "is not JSON"}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		bad.Path = pathOf(syntactic.JSONPointer)
		bad.Reason = fmt.Sprintf("is not JSON: %s, at byte %d", syntaxReason(syntactic.Err), syntactic.ByteOffset)
	}
	switch {
	case syntactic != nil && passesMaxDepth(syntactic.JSONPointer):
		bad.Code, bad.Reason = CodeTooDeep, reasonTooDeep
	case errors.Is(err, jsontext.ErrDuplicateName):
		bad.Code, bad.Reason = CodeDuplicateKey, "occurs twice in its object"
	case len(bytes.TrimSpace(raw)) == 0:
		bad.Reason = "is empty"
	case bytes.IndexByte(raw, 0) >= 0:
		bad.Code, bad.Reason = CodeNULByte, "contains a NUL byte"
	case !utf8.Valid(raw):
		bad.Code, bad.Reason = CodeBadUTF8, "is not valid UTF-8"
	case strings.Contains(err.Error(), "surrogate pair"):
		bad.Code, bad.Reason = CodeBadUTF8, "contains an unpaired surrogate"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		bad.Reason = fmt.Sprintf("ends too early, at byte %d", len(raw))
	}
	return bad
}

// InvalidJSON converts an error from decoding raw, an object of the kind.
func InvalidJSON(kind Kind, raw []byte, err error) *ValidationError { return invalidOf(kind, raw, err) }

// syntaxReason returns the decoder's reason without text of the record, which may contain personal data.
func syntaxReason(err error) string {
	if err == nil {
		return "unexpected input"
	}
	text := strings.TrimPrefix(err.Error(), "jsontext: ")
	if before, after, ok := strings.Cut(text, " in string"); ok && strings.Contains(before, "escape") {
		return "invalid escape sequence in string" + after
	}
	return text
}

// maxPath is the maximum length of ValidationError.Path: unknown field names can have any length.
const maxPath = 512

// pathOf converts a JSON Pointer (RFC 6901) to the notation of ValidationError.Path, truncated below MaxDepth.
func pathOf(pointer jsontext.Pointer) string {
	var b strings.Builder
	depth := 0
	for token := range pointer.Tokens() {
		if depth == MaxDepth || b.Len()+len(token) > maxPath {
			break
		}
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && depth > 0 {
			b.WriteString("[" + token + "]")
		} else {
			if depth > 0 {
				b.WriteByte('.')
			}
			b.WriteString(strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return utf8.RuneError
				}
				return r
			}, token))
		}
		depth++
	}
	return b.String()
}

// passesMaxDepth reports whether the pointer is deeper than MaxDepth.
func passesMaxDepth(pointer jsontext.Pointer) bool {
	return strings.Count(string(pointer), "/") > MaxDepth
}

func isIntegral(t reflect.Type) bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && t.Kind() == reflect.Int64
}

func isInteger(number jsontext.Value) bool {
	return len(number) > 0 && !bytes.ContainsAny(number, ".eE")
}
