package e2e_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

// mailScan finds email addresses in responses, independently of how they are removed: it has all addresses in the
// records, and a regular expression for addresses.
type mailScan struct {
	// locals has the parts before the at sign by domain, in lower case.
	locals  map[string][]string
	longest int
	shaped  *regexp.Regexp
}

func newMailScan(addresses []string) *mailScan {
	s := &mailScan{
		locals: map[string][]string{},
		shaped: regexp.MustCompile(`[\pL\pM\pN._%+'-]+(?:@|＠|﹫|%40)[\pL\pM\pN-]+(?:\.[\pL\pM\pN-]+)+`),
	}
	for _, a := range addresses {
		a = strings.ToLower(a)
		at := strings.LastIndexByte(a, '@')
		if at <= 0 || at == len(a)-1 {
			continue
		}
		s.locals[a[at+1:]] = append(s.locals[a[at+1:]], a[:at])
		s.longest = max(s.longest, len(a)-at-1)
	}
	return s
}

// find returns an address in a JSON text, or "".
func (s *mailScan) find(raw []byte) string {
	if !suspicious(raw) {
		return ""
	}
	v, err := oracle.Decode(raw)
	if err != nil {
		return err.Error()
	}
	return s.in(v)
}

// suspicious reports whether a JSON text may contain an address: an at sign between two characters that are neither a
// space nor a quotation mark, or an encoded at sign.
func suspicious(raw []byte) bool {
	for _, sign := range []string{"%40", "＠", "﹫", `\u`} {
		if bytes.Contains(raw, []byte(sign)) {
			return true
		}
	}
	for at := bytes.IndexByte(raw, '@'); at >= 0; {
		if at > 0 && at+1 < len(raw) && !strings.ContainsRune(" \"@", rune(raw[at-1])) &&
			!strings.ContainsRune(" \"@", rune(raw[at+1])) {
			return true
		}
		next := bytes.IndexByte(raw[at+1:], '@')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return false
}

func hasAtSign(text string) bool {
	return strings.Contains(text, "@") || strings.Contains(text, "%40") || strings.Contains(text, "＠") ||
		strings.Contains(text, "﹫")
}

func (s *mailScan) in(v any) string {
	switch v := v.(type) {
	case string:
		return s.inText(v)
	case []any:
		for _, e := range v {
			if found := s.in(e); found != "" {
				return found
			}
		}
	case oracle.Object:
		for name, e := range v {
			if found := s.inText(name); found != "" {
				return found
			}
			if found := s.in(e); found != "" {
				return found
			}
		}
	}
	return ""
}

func (s *mailScan) inText(text string) string {
	if !hasAtSign(text) {
		return ""
	}
	if found := s.shaped.FindString(text); found != "" {
		return found
	}
	text = strings.ToLower(text)
	for at := strings.IndexByte(text, '@'); at >= 0; {
		for end := at + 2; end <= len(text) && end-at-1 <= s.longest; end++ {
			for _, local := range s.locals[text[at+1:end]] {
				if strings.HasSuffix(text[:at], local) {
					return local + "@" + text[at+1:end]
				}
			}
		}
		next := strings.IndexByte(text[at+1:], '@')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return ""
}

func TestMailScan_FindsAddresses(t *testing.T) {
	s := newMailScan([]string{"Ada.L@Post.Example", "root@host", "plain", "@x", "y@"})
	for raw, want := range map[string]string{
		`{"a":"no one @here, a@b"}`:        "",
		`{"a":["x ada.l@POST.example y"]}`: "ada.l@POST.example",
		`{"a":"ada.l\u0040post.example"}`:  "ada.l@post.example",
		`{"x":{"b":"mailto:q%40r.org"}}`:   "q%40r.org",
		`{"to q@r.org":1}`:                 "q@r.org",
		`{"a":"as ROOT@HOST, in all"}`:     "root@host",
	} {
		require.Equal(t, want, s.find([]byte(raw)), raw)
	}
}
