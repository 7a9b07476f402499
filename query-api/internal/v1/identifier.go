package v1

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	companies "muster/schemas/company"
	"muster/schemas/identity"
)

// maxExact is the maximum length of texts and of identifiers that are compared exactly, in characters.
const maxExact = 400

// person parses a username or profile URL of a platform, and returns its comparison form. name is the field name.
func (s *Server) person(name, platform, input string) (string, error) {
	username, err := s.platforms.ParsePerson(platform, input)
	if err != nil {
		return "", s.malformed(name, platform, err)
	}
	key := identity.NormalizeUsername(username)
	if key == "" {
		return "", invalidf("%s is neither a username nor a profile URL", name)
	}
	return key, nil
}

// companyURL parses a company URL and returns the comparison form of its slug.
func (s *Server) companyURL(name, input string) (string, error) {
	slug, err := s.platforms.ParseCompany(input)
	if err != nil {
		return "", s.malformed(name, company, err)
	}
	key := identity.NormalizeUsername(slug)
	if key == "" {
		return "", invalidf("%s has a malformed company slug", name)
	}
	return key, nil
}

// companySlug parses a slug and returns its comparison form.
func companySlug(name, input string) (string, error) {
	if strings.TrimSpace(input) == "" {
		return "", invalidf("%s is empty: give a company slug, or omit it", name)
	}
	key := identity.NormalizeUsername(input)
	if key == "" {
		return "", invalidf("%s is not a company slug of at most %d bytes: for a URL use network_url", name,
			identity.MaxUsername)
	}
	return key, nil
}

// exactID parses an identifier that is compared exactly.
func exactID(name, input string) (string, error) {
	id := strings.TrimSpace(input)
	switch {
	case id == "":
		return "", invalidf("%s is empty: give an ID, or omit it", name)
	case utf8.RuneCountInString(id) > maxExact:
		return "", invalidf("%s is longer than %d characters, the maximum of an ID", name, maxExact)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return "", invalidf("%s holds control characters: remove them", name)
	}
	return id, nil
}

func email(name, input string) (string, error) {
	key, err := identity.NormalizeEmail(input)
	if strings.TrimSpace(input) == "" {
		return "", invalidf("%s is empty: give an address, or omit it", name)
	}
	if err != nil {
		return "", invalidf("%s %s", name, err.Error())
	}
	return key, nil
}

// domain parses a website or domain, and returns its registrable domain.
func domain(name, input string) (string, error) {
	if strings.TrimSpace(input) == "" {
		return "", invalidf("%s is empty: give one such as acme.example, or omit it", name)
	}
	registrable, err := companies.RegistrableDomain(input)
	if err != nil {
		return "", invalidf("%s %s", name, err.Error())
	}
	return registrable, nil
}

// emailDomain returns the registrable domain of an email address.
func emailDomain(name, input string) (string, error) {
	key, err := email(name, input)
	if err != nil {
		return "", err
	}
	_, host, _ := strings.Cut(key, "@")
	registrable, err := companies.RegistrableDomain(host)
	if err != nil {
		return "", invalidf("%s has a domain that %s", name, err.Error())
	}
	return registrable, nil
}

// companyName checks the name of a company.
func companyName(name, input string) (string, error) {
	text, err := shortText(name, input)
	if err == nil && companies.NameKey(text) == "" {
		err = invalidf("%s has neither letters nor digits", name)
	}
	return text, err
}

// shortText checks a text of at most maxExact characters.
func shortText(name, input string) (string, error) {
	text := strings.TrimSpace(input)
	switch {
	case text == "":
		return "", invalidf("%s is empty: give a text, or omit it", name)
	case utf8.RuneCountInString(text) > maxExact:
		return "", invalidf("%s is longer than %d characters", name, maxExact)
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", invalidf("%s holds control characters: remove them", name)
	}
	return text, nil
}

// company and anyPlatform are special platform arguments of malformed: a company URL, and a profile URL of any
// platform.
const (
	company     = "company"
	anyPlatform = ""
)

// malformed returns the error for a malformed identifier, with an example of a valid one.
func (s *Server) malformed(name, platform string, err error) error {
	var m *identity.InvalidURLError
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
