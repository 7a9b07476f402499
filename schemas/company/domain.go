package company

import (
	_ "embed"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// maxWebsite is the maximum length of a website or domain, in bytes.
const maxWebsite = 2048

// Errors of RegistrableDomain.
var (
	errDomainForm   = errors.New("is not a website or domain name such as acme.example")
	errDomainSuffix = errors.New("is a public suffix, under which others register domains")
)

// RegistrableDomain returns the registrable domain of a URL, with or without a scheme, or of a host: the public suffix
// and the label before it, in lower case and ASCII.
func RegistrableDomain(website string) (string, error) {
	host, _, err := siteOf(website)
	if err != nil {
		return "", err
	}
	if suffix, _ := publicsuffix.PublicSuffix(host); suffix == host {
		return "", errDomainSuffix
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return "", errDomainForm
	}
	return domain, nil
}

// siteOf returns the host of a website in lower case and ASCII, and its path.
func siteOf(website string) (host, path string, err error) {
	text := strings.TrimSpace(website)
	if text == "" || len(text) > maxWebsite || !utf8.ValidString(text) {
		return "", "", errDomainForm
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return "", "", errDomainForm
	}
	if host, err = idna.Lookup.ToASCII(strings.TrimSuffix(u.Hostname(), ".")); err != nil || !isHost(host) {
		return "", "", errDomainForm
	}
	return host, u.Path, nil
}

// isHost reports whether a host in ASCII is a domain name, and not an IP address.
func isHost(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return !strings.ContainsFunc(host, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.'
	}) && strings.Trim(last, "0123456789") != ""
}

// WebsiteDomain returns the registrable domain that identifies the company with a website. It is empty if there is
// none: the website is malformed, a page of a site of many companies, or the domain is one of free mailboxes. main
// reports whether the website is the root of the domain.
func WebsiteDomain(website string) (domain string, main bool) {
	domain, err := RegistrableDomain(website)
	if err != nil || IsFreeMail(domain) {
		return "", false
	}
	host, path, err := siteOf(website)
	if err != nil {
		return "", false
	}
	root := strings.Trim(path, "/") == ""
	if !root && slices.Contains(sharedSites(), domain) {
		return "", false
	}
	return domain, root && (host == domain || host == "www."+domain)
}

// IsFreeMail reports whether a registrable domain is one of free mailboxes.
func IsFreeMail(domain string) bool {
	name, _, _ := strings.Cut(domain, ".")
	domains := freeMail()
	_, found := slices.BinarySearch(domains, domain)
	if !found {
		_, found = slices.BinarySearch(domains, name+".*")
	}
	return found
}

//go:embed freemail.txt
var freeMailText string

//go:embed sharedsites.txt
var sharedSitesText string

// freeMail and sharedSites return the embedded lists, sorted.
//
//nolint:gochecknoglobals // tables, never written
var (
	freeMail    = sync.OnceValue(func() []string { return listOf(freeMailText) })
	sharedSites = sync.OnceValue(func() []string { return listOf(sharedSitesText) })
)

func listOf(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}
