package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"muster/deploy/e2e/internal/oracle"
)

// personSpellings are forms of a person's identifier: "schemes, www., trailing slashes, queries, fragments, letter case
// and percent-escapes never change what is found" (rulings.md, Names). %s is the username.
var personSpellings = map[string][]string{
	"network": {
		"%s", "https://network.example/in/%s", "http://www.network.example/in/%s/", "HTTPS://WWW.Network.EXAMPLE/IN/%s",
		"network.example/in/%s?trk=people&x=https://elsewhere.example/in/other", "www.network.example/in/%s/#about",
		"//network.example/in/%s",
		"https://xy.network.example/in/%s/?a=b#c", "https://www.linkedin.com/in/%s",
	},
	"codehost": {
		"%s", "https://codehost.example/%s", "http://www.codehost.example/%s/",
		"HTTPS://CODEHOST.example/%s?tab=repositories",
		"codehost.example/%s#readme", "www.codehost.example/%s//", "https://github.com/%s",
	},
}

var companySpellings = []string{
	"https://network.example/company/%s", "network.example/company/%s/",
	"HTTP://WWW.NETWORK.EXAMPLE/Company/%s?trk=x#y",
	"https://www.network.example/company/%s/about/", "https://linkedin.com/company/%s",
}

// usernameSpellings are upper, lower and mixed case, and percent-escapes of all or some bytes.
var usernameSpellings = []func(string) string{
	func(s string) string { return s },
	strings.ToUpper,
	func(s string) string { return escape(s, 1) },
	func(s string) string { return strings.ToLower(escape(s, 2)) },
	func(s string) string { return escape(strings.ToUpper(s), 3) },
}

// escape percent-encodes every nth byte, and all non-ASCII bytes.
func escape(s string, nth int) string {
	var b strings.Builder
	for i, c := range []byte(s) {
		if i%nth == 0 || c >= 0x80 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func spellings(t *testing.T, c *checker, rng *rand.Rand, tr truth) {
	t.Helper()
	// A few letters do not survive upper and then lower case.
	upperIsSafe := func(name string) bool { return strings.ToLower(strings.ToUpper(name)) == name }
	draw := func(platform string) []string {
		var names []string
		handles := tr.handles[platform]
		for tries := 0; len(names) < 12 && tries < 10*len(handles); tries++ {
			h := handles[rng.IntN(len(handles))]
			if h.holder != "" && !(platform == "codehost" && c.store.IsOrganization(h.holder)) && upperIsSafe(h.name) &&
				(len(names) > 3 || len(h.name) != len([]rune(h.name)) || tries > len(handles)) {
				names = append(names, h.name)
			}
		}
		return names
	}
	type question struct {
		platform, spelling, name string
	}
	var questions []question
	for platform, forms := range personSpellings {
		for _, name := range draw(platform) {
			for i, form := range forms {
				questions = append(questions,
					question{platform, fmt.Sprintf(form, usernameSpellings[i%len(usernameSpellings)](name)), name})
			}
			for _, spell := range usernameSpellings {
				questions = append(questions,
					question{platform, fmt.Sprintf(forms[rng.IntN(len(forms))], spell(name)), name})
			}
		}
	}
	// In a list, as a single record with GET, and in person enrichment.
	check(t, c, callers, questions, func(ctx context.Context, q question) error {
		w := webset{identifiers: []asked{{identifier: q.spelling}}}
		record, err := c.get(ctx, q.platform, w)
		if err != nil {
			return err
		}
		listed, err := c.ask(ctx, q.platform, w)
		if err != nil {
			return err
		}
		same := webset{identifiers: []asked{{identifier: q.name}}}
		checkRecord := c.networkRecord
		request := map[string]any{"network_username": q.spelling}
		if q.platform == "codehost" {
			checkRecord = c.codehostRecord
			request = map[string]any{"codehost": q.spelling}
		}
		if err := checkRecord(same, 0, record); err != nil {
			return fmt.Errorf("%q: %w", q.spelling, err)
		}
		if string(listed[0]) != string(record) {
			return c.problem("%q gives another record in a list", q.spelling)
		}
		request["websets"] = []string{q.platform}
		got, err := c.send(ctx, func() (answer, error) { return c.api.post(ctx, "/v1/person/enrich", request) })
		if err != nil {
			return err
		}
		if got.status != http.StatusOK || !strings.Contains(string(got.body), `"websets_matched":["`+q.platform+`"]`) {
			return c.problem("enrich %v: status %d, %.200s", request, got.status, got.body)
		}
		return nil
	})

	type company struct {
		body map[string]string
		want *oracle.Company
	}
	var companies []company
	for _, name := range draw(oracle.NetworkCompany) {
		want := c.store.CompanyBySlug(name)
		for i, form := range companySpellings {
			companies = append(companies,
				company{map[string]string{"network_url": fmt.Sprintf(form,
					usernameSpellings[i%len(usernameSpellings)](name))}, want})
		}
		companies = append(companies,
			company{map[string]string{"network_slug": strings.ToUpper(name)}, want},
			// Tried in order; the first match is returned (interface.md).
			company{map[string]string{"network_slug": "missing-" + name, "network_id": "none",
				"network_url": "network.example/company/" + name, "company_id": "none"}, want},
			company{map[string]string{"network_slug": "missing-" + name, "network_id": "none",
				"network_url": "network.example/company/none", "company_id": want.ID}, want},
			company{map[string]string{"network_slug": name, "company_id": "none"}, want},
		)
	}
	check(t, c, callers, companies,
		func(ctx context.Context, q company) error { return c.company(ctx, q.body, q.want) })
}
