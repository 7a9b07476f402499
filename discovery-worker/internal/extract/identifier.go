package extract

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
	"mvdan.cc/xurls/v2"

	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

// urlFinder finds web addresses, with and without a scheme.
type urlFinder struct{ relaxed *regexp.Regexp }

func newURLFinder() urlFinder { return urlFinder{xurls.Relaxed()} }

// maxTokens limits the words of one text that are parsed as addresses.
const maxTokens = 4000

// findIdentifiers finds e-mail addresses, web addresses and accounts in an original text, including
// markup. The caller has blanked instructions and scripts.
func (e *Extractor) findIdentifiers(f *facts, path, text string) {
	tried := 0
	for start := 0; start < len(text) && tried < maxTokens; {
		r, n := utf8.DecodeRuneInString(text[start:])
		if isSeparator(r) {
			start += n
			continue
		}
		end := start
		for end < len(text) {
			r, n := utf8.DecodeRuneInString(text[end:])
			if isSeparator(r) {
				break
			}
			end += n
		}
		token := text[start:end]
		if len(token) <= 2*identity.MaxURL &&
			(strings.Contains(token, "@") || strings.Contains(token, ".") || strings.Contains(token, "://")) {
			tried++
			e.readToken(f, path, token, start)
		}
		start = end
	}
	e.findObfuscatedEmails(f, path, text)
}

func isSeparator(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune("()<>[]{}\"|,;·•，、；“”«»`", r)
}

// readToken reads one word that may be an address.
func (e *Extractor) readToken(f *facts, path, token string, at int) {
	trimmed := strings.TrimLeft(token, "'*_~")
	at += len(token) - len(trimmed)
	token = strings.TrimRight(trimmed, ".!?'*:…_。")
	if rest, ok := cutFold(token, "mailto:"); ok {
		at += len(token) - len(rest)
		token, _, _ = strings.Cut(rest, "?")
	}
	span := view.Span{Path: path, Start: at, End: at + len(token)}
	if i := strings.IndexByte(token, '@'); i > 0 && !strings.Contains(token, "://") {
		// "Mail:name@host" and "名:name@host" have no space.
		if c := strings.LastIndexAny(token[:i], ":=："); c >= 0 {
			_, n := utf8.DecodeRuneInString(token[c:])
			span.Start += c + n
			token = token[c+n:]
		}
		e.addEmail(f, token, "", labeled, span)
		return
	}
	// "B.Tech" is a degree, although .tech is a domain.
	if len(token) <= 8 && degreeWord.MatchString(token) {
		return
	}
	// Source code.
	if strings.Contains(token, "::") || codeMember.MatchString(token) {
		return
	}
	loc := e.urls.relaxed.FindStringIndex(token)
	if loc == nil || strings.Contains(token, "@") && !strings.Contains(token, "://") {
		return
	}
	e.addLink(f, token[loc[0]:loc[1]], labeled, view.Span{Path: path, Start: at + loc[0], End: at + loc[1]})
}

// codeMember matches a field of a one-letter variable.
var codeMember = regexp.MustCompile(`^[a-z]\.[a-z_]+$`)

func cutFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// addEmail adds an e-mail address. A no-reply address of the code host is an account.
func (e *Extractor) addEmail(f *facts, s, label string, confidence float64, span view.Span) {
	key, err := identity.NormalizeEmail(s)
	if err != nil {
		return
	}
	host := key[strings.LastIndexByte(key, '@')+1:]
	if !strings.Contains(host, ".") || strings.HasPrefix(host, "[") {
		return
	}
	if id, username, ok := e.platforms.NoReply(key); ok {
		e.addAccount(f, Identifier{Type: Account, Platform: identity.Codehost, Value: username, Confidence: confidence,
			Span: span})
		if id > 0 {
			f.codehostID.keepSurer(textValue{itoa(id), confidence, span})
		}
		return
	}
	f.addIdentifier(Identifier{Type: Email, Value: key, Confidence: confidence, Span: span, role: label}, key)
}

// assetPath matches paths of files that are not pages.
var assetPath = regexp.MustCompile(`(?i)\.(?:png|jpe?g|gif|svg|webp|ico|css|js|mjs|woff2?|ttf|mp4|webm)$`)

// addLink adds the account, company or web address of a URL.
func (e *Extractor) addLink(f *facts, raw string, confidence float64, span view.Span) {
	if len(raw) > identity.MaxURL {
		return
	}
	if platform, username, err := e.platforms.ParseAny(raw); err == nil {
		e.addAccount(f, Identifier{Type: Account, Platform: platform, Value: username, Confidence: confidence,
			Span: span, link: cleanURL(raw, true)})
		return
	}
	if slug, err := e.platforms.ParseCompany(raw); err == nil {
		f.addIdentifier(Identifier{Type: Company, Platform: identity.Network, Value: slug, Confidence: confidence,
			Span: span, link: cleanURL(raw, true)}, identity.NormalizeUsername(slug))
		return
	}
	u := cleanURL(raw, false)
	parsed, err := url.Parse(u)
	if err != nil || parsed.Host == "" || assetPath.MatchString(parsed.Path) || !strings.Contains(parsed.Host, ".") {
		return
	}
	// A page below an account, such as a post, names the account too.
	if platform, username, ok := e.accountOfPage(parsed); ok {
		if platform == identity.Microblog {
			e.addAccount(f, Identifier{Type: Account, Platform: platform, Value: username, Confidence: probable,
				Span: span})
			return
		}
	}
	f.addIdentifier(Identifier{Type: URL, Value: u, Confidence: confidence, Span: span}, urlKey(u))
}

// identifierKey returns the comparison key of an identifier.
func identifierKey(id Identifier) string {
	switch id.Type {
	case URL:
		return urlKey(id.Value)
	case Account, Company:
		return identity.NormalizeUsername(id.Value)
	}
	return id.Value
}

// urlKey returns the comparison key of a web address.
func urlKey(u string) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "http://"))
}

// accountOfPage returns the account whose page contains an address.
func (e *Extractor) accountOfPage(u *url.URL) (platform, username string, ok bool) {
	first, _, hasRest := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !hasRest || first == "" {
		return "", "", false
	}
	platform, username, err := e.platforms.ParseAny(u.Scheme + "://" + u.Host + "/" + first)
	return platform, username, err == nil
}

// cleanURL returns a web address with a scheme and without query, fragment and trailing slash.
func cleanURL(raw string, secure bool) string {
	rest := raw
	scheme := "http"
	if secure {
		scheme = "https"
	}
	if s, after, ok := strings.Cut(raw, "://"); ok {
		rest = after
		if !secure {
			scheme = strings.ToLower(s)
		}
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	host, path, _ := strings.Cut(strings.TrimRight(rest, "/"), "/")
	out := scheme + "://" + strings.ToLower(host)
	if path != "" {
		out += "/" + path
	}
	return out
}

func (e *Extractor) addAccount(f *facts, id Identifier) {
	f.addIdentifier(id, identity.NormalizeUsername(id.Value))
}

// addUsername adds an account from its name or URL.
func (e *Extractor) addUsername(f *facts, platform string, p view.Part, confidence float64) {
	t := p.Trim("@.").Text()
	if t == "" || phrase.IsBlank(t) || isService(t) {
		return
	}
	name, err := e.platforms.ParsePerson(platform, t)
	if err != nil || strings.ContainsAny(name, " ") {
		return
	}
	id := Identifier{Type: Account, Platform: platform, Value: name, Confidence: confidence, Span: p.Trim("@.").Span()}
	if strings.Contains(t, "/") {
		id.link = cleanURL(t, true)
	}
	e.addAccount(f, id)
}

// addIdentifier adds an identifier, or raises the confidence of an equal one.
func (f *facts) addIdentifier(id Identifier, key string) {
	key = id.Type + "\x00" + id.Platform + "\x00" + key
	if at, ok := f.seen[key]; ok {
		have := &f.identifiers[at]
		have.Confidence = max(have.Confidence, id.Confidence)
		if have.role == "" {
			have.role = id.role
		}
		if have.link == "" {
			have.link = id.link
		}
		return
	}
	if len(f.identifiers) == maxIdentifiers {
		return
	}
	f.seen[key] = len(f.identifiers)
	f.identifiers = append(f.identifiers, id)
}

// findPhones finds phone numbers in a text.
func (e *Extractor) findPhones(f *facts, v *view.View) {
	if !strings.ContainsAny(v.Text, "+(-.") {
		return
	}
	for _, m := range phrase.PhoneNumber.FindAllStringIndex(v.Text, maxIdentifiers) {
		e.addPhone(f, view.Part{View: v, Start: m[0], End: m[1]}, "US", labeled)
	}
}

// addPhone adds a phone number. region is the region of numbers without a plus.
func (e *Extractor) addPhone(f *facts, p view.Part, region string, confidence float64) bool {
	p = p.Trim("")
	t := p.Text()
	if strings.ContainsAny(t, "\n") {
		return false
	}
	n, err := phonenumbers.Parse(t, region)
	if err != nil || !phonenumbers.IsPossibleNumber(n) {
		return false
	}
	if !strings.HasPrefix(strings.TrimLeft(t, "( "), "+") && !phonenumbers.IsValidNumber(n) {
		return false
	}
	value := phonenumbers.Format(n, phonenumbers.E164)
	f.addIdentifier(Identifier{Type: Phone, Value: value, Confidence: confidence, Span: p.Span()}, value)
	return true
}

// findViewedIdentifiers finds identifiers in the view of a text rather than in its source: in web
// forms and LaTeX.
func (e *Extractor) findViewedIdentifiers(f *facts, v *view.View) {
	for _, line := range v.Lines() {
		found := facts{seen: map[string]int{}}
		e.findIdentifiers(&found, v.Path, line.Text())
		// Offsets are relative to the line.
		for _, id := range found.identifiers {
			id.Span = line.Sub(id.Span.Start, id.Span.End).Span()
			f.addIdentifier(id, identifierKey(id))
		}
	}
}
