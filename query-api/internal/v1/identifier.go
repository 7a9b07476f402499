package v1

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/schemas/identity"
)

// maxExact bounds identifiers that are compared exactly, in bytes.
const maxExact = 400

// person reads a username or profile URL of a platform given as name, and
// returns its comparison form.
func (s *Server) person(name, platform, input string) (string, error) {
	username, err := s.platforms.ParsePerson(platform, input)
	if err != nil {
		return "", s.malformed(name, platform, err)
	}
	key := identity.UsernameKey(username)
	if key == "" {
		return "", invalidf("%s is not a username nor a profile URL", name)
	}
	return key, nil
}

// companyURL reads a company URL and returns the comparison form of its slug.
func (s *Server) companyURL(name, input string) (string, error) {
	slug, err := s.platforms.ParseCompany(input)
	if err != nil {
		return "", s.malformed(name, company, err)
	}
	key := identity.UsernameKey(slug)
	if key == "" {
		return "", invalidf("%s holds a malformed company slug", name)
	}
	return key, nil
}

// companySlug reads a slug and returns its comparison form.
func companySlug(name, input string) (string, error) {
	if strings.TrimSpace(input) == "" {
		return "", invalidf("%s is empty: give a company slug, or leave it out", name)
	}
	key := identity.UsernameKey(input)
	if key == "" {
		return "", invalidf("%s is not a company slug of at most %d bytes: for a URL use network_url", name, identity.MaxUsername)
	}
	return key, nil
}

// exactID reads an identifier that is compared exactly.
func exactID(name, input string) (string, error) {
	id := strings.TrimSpace(input)
	switch {
	case id == "":
		return "", invalidf("%s is empty: give an id, or leave it out", name)
	case len(id) > maxExact:
		return "", invalidf("%s is longer than %d bytes: no id is", name, maxExact)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return "", invalidf("%s holds control characters: remove them", name)
	}
	return id, nil
}

func email(name, input string) (string, error) {
	key, err := identity.EmailKey(input)
	if strings.TrimSpace(input) == "" {
		return "", invalidf("%s is empty: give an address, or leave it out", name)
	}
	if err != nil {
		return "", invalidf("%s %s", name, err.Error())
	}
	return key, nil
}

// company and anyPlatform stand for a platform where a company's URL, or the URL of a
// profile of whatever platform, is meant.
const (
	company     = "company"
	anyPlatform = ""
)

// malformed says what is wrong with the identifier of a platform, and what is
// wanted in its place.
func (s *Server) malformed(name, platform string, err error) error {
	var m *identity.Malformed
	if !errors.As(err, &m) {
		return err
	}
	var wanted string
	switch platform {
	case company:
		wanted = "give a company's URL, such as https://network.example/company/acme"
	case anyPlatform:
		urls := make([]string, 0, len(identity.PlatformNames()))
		for _, p := range identity.PlatformNames() {
			urls = append(urls, s.platforms.Link(p, "jane"))
		}
		wanted = "give a profile's URL, such as " + strings.Join(urls, " or ")
	default:
		wanted = "give a username, or a profile's URL such as " + s.platforms.Link(platform, "jane")
	}
	return invalidf("%s %s: %s", name, m.Reason, wanted)
}
