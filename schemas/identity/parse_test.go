package identity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
)

func TestParsePerson_AcceptsUsernamesAndProfileURLs(t *testing.T) {
	p := identity.Default()
	for _, c := range []struct{ platform, in, want string }{
		{"codehost", "Jane", "Jane"},
		{"codehost", "@jane", "jane"},
		{"codehost", " jane ", "jane"},
		{"codehost", "123", "123"},
		{"codehost", "https://codehost.example/Jane", "Jane"},
		{"codehost", "http://codehost.example/jane/", "jane"},
		{"codehost", "HTTPS://WWW.CodeHost.Example/jane", "jane"},
		{"codehost", "codehost.example/jane", "jane"},
		{"codehost", "//codehost.example/jane", "jane"},
		{"codehost", "www.codehost.example/jane?tab=repositories#top", "jane"},
		{"codehost", "https://codehost.example/jane#x?y", "jane"},
		{"codehost", "https://codehost.example//jane//", "jane"},
		{"codehost", "https://codehost.example:443/jane", "jane"},
		{"codehost", "https://codehost.example./jane", "jane"},
		{"codehost", "https://codehost.example/a/../jane", "jane"},
		{"codehost", "https://codehost.example/%6A%61ne", "jane"},
		{"codehost", "https%3A%2F%2Fcodehost.example%2Fjane", "jane"},
		{"codehost", "codehost%2Eexample/jane", "jane"},
		{"codehost", "https://github.com/jane", "jane"},
		{"network", "jane-doe", "jane-doe"},
		{"network", "https://network.example/in/jane-doe", "jane-doe"},
		{"network", "https://network.example/IN/jane-doe", "jane-doe"},
		{"network", "network.example/%69n/jane%2Ddoe/", "jane-doe"},
		{"network", "https://uk.network.example/in/jane-doe?trk=x", "jane-doe"},
		{"network", "https://www.linkedin.com/in/j%C3%A9r%C3%B4me/", "jérôme"},
		{"network", "https://de.linkedin.com/in/jane-doe/en", "jane-doe"},
		{"network", "https://network.example/in/jane-doe/details/experience/", "jane-doe"},
		{"network", "https://network.example/in/%D0%B8%D0%B2%D0%B0%D0%BD", "иван"},
		{"network", "https%3A//network.example/in/jane", "jane"},
		{"network", "https%3A%2F%2Fnetwork.example/in/jane", "jane"},
		{"network", "https%253A%252F%252Fnetwork.example/in/jane", "jane"},
		{"network", "https://network.example%2Fin%2Fjane", "jane"},
		{"network", "https://network.example%2fin/jane", "jane"},
		{"network", "network.example%2Fin/jane", "jane"},
		{"network", "https%3A%2F%2Fnetwork.example%2Fin%2Fjane?x=/a", "jane"},
		{"network", "https%3A%2F%2Fnetwork.example%2Fin%2Fjane%3Fx%3D%2Fa#/b", "jane"},
		{"network", "https://network.example/in/jane%2F", "jane"},
		{"network", "https://network.example/in/jane%3Ftrk%3Dy", "jane"},
		{"network", "https://network.example/in/jane%23top/", "jane"},
		{"microblog", "https%3A%2F%2Fmicroblog.example%2F@jane", "jane"},
		{"microblog", "@jane_doe", "jane_doe"},
		{"microblog", "https://microblog.example/@jane", "jane"},
		{"microblog", "https://x.com/jane", "jane"},
		{"microblog", "https://mobile.twitter.com/jane?lang=en", "jane"},
	} {
		got, err := p.ParsePerson(c.platform, c.in)
		require.NoError(t, err, "%s %q", c.platform, c.in)
		require.Equal(t, c.want, got, "%s %q", c.platform, c.in)
	}
}

func TestParsePerson_RejectsInvalid(t *testing.T) {
	p := identity.Default()
	for _, c := range []struct{ platform, in, reason string }{
		{"codehost", "", "is empty"},
		{"codehost", "  ", "is empty"},
		{"codehost", "jane doe", "is not a username"},
		{"codehost", "jane@mail.example", "is not a username"},
		{"codehost", "jane\x00", "is not a username"},
		{"codehost", "\xff\xfe", "is not a username"},
		{"codehost", strings.Repeat("j", 500), "is not a username"},
		{"codehost", "'; DROP TABLE people; --", "is not a username"},
		{"codehost", "https://evil.example/jane", "is a URL of a foreign host"},
		{"codehost", "https://codehost.example.evil.example/jane", "is a URL of a foreign host"},
		{"codehost", "https://notgithub.com/jane", "is a URL of a foreign host"},
		{"codehost", "https://codehost.example@evil.example/jane", "is a URL with a malformed host"},
		{"codehost", "https://codehost.example%2Fjane%3F@evil.example/", "is a URL with a malformed host"},
		{"codehost", "https://codehost.example%2Fjane%3F@evil.example", "is a URL with a malformed host"},
		{"codehost", "codehost.example%2Fjane%3F@evil.example/", "is a URL with a malformed host"},
		{"codehost", "https%3A%2F%2Fevil.example/codehost.example/jane", "is a URL of a foreign host"},
		{"codehost", "https%3A%2F%2Fcodehost.example%40evil.example/jane", "is a URL with a malformed host"},
		{"codehost", "https://codehost.example:8443/jane", "is a URL with a malformed host"},
		{"codehost", "https://network.example/in/jane", "is a URL of the platform network"},
		{"codehost", "https://codehost.example/orgs/acme", "is a company's URL where a person's is needed"},
		{"codehost", "https://codehost.example/", "is not the URL of a person's profile"},
		{"codehost", "codehost.example", "is not the URL of a person's profile"},
		{"codehost", "https://codehost.example/jane/repo", "is not the URL of a person's profile"},
		{"codehost", "https://codehost.example/settings", "is not the URL of a person's profile"},
		{"codehost", "https://codehost.example/jane%2Frepo", "malformed username"},
		{"codehost", "ftp://codehost.example/jane", "is not an http or https URL"},
		{"codehost", "javascript:alert(1)//codehost.example/jane", "is not an http or https URL"},
		{"codehost", "https:codehost.example/jane", "is not a URL"},
		{"codehost", "https:///jane", "is not a URL"},
		{"codehost", "https://codehost.example/" + strings.Repeat("j", 2100), "is longer than 2048 bytes"},
		{"codehost", "a/b", "is neither a username, which has no slash, nor a profile URL"},
		{"codehost", "a%2Fb", "is neither a username"},
		{"codehost", `a\b`, "is neither a username"},
		{"codehost", "/jane", "is neither a username"},
		{"network", "in/jane", "is neither a username"},
		{"codehost", "//evil/jane.doe", "is neither a username"},
		{"codehost", "evil.example/jane", "is a URL of a foreign host"},
		{"codehost", "//evil.example/jane", "is a URL of a foreign host"},
		{"codehost", `codehost.example\jane`, "is a URL with a malformed host"},
		{"network", "https://network.example/company/acme", "is a company's URL where a person's is needed"},
		{"network", "network.example/school/acme/", "is a company's URL where a person's is needed"},
		{"network", "https://network.example/in/", "is not the URL of a person's profile"},
		{"network", "https://network.example/jobs/view/1", "is not the URL of a person's profile"},
		{"network", "https://network.example/in/%00", "malformed username"},
		{"network", "https://codehost.example/jane", "is a URL of the platform codehost"},
		{"microblog", "https://microblog.example/search?q=jane", "is not the URL of a person's profile"},
		{"myspace", "jane", "is not a platform"},
	} {
		_, err := p.ParsePerson(c.platform, c.in)
		var malformed *identity.InvalidURLError
		require.ErrorAs(t, err, &malformed, "%s %q", c.platform, c.in)
		require.Equal(t, c.platform, malformed.Field)
		require.Contains(t, malformed.Reason, c.reason, "%s %q", c.platform, c.in)
	}
}

func TestParseAny_FindsThePlatform(t *testing.T) {
	p := identity.Default()
	for in, want := range map[string][2]string{
		"https://codehost.example/jane":   {"codehost", "jane"},
		"network.example/in/jane":         {"network", "jane"},
		"https://x.com/jane":              {"microblog", "jane"},
		" https://microblog.example/J/ ":  {"microblog", "J"},
		"https://www.linkedin.com/in/J-D": {"network", "J-D"},
	} {
		platform, name, err := p.ParseAny(in)
		require.NoError(t, err, in)
		require.Equal(t, want, [2]string{platform, name}, in)
	}
	for _, in := range []string{"", "jane", "https://evil.example/jane", "https://network.example/company/x", "@jane"} {
		_, _, err := p.ParseAny(in)
		var malformed *identity.InvalidURLError
		require.ErrorAs(t, err, &malformed, in)
		require.Equal(t, "url", malformed.Field)
	}
}

func TestParseCompany_ReturnsTheSlug(t *testing.T) {
	p := identity.Default()
	for in, want := range map[string]string{
		"https://network.example/company/acme":                  "acme",
		"http://www.network.example/company/Acme-Inc/":          "Acme-Inc",
		"network.example/company/acme/about/?x=y#z":             "acme",
		"https://www.linkedin.com/company/caf%C3%A9":            "café",
		"linkedin.com/school/acme-university":                   "acme-university",
		"HTTPS://DE.LINKEDIN.COM/COMPANY/ACME":                  "ACME",
		"https%3A%2F%2Fnetwork.example%2Fcompany%2Facme":        "acme",
		" network.example/company/12345 ":                       "12345",
		"https://network.example/company/acme?trk=https://a.b/": "acme",
	} {
		got, err := p.ParseCompany(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, reason := range map[string]string{
		"":                                      "is empty",
		"acme":                                  "is not a URL of the professional network",
		"https://evil.example/company/acme":     "is not a URL of the professional network",
		"https://codehost.example/orgs/acme":    "is not a URL of the professional network",
		"https://network.example/in/jane":       "is a person's URL where a company's is needed",
		"https://network.example/company/":      "is not the URL of a company's page",
		"https://network.example/":              "is not the URL of a company's page",
		"https://network.example/company/a%2Fb": "has a malformed company slug",
		"ftp://network.example/company/acme":    "is not an http or https URL",
	} {
		_, err := p.ParseCompany(in)
		var malformed *identity.InvalidURLError
		require.ErrorAs(t, err, &malformed, in)
		require.Equal(t, reason, malformed.Reason, in)
	}
}

func TestFindAccounts_ReturnsDistinctAccountsInOrder(t *testing.T) {
	got := identity.Default().FindAccounts([]string{
		"https://codehost.example/Jane", "", "nonsense", "https://codehost.example/jane/", "https://x.com/@jane",
		"https://network.example/company/acme", "https://blog.example/jane", "http://uk.network.example/in/jane?x",
		"x.com/home",
	})
	require.Equal(t, []identity.Account{
		{Platform: "codehost", Username: "Jane"}, {Platform: "microblog", Username: "jane"},
		{Platform: "network", Username: "jane"},
	}, got)
	require.Empty(t, identity.Default().FindAccounts(nil))
}

func TestPlatforms_LinkIsParsedBack(t *testing.T) {
	p := identity.Default()
	require.Equal(t, "https://network.example/in/jane", p.Link("network", "jane"))
	require.Equal(t, "https://codehost.example/j%2Fx", p.Link("codehost", "j/x"))
	require.Empty(t, p.Link("myspace", "jane"))
	for _, platform := range identity.PlatformNames() {
		got, err := p.ParsePerson(platform, p.Link(platform, "Jérôme-👩‍💻"))
		require.NoError(t, err)
		require.Equal(t, "Jérôme-👩‍💻", got)
	}
}

func TestLoad_ValidatesPlatforms(t *testing.T) {
	entry := func(name, host string) string {
		return `{"name":"` + name + `","hosts":["` + host + `"],"link":"https://` + host +
			`/{username}","person":["/u/{username}"],"company":["/c/{slug}"]}`
	}
	own := `{"platforms":[` + entry("codehost", "git.corp.example") + "," + entry("network", "*.people.example") + "," +
		entry("microblog", "mb.example") + `]}`
	p, err := identity.Load(strings.NewReader(own))
	require.NoError(t, err)
	got, err := p.ParsePerson("codehost", "git.corp.example/u/jane")
	require.NoError(t, err)
	require.Equal(t, "jane", got)
	_, err = p.ParsePerson("network", "https://people.example/u/jane")
	require.ErrorContains(t, err, "foreign host", "*.x does not include x itself")
	got, err = p.ParseCompany("hr.people.example/c/acme")
	require.NoError(t, err)
	require.Equal(t, "acme", got)

	for name, bad := range map[string]string{
		"not JSON":          `{`,
		"unknown member":    strings.Replace(own, `"link"`, `"lnk"`, 1),
		"unknown platform":  strings.Replace(own, `"codehost"`, `"other"`, 1),
		"platform twice":    strings.Replace(own, `"network"`, `"codehost"`, 1),
		"platform missing":  `{"platforms":[` + entry("codehost", "a.example") + `]}`,
		"host twice":        strings.Replace(own, `["mb.example"]`, `["git.corp.example"]`, 1),
		"upper-case host":   strings.Replace(own, `["mb.example"]`, `["MB.example"]`, 1),
		"no hosts":          strings.Replace(own, `["mb.example"]`, `[]`, 1),
		"path without name": strings.Replace(own, `/u/{username}`, `/u`, 1),
		"path with two":     strings.Replace(own, `/c/{slug}`, `/{c}/{slug}`, 1),
		"relative path":     strings.Replace(own, `/c/{slug}`, `c/{slug}`, 1),
		"link without name": strings.Replace(own, `.example/{username}"`, `.example/"`, 1),
	} {
		_, err := identity.Load(strings.NewReader(bad))
		require.Error(t, err, name)
	}
}

func FuzzParsePerson(f *testing.F) {
	for _, s := range []string{"jane", "https://codehost.example/jane", "network.example/in/%C3%A9", "//x.com/@j",
		"https%3A%2F%2Fx.com%2Fj", "a:b", "codehost.example/%252e%252e/x"} {
		f.Add(s)
	}
	p := identity.Default()
	f.Fuzz(func(t *testing.T, s string) {
		for _, platform := range identity.PlatformNames() {
			name, err := p.ParsePerson(platform, s)
			if err != nil {
				var malformed *identity.InvalidURLError
				require.ErrorAs(t, err, &malformed)
				continue
			}
			key := identity.NormalizeUsername(name)
			require.NotEmpty(t, key, "accepted names have a key")
			// None of these change the result.
			link := p.Link(platform, name)
			for _, variant := range []string{link, strings.TrimPrefix(link, "https://"), link + "/", link + "?a=b",
				link + "#c", "  " + link + " "} {
				again, err := p.ParsePerson(platform, variant)
				if err != nil {
					// A name that is a page of the platform can only be given as a name.
					require.ErrorContains(t, err, "is not the URL of a person's profile", variant)
					continue
				}
				require.Equal(t, key, identity.NormalizeUsername(again), variant)
			}
		}
	})
}

func FuzzParseAny(f *testing.F) {
	for _, s := range []string{"https://codehost.example/jane", "network.example/in/%C3%A9", "//x.com/@j",
		"http://[::1]/in/x", "https://user:pw@x.com/j"} {
		f.Add(s)
	}
	p := identity.Default()
	f.Fuzz(func(t *testing.T, s string) {
		platform, name, err := p.ParseAny(s)
		if err != nil {
			return
		}
		again, err := p.ParsePerson(platform, s)
		require.NoError(t, err)
		require.Equal(t, name, again)
		require.Len(t, p.FindAccounts([]string{s, s}), 1)
		_, err = p.ParseCompany(s)
		require.Error(t, err, "a person's URL is never a company's")
	})
}
