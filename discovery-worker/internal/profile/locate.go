package profile

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxQuote bounds a quote that is looked for, in bytes.
const maxQuote = 1000

// locate finds words in a text, whatever their case and the space between them, and
// returns where they begin and end.
func locate(text, quote string) (start, end int, found bool) {
	words := strings.Fields(quote)
	if len(words) == 0 || len(quote) > maxQuote {
		return 0, 0, false
	}
	if at := strings.Index(text, quote); at >= 0 {
		return at, at + len(quote), true
	}
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	pattern, err := regexp.Compile(`(?i)` + strings.Join(words, `\s+`))
	if err != nil {
		return 0, 0, false
	}
	at := pattern.FindStringIndex(text)
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}

// locateJSON finds words in the strings and numbers of a JSON value. path is the
// JSON pointer of the one that has them.
func locateJSON(value jsontext.Value, prefix, quote string) (path string, start, end int, found bool) {
	// Some models quote with the quotation marks and names around.
	quote = strings.Trim(strings.TrimSpace(quote), `",`)
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return "", 0, 0, false
		}
		k := token.Kind()
		if k != '"' && k != '0' {
			continue
		}
		pointer := string(d.StackPointer())
		if at, n := d.StackIndex(d.StackDepth()); at == '{' && n%2 == 1 {
			continue // a name
		}
		if s, e, ok := locate(token.String(), quote); ok {
			if k == '0' {
				s, e = 0, 0
			}
			return prefix + pointer, s, e, true
		}
	}
}
