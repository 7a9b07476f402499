package company_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/publicsuffix"

	"muster/schemas/company"
	"muster/schemas/place"
)

func TestRegistrableDomain_IsTheLabelBelowThePublicSuffix(t *testing.T) {
	for input, want := range map[string]string{
		"acme.example": "acme.example", " https://WWW.Acme.example:8443/about?x=y#z ": "acme.example",
		"http://shop.acme.co.uk": "acme.co.uk", "acme.github.io": "acme.github.io",
		"a.b.acme.github.io": "acme.github.io", "https://bücher.example/": "xn--bcher-kva.example",
		"acme.example.": "acme.example", "mail.gmail.com": "gmail.com",
		"co.uk": "", "github.io": "", "com": "", "localhost": "", "": "", "192.0.2.7": "", "https://[2001:db8::1]/": "",
		"ftp://acme.example": "", "https://user@acme.example": "", "acme example": "", "javascript:alert(1)": "",
		"https://": "", "-acme.example": "", strings.Repeat("a", 3000) + ".example": "", "acme..example": "",
	} {
		got, err := company.RegistrableDomain(input)
		require.Equal(t, want, got, input)
		require.Equal(t, want == "", err != nil, input)
	}
}

func TestWebsiteDomain_LeavesOutFreeMailAndSharedSites(t *testing.T) {
	for input, want := range map[string]struct {
		domain string
		main   bool
	}{
		"https://www.acme.example":                  {"acme.example", true},
		"acme.example/":                             {"acme.example", true},
		"https://de.acme.example":                   {"acme.example", false},
		"https://acme.example/en/home":              {"acme.example", false},
		"https://www.facebook.com":                  {"facebook.com", true},
		"https://www.facebook.com/acme":             {},
		"https://sites.google.com/view/acme":        {},
		"gmail.com":                                 {},
		"https://yahoo.co.uk":                       {},
		"https://outlook.fr/x":                      {},
		"":                                          {},
		"https://acme.blogspot.com":                 {"acme.blogspot.com", true}, // a public suffix
		"https://www.yahooligans.example/gmail.com": {"yahooligans.example", false},
	} {
		domain, main := company.WebsiteDomain(input)
		require.Equal(t, want.domain, domain, input)
		require.Equal(t, want.main, main, input)
	}
	require.True(t, company.IsFreeMail("gmx.net"))
	require.False(t, company.IsFreeMail("gmx-partner.example"))
}

func FuzzRegistrableDomain_IsStable(f *testing.F) {
	for _, seed := range []string{
		"https://www.acme.co.uk/x", "bücher.example", "1.2.3.4", "a.b.c.github.io", "%zz", "x:y@z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		domain, err := company.RegistrableDomain(input)
		if err != nil {
			require.Empty(t, domain)
			return
		}
		again, err := company.RegistrableDomain("https://sub." + domain + "/path")
		require.NoError(t, err)
		require.Equal(t, domain, again)
		suffix, _ := publicsuffix.PublicSuffix(domain)
		require.Len(t, strings.Split(strings.TrimSuffix(domain, "."+suffix), "."), 1)
	})
}

func TestNameKey_IgnoresCaseAccentsPunctuationAndLegalForm(t *testing.T) {
	for _, same := range [][]string{
		{"Acme", "ACME", "acme, Inc.", "Acme GmbH & Co. KG", "Acme Ltd"},
		{"Société Générale S.A.", "societe generale", "SOCIETE GENERALE SA"},
		{"Müller Söhne", "Muller Sohne"},
		{"Co", "CO"}, {"株式会社"},
	} {
		for _, name := range same {
			require.Equal(t, company.NameKey(same[0]), company.NameKey(name), name)
			require.NotEmpty(t, company.NameKey(name), name)
		}
	}
	require.NotEqual(t, company.NameKey("Acme"), company.NameKey("Acme Labs"))
	require.Empty(t, company.NameKey(" -- !"))
}

func TestNameScore_DependsOnLegalFormAndPlace(t *testing.T) {
	g := place.Default()
	lisbon, porto, berlin := g.Find("Lisbon, Portugal"), g.Find("Porto, Portugal"), g.Find("Berlin, Germany")
	portugal, none := g.Find("Portugal"), place.Place{}
	var scores []float64
	for _, c := range []struct {
		name         string
		at           place.Place
		company      string
		headquarters place.Place
		placed       bool
		want         float64
	}{
		{"Acme", none, "ACME", berlin, false, 1},
		{"Acme GmbH", none, "acme gmbh", none, false, 1},
		{"Acme", none, "Acme GmbH", none, false, 0.95},
		{"Acme Inc", none, "Acme GmbH", none, false, 0.6},
		{"Acme", none, "Apex", none, false, 0},
		{"Acme", lisbon, "Acme", lisbon, true, 1},
		{"Acme", portugal, "Acme", lisbon, true, 1},
		{"Acme", lisbon, "Acme", portugal, true, 0.9},
		{"Acme", lisbon, "Acme", porto, true, 0.5},
		{"Acme", lisbon, "Acme", berlin, true, 0.5},
		{"Acme", lisbon, "Acme", none, true, 0.9},
		{"Acme", none, "Acme", lisbon, true, 0.9},
		{"", none, "", none, false, 0},
	} {
		got := company.NameScore(c.name, c.at, c.company, c.headquarters, c.placed)
		require.InDelta(t, c.want, got, 1e-9, "%+v", c)
		scores = append(scores, got)
	}
	require.LessOrEqual(t, slices.Max(scores), 1.0)
}
