package canonical

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and lists are nested at most: as deep as a search may be.
const MaxDepth = 200

var errDeep = errors.New("nested too deep")

// JSON brings v to its canonical form (RFC 8785, as options change it). With an error it stays as it is: it is no JSON, or
// nested too deep.
func JSON(v *jsontext.Value, options ...jsontext.Options) error {
	if depth(*v) > MaxDepth {
		return errDeep
	}
	return v.Canonicalize(options...)
}

// depth is how deep brackets are nested outside of strings.
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
