package jcs

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the maximum nesting of objects and arrays, the same as that of a search.
const MaxDepth = 200

var errDeep = errors.New("nested too deep")

// JSON converts v to its canonical form (RFC 8785, as modified by options). It returns an error, and leaves v
// unchanged, if v is not valid JSON or nested too deep.
func JSON(v *jsontext.Value, options ...jsontext.Options) error {
	if depth(*v) > MaxDepth {
		return errDeep
	}
	return v.Canonicalize(options...)
}

// depth returns the maximum nesting of brackets outside of strings.
func depth(text []byte) (deepest int) {
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}
