package post

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// excerptLimit bounds what is kept of an answer, in bytes.
	excerptLimit = 512
	// partLength is the shortest word that is taken for an echo when it is part of one that
	// was sent, echoLength when it is a whole one; in bytes.
	partLength = 4
	echoLength = 2
)

// redactor finds what may be personal or secret whoever wrote it: e-mail
// addresses, long runs of digits, and what looks like a token.
type redactor struct{ mail, token, digits *regexp.Regexp }

func newRedactor() redactor {
	return redactor{
		mail:   regexp.MustCompile(`[^\s"'<>,;:()\[\]{}]+(?:@|%40)[^\s"'<>,;:()\[\]{}]+`),
		token:  regexp.MustCompile(`[A-Za-z0-9+/_=-]{24,}`),
		digits: regexp.MustCompile(`\d[\d .()/-]{5,}\d`),
	}
}

// Redact returns the beginning of an answer as one line of at most 512 bytes,
// without e-mail addresses, numbers, tokens and any word that the body, or the query of the
// address, has too: receivers echo what they were sent, in escapes of all kinds.
func Redact(answer, body []byte, query string) string {
	if len(answer) == 0 {
		return ""
	}
	const beginning = 4 * excerptLimit
	cut := len(answer) > beginning
	text := unescape(strings.ToValidUTF8(string(answer[:min(len(answer), beginning)]), ""))
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsPrint(r)
	}), " ")
	r := newRedactor()
	text = r.mail.ReplaceAllString(text, "[e-mail]")
	text = r.token.ReplaceAllString(text, "[token]")
	text = r.digits.ReplaceAllString(text, "[number]")
	text = removeEchoes(text, sentIn(body, query))
	if len(text) > excerptLimit {
		return strings.ToValidUTF8(text[:excerptLimit-len("…")], "") + "…"
	}
	if cut {
		return text + "…"
	}
	return text
}

// unescape replaces what JSON, HTML and addresses write for letters.
func unescape(text string) string {
	text = regexp.MustCompile(`(?:\\u[0-9A-Fa-f]{4})+`).ReplaceAllStringFunc(text, func(escapes string) string {
		b, _ := jsontext.AppendUnquote(nil, `"`+escapes+`"`) // a lone surrogate is no letter
		return string(b)
	})
	text = html.UnescapeString(text)
	return regexp.MustCompile(`(?:%[0-9A-Fa-f]{2})+`).ReplaceAllStringFunc(text, func(escapes string) string {
		s, err := url.PathUnescape(escapes)
		if err != nil {
			return ""
		}
		return strings.ToValidUTF8(s, "")
	})
}

// sent is what an answer may be an echo of, in lower case.
type sent struct {
	text  strings.Builder
	words map[string]bool
}

func sentIn(body []byte, query string) *sent {
	s := &sent{words: make(map[string]bool)}
	s.text.WriteString(strings.ToLower(string(body)))
	add := func(text string) {
		text = strings.ToLower(text)
		s.text.WriteString("\n" + text)
		for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) }) {
			s.words[w] = true
		}
	}
	if query != "" {
		add(unescape(query))
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		t, err := d.ReadToken()
		if err != nil { // at the end, or of a body that is no JSON
			return s
		}
		// Names are nobody's data. Where they are they are found in the whole.
		if kind, n := d.StackIndex(d.StackDepth()); t.Kind() == '0' || t.Kind() == '"' && (kind != '{' || n%2 == 0) {
			add(t.String())
		}
	}
}

// has reports whether a word was sent.
func (s *sent) has(w string) bool {
	w = strings.ToLower(w)
	return len(w) >= echoLength && s.words[w] || len(w) >= partLength && strings.Contains(s.text.String(), w)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// removeEchoes replaces the words that were sent.
func removeEchoes(text string, all *sent) string {
	var out strings.Builder
	for text != "" {
		begin := strings.IndexFunc(text, isWord)
		if begin < 0 {
			out.WriteString(text)
			break
		}
		out.WriteString(text[:begin])
		text = text[begin:]
		end := strings.IndexFunc(text, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(text)
		}
		w := text[:end]
		if all.has(w) {
			w = "[…]"
		}
		out.WriteString(w)
		text = text[end:]
	}
	return out.String()
}
