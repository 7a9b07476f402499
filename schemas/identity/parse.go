package identity

import (
	"fmt"
	"net/url"
	"strings"
)

// InvalidURLError is an invalid identifier (rulings.md, Names: "a malformed identifier, a URL of a foreign host, a
// company URL where a person is meant: an error naming it").
type InvalidURLError struct {
	// Field names the identifier. This package sets it to the platform's name, "url" or "company"; callers
	// replace it by the name of their parameter.
	Field string
	// Reason is a clause that follows the field's name. It never contains the value, which may be personal
	// data.
	Reason string
}

func (m *InvalidURLError) Error() string { return m.Field + " " + m.Reason }

// Account is an account on a platform.
type Account struct {
	Platform string
	Username string
}

// MaxURL is the maximum length of a URL in bytes.
const MaxURL = 2048

// ParsePerson parses a username of the platform or the URL of a profile there, and returns the username,
// unescaped and in its original case. The error is a [*InvalidURLError].
func (p *Platforms) ParsePerson(platformName, input string) (string, error) {
	if !KnownPlatform(platformName) {
		return "", &InvalidURLError{Field: platformName, Reason: "is not a platform; use one of " +
			strings.Join(PlatformNames(), ", ")}
	}
	input = strings.TrimSpace(input)
	if input == "" {
		return "", &InvalidURLError{Field: platformName, Reason: "is empty"}
	}
	if !p.looksLikeURL(input) {
		name, ok := cleanUsername(input)
		if !ok {
			return "", &InvalidURLError{
				Field: platformName,
				Reason: fmt.Sprintf("is not a username (at most %d bytes, no "+
					"spaces, control characters or separators) nor a profile URL", MaxUsername),
			}
		}
		return name, nil
	}
	if !p.namesHost(input) {
		return "", &InvalidURLError{
			Field: platformName, Reason: "is neither a username, which has no slash, nor a profile URL",
		}
	}
	found, name, err := p.person(platformName, input)
	if err != nil {
		return "", err
	}
	if found.Name != platformName {
		return "", &InvalidURLError{
			Field: platformName,
			Reason: fmt.Sprintf("is a URL of the platform %s, a profile of %s "+
				"is needed", found.Name, platformName),
		}
	}
	return name, nil
}

// ParseAny parses the profile URL of any platform, with or without a scheme. The error is a [*InvalidURLError].
func (p *Platforms) ParseAny(input string) (platformName, username string, err error) {
	input = strings.TrimSpace(input)
	if input == "" {
		return "", "", &InvalidURLError{Field: "url", Reason: "is empty"}
	}
	if !p.namesHost(input) {
		return "", "", &InvalidURLError{Field: "url", Reason: "is not a URL"}
	}
	found, name, err := p.person("url", input)
	if err != nil {
		return "", "", err
	}
	return found.Name, name, nil
}

// ParseCompany parses the URL of a company of the professional network, with or without a scheme, and returns
// its slug (interface.md, company enrichment, network_url). The error is a [*InvalidURLError].
func (p *Platforms) ParseCompany(input string) (string, error) {
	const field = "company"
	host, path, err := splitURL(field, strings.TrimSpace(input))
	if err != nil {
		return "", err
	}
	found := p.find(host)
	if found == nil || found.Name != Network {
		return "", &InvalidURLError{Field: field, Reason: "is not a URL of the professional network"}
	}
	slug, ok := match(found.company, path)
	if !ok {
		if _, person := match(found.person, path); person {
			return "", &InvalidURLError{Field: field, Reason: "is a person's URL where a company's is needed"}
		}
		return "", &InvalidURLError{Field: field, Reason: "is not the URL of a company's page"}
	}
	clean, ok := cleanUsername(slug)
	if !ok {
		return "", &InvalidURLError{Field: field, Reason: "has a malformed company slug"}
	}
	return clean, nil
}

// FindAccounts returns the distinct accounts of the profile URLs, in order. Other URLs are skipped.
func (p *Platforms) FindAccounts(urls []string) []Account {
	var found []Account
	seen := map[Account]bool{}
	for _, u := range urls {
		name, username, err := p.ParseAny(u)
		if err != nil {
			continue
		}
		id := Account{Platform: name, Username: NormalizeUsername(username)}
		if id.Username == "" || seen[id] {
			continue
		}
		seen[id] = true
		found = append(found, Account{Platform: name, Username: username})
	}
	return found
}

// looksLikeURL reports whether input is a URL rather than a username: it has a scheme or a slash, possibly
// escaped, or is the bare host of a platform.
func (p *Platforms) looksLikeURL(input string) bool {
	decoded := input
	for range 3 {
		decoded = PercentDecode(decoded)
	}
	return strings.ContainsAny(decoded, "/\\") || strings.Contains(decoded, "://") ||
		p.find(strings.ToLower(strings.TrimSuffix(decoded, "."))) != nil
}

// namesHost reports whether input begins with a scheme or a host, possibly escaped.
func (p *Platforms) namesHost(input string) bool {
	head := cutQuery(decodeHead(strings.TrimPrefix(input, "//")))
	if i := strings.IndexAny(head, `/\`); i >= 0 {
		head = head[:i]
	}
	return strings.ContainsAny(head, ".:@") || p.find(strings.ToLower(head)) != nil
}

// person parses a profile URL of any platform.
func (p *Platforms) person(field, input string) (*platform, string, error) {
	host, path, err := splitURL(field, input)
	if err != nil {
		return nil, "", err
	}
	found := p.find(host)
	if found == nil {
		return nil, "", &InvalidURLError{Field: field, Reason: "is a URL of a foreign host"}
	}
	name, ok := match(found.person, path)
	if !ok {
		if _, company := match(found.company, path); company {
			return nil, "", &InvalidURLError{Field: field, Reason: "is a company's URL where a person's is needed"}
		}
		return nil, "", &InvalidURLError{Field: field, Reason: "is not the URL of a person's profile"}
	}
	clean, ok := cleanUsername(name)
	if !ok {
		return nil, "", &InvalidURLError{Field: field, Reason: "is a URL with a malformed username"}
	}
	for _, reserved := range found.Reserved {
		if strings.EqualFold(reserved, clean) {
			return nil, "", &InvalidURLError{Field: field, Reason: "is not the URL of a person's profile"}
		}
	}
	return found, clean, nil
}

// splitURL returns the lower-case host and the decoded path segments of a URL, whose scheme may be missing.
// It is lenient where net/url is not, since "schemes, www., trailing slashes, queries, fragments, letter case
// and percent-escapes never change what is found" (rulings.md, Names), and strict where a link could imitate
// another one: it rejects user information and unusual ports.
func splitURL(field, input string) (host string, path []string, err error) {
	malformed := func(reason string) (string, []string, error) {
		return "", nil, &InvalidURLError{Field: field, Reason: reason}
	}
	if input == "" {
		return malformed("is empty")
	}
	if len(input) > MaxURL {
		return malformed(fmt.Sprintf("is longer than %d bytes", MaxURL))
	}
	rest := cutQuery(input)
	// The URL may be escaped as a whole, including its slashes, or before some of them.
	if head, _, slash := strings.Cut(rest, "/"); !slash || !strings.Contains(head, "@") {
		rest = cutQuery(decodeHead(rest))
	}
	if scheme, after, ok := strings.Cut(rest, ":"); ok && !strings.ContainsAny(scheme, "/.?#") {
		if !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
			return malformed("is not an http or https URL")
		}
		if !strings.HasPrefix(after, "//") {
			return malformed("is not a URL")
		}
		rest = after
	}
	rest = strings.TrimPrefix(rest, "//")
	host, rawPath, _ := strings.Cut(rest, "/")
	if !strings.Contains(host, "@") { // A browser goes to the host after the "@".
		host, rawPath, _ = strings.Cut(cutQuery(decodeHead(rest)), "/")
	}
	host = strings.ToLower(host)
	host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
	host = strings.TrimSuffix(host, ".")
	if host == "" {
		return malformed("is not a URL")
	}
	for _, c := range []byte(host) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return malformed("is a URL with a malformed host")
		}
	}
	for segment := range strings.SplitSeq(rawPath, "/") {
		segment = strings.TrimRight(cutQuery(PercentDecode(segment)), "/")
		switch segment {
		case "", ".":
		case "..":
			path = path[:max(0, len(path)-1)]
		default:
			path = append(path, segment)
		}
	}
	return host, path, nil
}

// decodeHead decodes the text before the first slash, up to three times.
func decodeHead(s string) string {
	for range 3 {
		head, tail, slash := strings.Cut(s, "/")
		s = PercentDecode(head)
		if slash {
			s += "/" + tail
		}
	}
	return s
}

// cutQuery removes query and fragment.
func cutQuery(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return s[:i]
	}
	return s
}

func escapeSegment(s string) string { return url.PathEscape(s) }
