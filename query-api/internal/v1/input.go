package v1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/suggest"
	"muster/query-api/internal/api"
	"muster/schemas/event"
	"muster/schemas/integer"
	"muster/schemas/jsonname"
)

// maxQuoted is the maximum length of input repeated in an error, in bytes.
const maxQuoted = 64

// checkBody decodes a body strictly: one JSON value in valid UTF-8, without duplicate or unknown fields or wrong types.
// into is a pointer to a generated request type. It returns the body, with integers written as 10.0 or 1e1 rewritten to
// plain integers. The error is an [*invalid].
func checkBody(body []byte, into any) ([]byte, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, invalidf("the request body is empty: send a JSON object")
	}
	if !utf8.Valid(body) {
		return nil, invalidf("the request body is not valid UTF-8 (byte %d): encode it as UTF-8", badUTF8(body))
	}
	if bytes.HasPrefix(body, []byte("\ufeff")) {
		return nil, invalidf("the request body begins with a byte-order mark: encode it as UTF-8 without one")
	}
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	if errors.As(err, &semantic) && semantic.JSONKind == '0' {
		var integers integer.Rewriter
		if err = json.Unmarshal(body, into, json.RejectUnknownMembers(true), integers.Option()); err == nil {
			return integers.Rewrite(body), nil
		}
	}
	if err == nil {
		return body, nil
	}
	if errors.As(err, &semantic) {
		return nil, semanticProblem(semantic, "the request body")
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return nil, invalidf("the field %s appears twice in the request body: send it once",
				quote(syntactic.JSONPointer.LastToken()))
		case isTooDeep(syntactic):
			return nil, invalidf("the request body is nested too deeply: at most %d levels of objects and arrays are "+
				"read", maxDepth)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, invalidf("the request body is not valid JSON: it ends too early, at byte %d",
				syntactic.ByteOffset)
		}
		return nil, invalidf("the request body is not valid JSON: syntax error at byte %d", syntactic.ByteOffset)
	}
	return nil, invalidf("the request body is not valid JSON")
}

// maxDepth is the maximum nesting that package jsontext reads.
const maxDepth = 10_000

// isTooDeep reports whether JSON is nested deeper than maxDepth. Package jsontext does not export this error.
func isTooDeep(err *jsontext.SyntacticError) bool {
	return err.Err != nil && err.Err.Error() == "exceeded max depth"
}

// semanticProblem returns the error of a value that has the wrong type or an unknown field. what names the value.
func semanticProblem(err *json.SemanticError, what string) *invalid {
	if errors.Is(err, json.ErrUnknownName) {
		name := err.JSONPointer.LastToken()
		if err.GoType == reflect.TypeFor[api.SearchRequest]() {
			if hint := unsupportedFieldHint(name); hint != "" {
				return invalidf("unknown field %s: %s", quote(name), hint)
			}
		}
		return unknown("field", name, fieldNames(err.GoType))
	}
	if isTooLarge(err) {
		return invalidf("%s is too large a number", pointerPath(err.JSONPointer))
	}
	want := jsonname.OfType(err.GoType)
	got := jsonname.OfKind(err.JSONKind)
	if err.JSONPointer == "" {
		return invalidf("%s must be %s, not %s", what, want, got)
	}
	return invalidf("%s must be %s, not %s", pointerPath(err.JSONPointer), want, got)
}

// isTooLarge reports whether a number has the right type but is out of its range.
func isTooLarge(err *json.SemanticError) bool {
	if err.JSONKind != '0' || !slices.Contains([]string{"a number", "an integer"}, jsonname.OfType(err.GoType)) {
		return false
	}
	f, bad := strconv.ParseFloat(string(err.JSONValue), 64)
	return errors.Is(bad, strconv.ErrRange) || bad == nil && f == math.Trunc(f)
}

// unknown returns the error for an unknown name, with the closest known one.
func unknown(what, name string, known []string) *invalid {
	if len(known) == 0 {
		return invalidf("unknown %s %s: none are allowed here", what, quote(name))
	}
	return invalidf("unknown %s %s: %s", what, quote(name),
		suggest.Hint(name, known, "Known are "+strings.Join(known, ", ")))
}

// fieldNames returns the JSON names of a request type.
func fieldNames(t reflect.Type) []string {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// pointerPath formats a JSON pointer as a path, such as network[3].
func pointerPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if n, err := strconv.Atoi(token); err == nil && n >= 0 && b.Len() > 0 {
			fmt.Fprintf(&b, "[%d]", n)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}

func badUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// quote quotes input, truncated to maxQuoted bytes. Of an API key it quotes the public part.
func quote(s string) string {
	s = event.RedactAPIKeys(s)
	if len(s) > maxQuoted {
		cut := maxQuoted
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "..."
	}
	return strconv.Quote(s)
}

// checkQuery validates a query string strictly: well-formed, in valid UTF-8, with the required parameters, and without
// unknown or repeated ones. The error is an [*invalid].
func checkQuery(raw string, parameters []parameter) error {
	if raw == "" && !slices.ContainsFunc(parameters, func(p parameter) bool { return p.required }) {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return invalidf("the query string is malformed: write it as name=value&name=value, " +
			"with %%-escapes for special characters")
	}
	names := make([]string, len(parameters))
	for i, p := range parameters {
		names[i] = p.name
	}
	sent := make([]string, 0, len(values))
	for name := range values {
		sent = append(sent, name)
	}
	slices.Sort(sent)
	for _, name := range sent {
		if !slices.Contains(names, name) {
			return unknown("parameter", name, names)
		}
		if len(values[name]) > 1 {
			hint := ""
			if parameters[slices.Index(names, name)].list {
				hint = ", a list comma separated"
			}
			return invalidf("the parameter %q is given %d times: give it once%s", name, len(values[name]), hint)
		}
		if !utf8.ValidString(values[name][0]) {
			return invalidf("the parameter %q is not valid UTF-8: encode it as UTF-8 before escaping it", name)
		}
	}
	for _, p := range parameters {
		value, ok := values[p.name]
		if p.required && !ok {
			return invalidf("the parameter %q is missing: %s", p.name, p.hint)
		}
		if p.boolean && ok {
			if _, err := strconv.ParseBool(value[0]); err != nil {
				return invalidf("the parameter %q must be true or false", p.name)
			}
		}
		if p.integer && ok {
			if _, err := strconv.ParseInt(value[0], 10, 64); err != nil {
				return invalidf("the parameter %q must be an integer", p.name)
			}
		}
	}
	return nil
}
