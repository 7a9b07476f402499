package identity

import (
	"strings"
	"unicode"
)

// maxMentions is the maximum number of accounts taken from one text, maxText the number of bytes scanned.
const (
	maxMentions = 20
	maxText     = 20_000
)

// FindMentions returns the distinct accounts mentioned in a text such as a bio, in order: profile URLs with
// or without a scheme, and handles next to the name of a platform ("@juno on codehost", "codehost: juno",
// "network/juno"). It skips a bare @handle, whose platform is unknown, and short links, which only their
// service can resolve.
func (p *Platforms) FindMentions(text string) []Account {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	var found []Account
	seen := map[Account]bool{}
	add := func(platform, username string) {
		id := Account{Platform: platform, Username: NormalizeUsername(username)}
		if id.Username == "" || seen[id] || len(found) == maxMentions {
			return
		}
		seen[id] = true
		found = append(found, Account{Platform: platform, Username: username})
	}
	// Separators are tokens: in "on codehost as @juno, on network as j" the handle is not before "on
	// network".
	tokens := strings.FieldsFunc(separators.Replace(text), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("()<>[]{}\"", r)
	})
	for i, t := range tokens {
		t = strings.TrimRight(strings.TrimLeft(t, "'*_~"), ".!?'*:")
		if strings.Contains(t, "/") && strings.Contains(t, ".") {
			if platform, username, err := p.ParseAny(t); err == nil {
				add(platform, username)
				continue
			}
		}
		if platform, rest, ok := cutPlatform(t); ok {
			if rest != "" { // codehost:juno, codehost/juno
				addHandle(add, platform, rest)
				// codehost: juno
			} else if i+1 < len(tokens) && strings.HasSuffix(strings.TrimRight(tokens[i], "'*_~"), ":") {
				addHandle(add, platform, tokens[i+1])
			} else if i+1 < len(tokens) && strings.HasPrefix(tokens[i+1], "@") { // codehost @juno
				addHandle(add, platform, tokens[i+1])
			}
		}
		if strings.HasPrefix(t, "@") && i+2 < len(tokens) && isPreposition(tokens[i+1]) { // @juno on codehost
			if platform, rest, ok := cutPlatform(strings.TrimRight(tokens[i+2], ".!?:")); ok && rest == "" {
				addHandle(add, platform, t)
			}
		}
	}
	return found
}

// separators end a mention.
//
//nolint:gochecknoglobals // a constant table
var separators = strings.NewReplacer(",", " , ", ";", " ; ", "|", " | ", "·", " · ", "•", " • ")

func isPreposition(s string) bool {
	s = strings.ToLower(s)
	return s == "on" || s == "at" || s == "@" || s == "auf" || s == "en" || s == "sur"
}

// cutPlatform parses the name of a platform, alone or before a colon or slash.
func cutPlatform(t string) (platform, rest string, ok bool) {
	name := t
	if i := strings.IndexAny(t, ":/="); i >= 0 {
		name, rest = t[:i], strings.TrimLeft(t[i+1:], "/ ")
	}
	switch strings.ToLower(name) {
	case Codehost, "github", "gh":
		platform = Codehost
	case Network, "linkedin":
		platform = Network
	case Microblog, "twitter", "x":
		platform = Microblog
	default:
		return "", "", false
	}
	return platform, rest, !strings.ContainsAny(rest, "/.")
}

// addHandle adds handle if it looks like one: ASCII letters and digits with hyphens and underscores, unlike
// most words of a sentence.
func addHandle(add func(platform, username string), platform, handle string) {
	handle = strings.TrimRight(strings.TrimPrefix(handle, "@"), ".!?:'*")
	if len(handle) < 2 || len(handle) > 100 || strings.ContainsFunc(handle, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	}) {
		return
	}
	add(platform, handle)
}
