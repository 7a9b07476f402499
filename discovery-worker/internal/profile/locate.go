package profile

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxQuoteBytes limits a quote.
const maxQuoteBytes = 1000

// locator finds words in texts, ignoring case and white space.
type locator struct {
	quote    string
	pattern  *regexp.Regexp // nil: matches nothing
	minBytes int            // minimum length of a matching text
}

func newLocator(quote string) locator {
	words := strings.Fields(quote)
	if len(words) == 0 || len(quote) > maxQuoteBytes {
		return locator{}
	}
	// Upper and lower case may differ in bytes, but not in characters.
	l := locator{quote: quote, minBytes: utf8.RuneCountInString(strings.Join(words, " "))}
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	l.pattern, _ = regexp.Compile(`(?i)` + strings.Join(words, `\s+`)) // nil if it is too large
	return l
}

// find returns the span of the words in a text.
func (l locator) find(text string) (start, end int, found bool) {
	if l.pattern == nil || len(text) < l.minBytes {
		return 0, 0, false
	}
	if at := strings.Index(text, l.quote); at >= 0 {
		return at, at + len(l.quote), true
	}
	at := l.pattern.FindStringIndex(text)
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}

// locateJSON finds words in the strings and numbers of a JSON value, until ctx ends. path is the
// JSON pointer of the value.
func locateJSON(ctx context.Context, value jsontext.Value, quote string) (path string, start, end int, found bool) {
	// Some models include the surrounding quotation marks and commas.
	l := newLocator(strings.Trim(strings.TrimSpace(quote), `",`))
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for i := 0; ; i++ {
		token, err := d.ReadToken()
		if err != nil || i%1000 == 0 && ctx.Err() != nil {
			return "", 0, 0, false
		}
		k := token.Kind()
		if k != '"' && k != '0' {
			continue
		}
		if at, n := d.StackIndex(d.StackDepth()); at == '{' && n%2 == 1 {
			continue // an object name
		}
		if s, e, ok := l.find(token.String()); ok {
			if k == '0' {
				s, e = 0, 0
			}
			return string(d.StackPointer()), s, e, true
		}
	}
}
