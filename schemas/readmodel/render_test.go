package readmodel

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
)

// The expected answers here are written by hand from schemas/MAPPING.md.

func rowsOf(tb testing.TB, recs ...*record.Record) *Batch {
	tb.Helper()
	r, b := NewRenderer(identity.Default()), &Batch{}
	for i, rec := range recs {
		require.NoError(tb, r.Rows(b, rec, Position{Topic: rec.Kind.Topic(), Partition: 3, Offset: int64(i)}))
	}
	return b
}

func (t *text) at(i int) string {
	begin := 0
	if i > 0 {
		begin = t.ends[i-1]
	}
	return string(t.arena[begin:t.ends[i]])
}

// object joins fragments as readers do.
func object(fragments ...string) string {
	var parts []string
	for _, f := range fragments {
		if f != "" {
			parts = append(parts, f)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// answerOf returns the answer of the first account of a batch, without repositories and commits.
func answerOf(t *testing.T, b *Batch) *AnswerRow {
	t.Helper()
	row, p := &AnswerRow{}, &b.codehostPeople
	content := appendSigned(appendUnsigned(appendSigned(appendUnsigned(nil, 1), 0), 0), p.common.version.list[0])
	content = appendFlag(appendUnsigned(content, p.common.contentHash.list[0]), false)
	for _, text := range []string{p.codehostUsername.list[0], p.usernameKey.list[0], p.accountType.list[0]} {
		content = appendField(content, text)
	}
	content = appendField(appendList(content, p.emailKeys.list[0]), p.networkUsername.list[0])
	content = appendUnsigned(appendList(content, p.networkUsernameKeys.list[0]), p.present.list[0])
	for range 7 { // repositories, commits, authors, their addresses twice, languages twice
		content = appendUnsigned(content, 0)
	}
	content = appendField(content, p.content.at(0))
	require.NoError(t, (*answerContent)(row).Scan(string(content)))
	return row
}

// accountIn returns the account in a shape.
func accountIn(r *AnswerRow, shape Shape) string {
	return string(r.AppendAccount([]byte{'{'}, shape)) + "}"
}

// entryIn returns a repository or commit in a shape.
func entryIn(content string, shape Shape) string {
	return string(appendPieces(nil, content[strings.LastIndex(content, fieldEnd)+1:], shape, ""))
}

// list repeats an element n times, "#" replaced by its index.
func list(n int, element string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(element, "#", fmt.Sprint(i))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func TestNetworkPerson_RendersAllShapes(t *testing.T) {
	const head = `"profile_id":"p_1","username":"ann","url":"https://network.example/in/ann",` +
		`"last_updated":"2026-03-01T10:00:00.250+02:00"`
	tests := []struct {
		name                         string
		record                       string // in addition to head
		enrich, webset, addon, email string // in addition to the identity; email in addition to webset
		open                         string // where it differs from webset
	}{
		{
			name: "absent values are left out",
			record: `"first_name":"","headline":null,"skills":[],"location":{},"experience":[{},null,{"summary":""}],` +
				`"languages":[{"language":null}],"current_position":{"company":{"name":""}}`,
		},
		{
			name: "plain values, zero and false are present",
			record: `"first_name":"Ann","middle_name":"B","last_name":"Ngũgĩ","full_name":"Ann \"B\" 🌍",` +
				`"photo":"https://x.example/p.png",
				"headline":"a\nb","summary":"שלום","connections":0,"followers":5,"following":-1,` +
				`"codehost_username":"annhub","microblog_username":"annm","social_accounts":["https://a.example",""]`,
			enrich: `"codehost_username":"annhub","microblog_username":"annm","social_accounts":` +
				`["https://a.example"],"social_accounts_count":1,
				"profile":{"first_name":"Ann","middle_name":"B","last_name":"Ngũgĩ","full_name":"Ann \"B\" 🌍",` +
				`"headline":"a\nb","summary":"שלום","image_url":"https://x.example/p.png","connections":0,` +
				`"followers":5,"following":-1}`,
			webset: `"first_name":"Ann","middle_name":"B","last_name":"Ngũgĩ","full_name":"Ann \"B\" 🌍",` +
				`"photo":"https://x.example/p.png",
				"headline":"a\nb","summary":"שלום","connections":0,"followers":5,"following":-1,` +
				`"codehost_username":"annhub","microblog_username":"annm","social_accounts":["https://a.example"],` +
				`"social_accounts_count":1`,
			addon: `"full_name":"Ann \"B\" 🌍","headline":"a\nb"`,
		},
		{
			name: "experience: newest first, ends, shapes of the search result",
			record: `"experience":[
				{"summary":"old","start":"2001","end":"2004-05"},
				{"title":"later","summary":"S","start":"2003-02-01T00:00:00Z","end":"2004-06","current":false,` +
				`"location":{"city":"Oslo","country":"Norway"},"company":{"name":"A",` +
				`"network_url":"https://network.example/company/a","company_id":"c1","size":3}},
				{"title":"now","description":"D","summary":"S","start":"2010","location":{"raw_address":"Rue 1, ` +
				`Paris","city":"Paris","floor":2},"team":"x"},
				{"title":"flagged","start":"2012-05","end":"2013","current":true},
				{"title":"stopped","current":false}]`,
			webset: `"experience":[
				{"title":"flagged","start":"2012-05","end":null,"current":true},
				{"title":"now","description":"D","summary":"S","start":"2010","end":null,"current":true,` +
				`"location":{"raw_address":"Rue 1, Paris","city":"Paris","floor":2},"team":"x"},
				{"title":"later","summary":"S","start":"2003-02-01T00:00:00Z","end":"2004-06","current":false,` +
				`"location":{"city":"Oslo","country":"Norway"},"company":{"name":"A",` +
				`"network_url":"https://network.example/company/a","company_id":"c1","size":3}},
				{"summary":"old","start":"2001","end":"2004-05","current":false},
				{"title":"stopped","current":false}],"experience_count":5,
				"current_position":{"title":"flagged","summary":"flagged","start":"2012-05-01","current":true},` +
				`"derived":["current_position"]`,
			addon: "=",
			enrich: `"experience":[
				{"title":"flagged","start_date":"2012-05-01","end_date":null,"is_current":true},
				{"title":"now","description":"D","start_date":"2010-01-01","end_date":null,"is_current":true,` +
				`"location":"Rue 1, Paris","team":"x"},
				{"title":"later","description":"S","start_date":"2003-02-01","end_date":"2004-06-01",` +
				`"is_current":false,"location":"Oslo, Norway","company_name":"A","company_id":"c1",` +
				`"company_url":"https://network.example/company/a"},
				{"title":"old","start_date":"2001-01-01","end_date":"2004-05-01","is_current":false},
				{"title":"stopped","is_current":false}],"experience_count":5`,
		},
		{
			name: "education and certifications",
			record: `"education":[{"summary":"x","end":"1999"},{"start":"2000","degrees":["BSc","","MSc"],` +
				`"majors":["M","N"],"minors":["P"],"school":{"name":"U",` +
				`"network_url":"https://network.example/school/u","school_id":"s"}},{"current":true,` +
				`"field_of_study":"F","majors":["Z"]}],
				"certifications":[{"name":"first"},{"name":"c19","issue_date":"2019","issuer":"I"},{"name":"c20",` +
				`"issue_date":"2020-01","credential_id":"7","credential_url":"https://c.example"}]`,
			webset: `"education":[{"current":true,"field_of_study":"F","majors":["Z"]},{"summary":"x","end":"1999"},` +
				`{"start":"2000","degrees":["BSc","MSc"],"majors":["M","N"],"minors":["P"],"school":{"name":"U",` +
				`"network_url":"https://network.example/school/u","school_id":"s"}}],"education_count":3,
				"certifications":[{"name":"c20","issue_date":"2020-01","credential_id":"7",` +
				`"credential_url":"https://c.example"},{"name":"c19","issue_date":"2019","issuer":"I"},` +
				`{"name":"first"}],"certifications_count":3`,
			addon: "=",
			enrich: `"education":[{"field_of_study":"F"},{"description":"x","end_date":"1999-01-01"},` +
				`{"start_date":"2000-01-01","degree":"BSc, MSc","field_of_study":"M, N","school_name":"U",` +
				`"school_id":"s","school_url":"https://network.example/school/u"}],"education_count":3,
				"certifications":[{"name":"c20","issue_date":"2020-01-01","credential_id":"7",` +
				`"credential_url":"https://c.example"},{"name":"c19","issue_date":"2019-01-01","issuer":"I"},` +
				`{"name":"first"}],"certifications_count":3`,
		},
		{
			name: "lists are cut at 100 and counted",
			record: `"skills":` + list(150, `{"skill":"s#"}`) + `,"languages":` + list(101, `{"language":"l#"}`) +
				`,"education":[{"degrees":` + list(102, `"d#"`) + `}]`,
			webset: `"skills":` + list(100, `{"skill":"s#"}`) + `,"skills_count":150,"languages":` +
				list(100, `{"language":"l#"}`) + `,"languages_count":101,"education_count":1,"education":[{"degrees":` +
				list(100, `"d#"`) + `,"degrees_count":102}]`,
			enrich: `"skills":` + list(100, `{"skill":"s#"}`) + `,"skills_count":150,"languages":` +
				list(100, `{"language":"l#"}`) + `,"languages_count":101,"education_count":1,"education":[{"degree":"` +
				strings.Trim(strings.ReplaceAll(list(102, `d#`), ",", ", "), "[]") + `"}]`,
			addon: `"skills":` + list(100, `{"skill":"s#"}`) +
				`,"skills_count":150,"education_count":1,"education":[{"degrees":` + list(100, `"d#"`) +
				`,"degrees_count":102}]`,
		},
		{
			name: "unknown fields are kept, reserved and absent ones are not",
			record: `"patents":` + list(101, `"p#"`) +
				`,"patents_count":7,"codehost":{"a":1},"network":1,"empty":[],"nothing":null,"derived":["mine"],` +
				`"deep":{"list":` + list(103, `#`) + `,"list_count":1,"nothing":null},"experience_count":9,
				"skills":[{"skill":"Go","level":3}],"location":{"country":"Peru","zip":"1"}`,
			webset: `"patents":` + list(100, `"p#"`) + `,"patents_count":101,"deep":{"list":` + list(100, `#`) +
				`,"list_count":103,"nothing":null},"skills":[{"skill":"Go","level":3}],"skills_count":1,"location":` +
				`{"country":"Peru","country_code":"PE","continent":"South America","raw_address":"Peru","zip":"1"},
				"derived":["location.continent","location.country_code","location.raw_address"]`,
			enrich: `"patents":` + list(100, `"p#"`) + `,"patents_count":101,"deep":{"list":` + list(100, `#`) +
				`,"list_count":103,"nothing":null},"skills":[{"skill":"Go","level":3}],"skills_count":1,` +
				`"profile":{"location":{"country":"Peru","country_code":"PE","continent":"South America",
				"raw_address":"Peru"}},"derived":["profile.location.continent","profile.location.country_code",
				"profile.location.raw_address"]`,
			addon: `"skills":[{"skill":"Go","level":3}],"skills_count":1,"derived":["location.continent",` +
				`"location.country_code","location.raw_address"]`,
		},
		{
			name: "e-mail",
			record: `"headline":"Write to Ann.B@Mail.example, or @ann","summary":"me＠mail.example / a%40b.example / ` +
				`odd+ann@localhost","emails":["odd+ann@localhost","ann.b@mail.example"],"contact_mail":"x",` +
				`"notes":{"E-Mail":"y","list":["c\u0040d.example",{"zip":"1"}]},"first_name":"Ann@home"`,
			webset: `"headline":"Write to [e-mail removed], or @ann","summary":"[e-mail removed] / [e-mail removed] ` +
				`/ [e-mail removed]","notes":{"list":["[e-mail removed]",{"zip":"1"}]},"first_name":"Ann@home"`,
			open: `"headline":"Write to Ann.B@Mail.example, or @ann","summary":"me＠mail.example / a%40b.example / ` +
				`odd+ann@localhost","contact_mail":"x","notes":{"E-Mail":"y","list":["c@d.example",{"zip":"1"}]},` +
				`"first_name":"Ann@home"`,
			email: `"personal_email":{"email":"odd+ann@localhost"},"emails":["odd+ann@localhost",` +
				`"ann.b@mail.example"],"emails_count":2`,
			enrich: `"profile":{"first_name":"Ann@home","headline":"Write to Ann.B@Mail.example, or @ann",` +
				`"summary":"me＠mail.example / a%40b.example / odd+ann@localhost",` +
				`"personal_email":"odd+ann@localhost"},"contact_mail":"x","notes":{"E-Mail":"y",` +
				`"list":["c@d.example",{"zip":"1"}]}`,
			addon: `"headline":"Write to [e-mail removed], or @ann"`,
		},
		{
			name: "personal e-mail before the list, full date of the current position",
			record: `"personal_email":"p@x.example","emails":["a@x.example"],"current_position":{"summary":"S",` +
				`"start":"2020-02","end":"2021","current":false,"company":{"name":"C"},"grade":4}`,
			webset: `"current_position":{"summary":"S","start":"2020-02-01","end":"2021-01-01","current":false,` +
				`"company":{"name":"C"},"grade":4}`,
			addon:  "=",
			email:  `"personal_email":{"email":"p@x.example"},"emails":["a@x.example"],"emails_count":1`,
			enrich: `"profile":{"personal_email":"p@x.example"}`,
		},
		{
			name:   "e-mail under the name of the enriched record",
			record: `"email":"e@x.example","emails":["a@x.example"]`,
			open:   `"email":"e@x.example"`,
			email:  `"personal_email":{"email":"e@x.example"},"emails":["a@x.example"],"emails_count":1`,
			enrich: `"profile":{"personal_email":"e@x.example"},"email":"e@x.example"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := rowsOf(t, decode(t, record.KindNetworkPerson, object(head, tt.record)))
			row := contentOf(t, b)
			if !strings.Contains(tt.enrich, `"profile":`) {
				tt.enrich = strings.TrimPrefix(tt.enrich+`,"profile":{}`, ",")
			}
			require.JSONEq(t,
				object(`"profile_id":"p_1","network_username":"ann","network_url":"https://network.example/in/ann"`,
					tt.enrich), object(shown(row, ShapeEnrich)))
			require.JSONEq(t, object(`"profile_id":"p_1","username":"ann","url":"https://network.example/in/ann"`,
				tt.webset), object(shown(row, ShapeWebset)))
			if tt.addon == "=" {
				tt.addon = tt.webset
			}
			require.JSONEq(t, object(`"username":"ann","url":"https://network.example/in/ann"`, tt.addon),
				object(shown(row, ShapeAddon)))
			if tt.open == "" {
				tt.open = tt.webset
			}
			require.JSONEq(t, object(`"profile_id":"p_1","username":"ann","url":"https://network.example/in/ann"`,
				tt.open), object(shown(row, ShapeOpen)))
			require.JSONEq(t, object(tt.email), object(shown(row, ShapeEmails)))
			require.Equal(t, "2026-03-01T10:00:00.250+02:00", b.networkPeople.lastUpdated.list[0])
			require.Equal(t, "2026-03-01T08:00:00.25Z", b.networkPeople.updatedAt.list[0])
		})
	}
}

// contentOf returns the only network person of a batch as readers see it.
func contentOf(t *testing.T, b *Batch) *NetworkPersonRow {
	t.Helper()
	row := new(NetworkPersonRow)
	require.NoError(t, (*networkContent)(row).Scan(b.networkPeople.content.at(0)))
	return row
}

func shown(row *NetworkPersonRow, shape Shape) string { return string(row.Append(nil, shape, false)) }

// lookupRows returns the rows of lookups of a batch.
func lookupRows(b *Batch) []LookupRow {
	out := make([]LookupRow, len(b.lookups.keyHash.list))
	for i := range out {
		r := &out[i]
		r.KeyHash = b.lookups.keyHash.list[i]
		r.ver.Lsh(r.ver.SetUint64(b.lookups.ver.list[i][0]), 64)
		r.ver.Or(&r.ver, new(big.Int).SetUint64(b.lookups.ver.list[i][1]))
		r.claim, r.Confidence = b.lookups.claim.at(i), b.lookups.confidence.list[i]
		r.read()
	}
	return out
}

func TestNetworkPerson_HasKeysAndLookups(t *testing.T) {
	rec := decode(t, record.KindNetworkPerson,
		`{"profile_id":"p_1","username":"Ann","last_updated":"2026","emails":["B@x.example","not one","b@X.example"],`+
			`"personal_email":"a@x.example",
		"codehost_username":"AnnHub","microblog_username":"@annm","social_accounts":`+
			`["https://www.codehost.example/annhub?x=1","http://codehost.example/other/",`+
			`"https://microblog.example/annm","mailto:b@x.example","https://network.example/in/zed"],`+
			`"phone":"+47 555 01 234"}`)
	b := rowsOf(t, rec)
	row := &b.networkPeople
	require.Equal(t, "ann", row.usernameKey.list[0])
	require.Equal(t, []string{"a@x.example", "b@x.example"}, row.emailKeys.list[0])
	require.Equal(t, []string{"annhub", "other"}, row.codehostUsernameKeys.list[0])
	require.Equal(t, []string{"annm"}, row.microblogUsernameKeys.list[0])

	var got []string
	for _, l := range lookupRows(b) {
		require.Equal(t, KeyHash(LookupType(l.Type), l.Value), l.KeyHash)
		require.Equal(t, "p_1", l.Target)
		require.Equal(t, TargetNetworkPerson, l.TargetKind)
		require.Equal(t, int64(rec.Version), l.Version)
		got = append(got, l.Type+" "+l.Value)
	}
	require.Equal(t, []string{
		"network.username ann", "network.email a@x.example", "email_md5 f94c13b37fe3a35a", "network.email b@x.example",
		"email_md5 c89739ef3541a47f", "phone 4755501234", "network.codehost_username annhub",
		"network.codehost_username other", "network.microblog_username annm",
		"handle.network ann",
	}, got)
}

func TestNetworkPerson_Deleted(t *testing.T) {
	b := rowsOf(t, decode(t, record.KindNetworkPerson,
		`{"profile_id":"p_1","last_updated":"2026","deleted":true,"emails":["a@x.example"]}`))
	require.Equal(t, []bool{true}, b.networkPeople.common.deleted.list)
	require.Empty(t, b.lookups.keyHash.list)
	row := contentOf(t, b)
	require.Equal(t, &NetworkPersonRow{ProfileID: "p_1", Version: row.Version, ContentHash: row.ContentHash,
		Deleted: true}, row)
}

func TestCodehostPerson_ServesAllNames(t *testing.T) {
	rec := decode(t, record.KindCodehostPerson,
		`{"user_id":7,"last_updated":"2026-01","codehost_username":"hk","full_name":"Hedda Kruse-Bahl",
		"last_name":"Kruse","names":["Hedda Kruse-Bahl","","Hedda K","Kruse","Hedda K","hkruse"]}`)
	b := rowsOf(t, rec)
	row := answerOf(t, b)
	require.Contains(t, accountIn(row, ShapeEnrich),
		`"names":["Hedda Kruse-Bahl","Kruse","Hedda K","hkruse"],"names_count":4`)
	require.Contains(t, accountIn(row, ShapeWebset),
		`"names":["Hedda Kruse-Bahl","Hedda K","Kruse","Hedda K","hkruse"],"names_count":5`)
	require.True(t, slices.ContainsFunc(lookupRows(b),
		func(r LookupRow) bool { return r.Type == string(LookupName(identity.Codehost)) }),
		"discovery finds the account by its other names")
}

func TestCodehostPerson_RendersAllShapes(t *testing.T) {
	rec := decode(t, record.KindCodehostPerson,
		`{"user_id":7,"last_updated":"2026-01","codehost_username":"AnnHub","type":"User","first_name":"Ann",`+
			`"last_name":"Bo","full_name":"Ann B. Bo",
		"avatar_url":"https://a.example/7","url":"https://codehost.example/annhub","bio":"mail me: ann@x.example",`+
			`"blog":"b","location":"Oslo","company":"@c","hireable":false,
		"location_canonical":{"city":"Oslo","latitude":59.9,"longitude":0,"code":1},"followers":3,"following":0,`+
			`"public_repos":2,"public_gists":1,"created_at":"2012-03","updated_at":"2026-02-03T23:30:00-05:00",
		"repo_languages":["Go"],"commit_count":12,"personal_email":"Ann@x.example","school_email":"s@u.example",`+
			`"additional_emails":["ann@X.example","z"],"emails":["e@x.example"],
		"personal_website":"w","social_accounts":["https://network.example/in/Ann-2","https://microblog.example/am"],`+
			`"network_username":"ann-1","microblog_username":"am",
		"starred_repos":[{"full_name":"a/b","owner_email":"q@x.example"},null],"issues":["i"],"follower_accounts":`+
			`["f"],"followed_accounts":[1],"x":{"y":1}}`)
	b := rowsOf(t, rec)
	row, answer := &b.codehostPeople, answerOf(t, b)
	const details = `"avatar_url":"https://a.example/7","company":"@c","location":"Oslo","followers":3,"following":0,` +
		`"public_repos":2,"public_gists":1,"type":"User","created_at":"2012-03-01","updated_at":"2026-02-03"`
	const location = `"location_canonical":{"city":"Oslo","latitude":59.9,"longitude":0,"code":1}`
	require.JSONEq(t, `{"user_id":7,"codehost_username":"AnnHub",`+details+
		`,"codehost":{"user_id":7,"codehost_username":"AnnHub",`+details+`},
		"first_name":"Ann","last_name":"Bo","full_name":"Ann B. Bo","bio":"mail me: ann@x.example","blog":"b",`+
		`"url":"https://codehost.example/annhub","personal_website":"w","microblog_username":"am","hireable":false,
		"names":["Ann B. Bo","Ann Bo"],"names_count":2,"emails":["e@x.example","Ann@x.example","s@u.example","z"],`+
		`"emails_count":4,"email":"Ann@x.example",
		"social_accounts":["https://network.example/in/Ann-2","https://microblog.example/am"],`+
		`"social_accounts_count":2,`+location+`,"repo_languages":["Go"],"repo_languages_count":1,"commit_count":12,`+
		`"x":{"y":1}}`, accountIn(answer, ShapeEnrich))
	require.JSONEq(t, `{"user_id":7,"codehost_username":"AnnHub","avatar_url":"https://a.example/7"}`,
		object(string(appendPieces(nil, answer.account, shapeSpecial, ""))))
	require.JSONEq(t, `{"user_id":7,"codehost_username":"AnnHub","type":"User","first_name":"Ann","last_name":"Bo",`+
		`"full_name":"Ann B. Bo","personal_email":"Ann@x.example","school_email":"s@u.example",
		"emails":["e@x.example"],"emails_count":1,"additional_emails":["ann@X.example","z"],`+
		`"additional_emails_count":2,"avatar_url":"https://a.example/7","url":"https://codehost.example/annhub",`+
		`"bio":"mail me: ann@x.example","blog":"b",
		"personal_website":"w","location":"Oslo",`+location+`,"company":"@c","hireable":false,"followers":3,`+
		`"following":0,"public_repos":2,"public_gists":1,"created_at":"2012-03-01T00:00:00Z",`+
		`"updated_at":"2026-02-03T23:30:00-05:00",
		"repo_languages":["Go"],"repo_languages_count":1,"commit_count":12,"social_accounts":`+
		`["https://network.example/in/Ann-2","https://microblog.example/am"],"social_accounts_count":2,`+
		`"network_username":"ann-1","microblog_username":"am",
		"starred_repos":[{"full_name":"a/b","owner_email":"q@x.example"}],"starred_repos_count":1,"issues":["i"],`+
		`"issues_count":1,"follower_accounts":["f"],"follower_accounts_count":1,"followed_accounts":[1],`+
		`"followed_accounts_count":1,"x":{"y":1},"names":["Ann B. Bo","Ann Bo"],"names_count":2,"derived":["names"]}`,
		accountIn(answer, ShapeWebset))
	const addon = `"user_id":7,"username":"AnnHub","full_name":"Ann B. Bo","url":"https://codehost.example/annhub",` +
		`"avatar_url":"https://a.example/7","blog":"b","personal_website":"w","company":"@c","location":"Oslo",` +
		`"type":"User","hireable":false,
		"followers":3,"following":0,"public_repos":2,"public_gists":1,"commit_count":12,` +
		`"created_at":"2012-03-01T00:00:00Z","updated_at":"2026-02-03T23:30:00-05:00","repo_languages":["Go"],` +
		`"repo_languages_count":1,"issues":["i"],"issues_count":1,"stars_count":1,`
	require.JSONEq(t, `{`+addon+`"bio":"mail me: [e-mail removed]","stars":[{"full_name":"a/b"}]}`,
		accountIn(answer, ShapeAddon))
	require.JSONEq(t, `{`+addon+
		`"bio":"mail me: ann@x.example","stars":[{"full_name":"a/b","owner_email":"q@x.example"}]}`,
		accountIn(answer, ShapeOpen))
	require.Equal(t, []string{"ann@x.example", "e@x.example", "s@u.example"}, row.emailKeys.list[0])
	require.Equal(t, []string{"ann-1", "ann-2"}, row.networkUsernameKeys.list[0])
	require.Equal(t, "ann-1", row.networkUsername.list[0])
	for _, l := range lookupRows(b) {
		require.Equal(t, "7", l.Target)
	}

	var met []string
	for _, name := range CodehostFields() {
		if mask, ok := CodehostFieldMask(name); ok && row.present.list[0]&mask != 0 {
			met = append(met, name)
		}
	}
	require.Equal(t, codehostFields(), met)
}

func TestCodehostPerson_WithoutFields(t *testing.T) {
	b := rowsOf(t, decode(t, record.KindCodehostPerson, `{"user_id":0,"last_updated":"2026","codehost_username":"a"}`))
	row := answerOf(t, b)
	const url = `"url":"https://codehost.example/a","derived":["url"]`
	require.JSONEq(t, `{"user_id":0,"codehost_username":"a","codehost":{"user_id":0,"codehost_username":"a"},`+url+`}`,
		accountIn(row, ShapeEnrich))
	require.JSONEq(t, `{"user_id":0,"codehost_username":"a",`+url+`}`, accountIn(row, ShapeWebset))
	require.JSONEq(t, `{"user_id":0,"username":"a",`+url+`}`, accountIn(row, ShapeAddon))
	require.JSONEq(t, accountIn(row, ShapeAddon), accountIn(row, ShapeOpen))
}

func TestEntries_RenderAllShapes(t *testing.T) {
	b := rowsOf(t,
		decode(t, record.KindCodehostRepo,
			`{"user_id":7,"id":1,"updated_at":"2020-02","name":"r","full_name":"a/r","description":"by a@x.example",`+
				`"topics":["x",""],"stargazers_count":0,"created_at":"2019","owner":{"n":1},"license":"MIT",`+
				`"repo_id":4}`),
		decode(t, record.KindCodehostRepo,
			`{"user_id":7,"id":2,"updated_at":"2020-02-03T04:05:06Z","deleted":true,"name":"r"}`),
		decode(t, record.KindCodehostCommit,
			`{"user_id":7,"sha":"abc","author_date":"2020","message":"m\n\nSigned-off-by: A <odd@local>",`+
				`"author_email":"odd@local","author_name":"A","repo":{"full_name":"a/r","language":"Go","n":1},`+
				`"k":true}`),
		decode(t, record.KindCodehostCommit, `{"user_id":7,"sha":"def","author_date":"2020","message":"plain"}`),
		decode(t, record.KindCodehostList, `{"user_id":7,"list":"repos","last_updated":"2021","items":["1","2"]}`),
	)
	repos := &b.codehostRepos
	require.JSONEq(t, `{"id":1,"updated_at":"2020-02","name":"r","full_name":"a/r","description":"by a@x.example",`+
		`"topics":["x"],"stargazers_count":0,"created_at":"2019","owner":{"n":1},"license":"MIT","repo_id":4}`,
		entryIn(repos.content.at(0), ShapeWebset))
	require.JSONEq(t, `{"id":1,"updated_at":"2020-02","name":"r","full_name":"a/r","description":"by [e-mail `+
		`removed]","topics":["x"],"stargazers_count":0,"created_at":"2019","owner":{"n":1},"license":"MIT",`+
		`"repo_id":4}`, entryIn(repos.content.at(0), ShapeAddon))
	require.JSONEq(t, `{"repo_id":1,"updated_at":"2020-02-01","name":"r","full_name":"a/r","description":"by `+
		`a@x.example","topics":["x"],"stargazers_count":0,"created_at":"2019-01-01","license":"MIT"}`,
		entryIn(repos.content.at(0), ShapeEnrich))
	require.Equal(t, []bool{false, true}, repos.common.deleted.list)
	require.Empty(t, repos.content.at(1))

	commits := &b.codehostCommits
	require.JSONEq(t, `{"sha":"abc","author_date":"2020","message":"m\n\nSigned-off-by: A <odd@local>",`+
		`"author_email":"odd@local","author_name":"A","repo":{"full_name":"a/r","language":"Go","n":1},"k":true}`,
		entryIn(commits.content.at(0), ShapeWebset))
	require.JSONEq(t, `{"sha":"abc","author_date":"2020","message":"m\n\nSigned-off-by: A <[e-mail removed]>",`+
		`"author_name":"A","repo":{"full_name":"a/r","language":"Go","n":1},"k":true}`,
		entryIn(commits.content.at(0), ShapeAddon))
	require.Equal(t, entryIn(commits.content.at(1), ShapeWebset), entryIn(commits.content.at(1), ShapeAddon))
	require.Equal(t, "\x00A\x00odd@local\x00odd@local", commits.content.at(0)[:strings.LastIndex(commits.content.at(0),
		fieldEnd)])
	require.Equal(t, [][]string{{"1", "2"}}, b.codehostLists.items.list)
}

func TestNetworkCompany_IsRendered(t *testing.T) {
	tests := []struct{ name, record, company string }{
		{"nothing", `"network_slug":"","profile":{"specialties":[""]},"headquarters":{"city":null},"images":{}`, ``},
		{
			"all", `"network_slug":"Acme","network_id":"12","profile":{"name":"Acme","tagline":"t","description":"d",` +
				`"industry":"i","company_size":"1-10","employees":0,"founded":1999,"website":"w","phone":"p",` +
				`"specialties":["a","b"],"m":1},
			"headquarters":{"city":"Oslo","zone":9},"images":{"logo":"l","cover":"c"},"emails":["info@acme.example"]`,
			`"network_slug":"Acme","network_id":"12","profile":{"name":"Acme","tagline":"t","description":"d",` +
				`"industry":"i","company_size":"1-10","employees":0,"founded":1999,"website":"w","phone":"p",` +
				`"specialties":["a","b"],"m":1},
			"headquarters":{"city":"Oslo","region":null,"country":null,"postal_code":null,"line1":null,"line2":null,` +
				`"zone":9},"images":{"logo":"l","cover":"c"},"emails":["info@acme.example"]`,
		},
		{"cut specialties", `"profile":{"specialties":` + list(101, `"s#"`) + `}`, `"profile":{"specialties":` +
			list(100, `"s#"`) + `,"specialties_count":101}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := rowsOf(t, decode(t, record.KindNetworkCompany, object(`"company_id":"c_1","last_updated":"2026"`,
				tt.record)))
			require.JSONEq(t, object(`"company_id":"c_1"`, tt.company), object(b.networkCompanies.company.at(0)))
		})
	}
}

func TestAccountLink_HasLookupsOfBothSides(t *testing.T) {
	b := rowsOf(t,
		decode(t, record.KindAccountLink,
			`{"a":{"platform":"codehost","username":"AnnHub"},"b":{"platform":"network","username":"ann-1"},`+
				`"source":"bio","observed_at":"2026","confidence":0.5}`),
		decode(t, record.KindAccountLink,
			`{"a":{"platform":"codehost","username":"AnnHub"},"b":{"platform":"microblog","username":"am"},`+
				`"source":"bio","observed_at":"2026","deleted":true}`),
	)
	var got []string
	for _, l := range lookupRows(b) {
		got = append(got, fmt.Sprint(l.Type, " ", l.Value, " ", l.Target, " ", l.Source, " ", l.Confidence, " ",
			l.ver.Bit(verDeleted) == 1))
	}
	require.Equal(t, []string{
		"link.codehost annhub network:ann-1 bio 0.5 false", "link.network ann-1 codehost:annhub bio 0.5 false",
		"link.codehost annhub microblog:am bio 1 true", "link.microblog am codehost:annhub bio 1 true",
	}, got)
}

// Names of fields in must_have and bits agree.
func TestFieldMask_CoversMustHaveFields(t *testing.T) {
	mask, ok := NetworkFieldMask("personal_email")
	require.True(t, ok)
	require.Equal(t, netPersonalEmail, mask)
	mask, ok = CodehostFieldMask("last_updated")
	require.True(t, ok)
	require.Equal(t, hostLastUpdated, mask)
	_, ok = NetworkFieldMask(FieldCodehost)
	require.False(t, ok)
	require.Contains(t, NetworkFields(), FieldCodehost)
}

// A rendering is valid JSON for any text, and has no address without the add-on.
func FuzzNetworkPerson(f *testing.F) {
	f.Add("Ann", "mail a@b.example", "a@b.example", `{"k":["x@y.zz"]}`)
	f.Fuzz(func(t *testing.T, name, text, email, unknown string) {
		raw, err := json.Marshal(map[string]any{"profile_id": "p", "username": "u", "last_updated": "2026",
			"full_name": name, "summary": text, "emails": []string{email}, "raw": unknown})
		if err != nil {
			return
		}
		rec, err := record.Decode(record.KindNetworkPerson, raw)
		if err != nil {
			return
		}
		b := rowsOf(t, rec)
		row := contentOf(t, b)
		for _, shape := range []Shape{ShapeEnrich, ShapeWebset, ShapeAddon, ShapeOpen, ShapeEmails} {
			fragment := shown(row, shape)
			var any map[string]any
			require.NoError(t, json.Unmarshal([]byte("{"+fragment+"}"), &any), "%q", fragment)
		}
		shown := shown(row, ShapeWebset) + shown(row, ShapeAddon)
		if interiorAt(email) && !strings.ContainsAny(email, "\"\\") {
			require.NotContains(t, strings.ToLower(shown), strings.ToLower(email))
		}
	})
}

// Covers the fifth list.
func TestCodehostPerson_RemovesOwnAddressesFromTexts(t *testing.T) {
	rec := decode(t, record.KindCodehostPerson, `{"user_id":7,"codehost_username":"ann","last_updated":"2026-01-01",
		"bio":"a@one b@two c@three d@four e@five","emails":["a@one"],"email":"b@two","personal_email":"c@three",`+
		`"school_email":"d@four","additional_emails":["e@five"]}`)
	b := rowsOf(t, rec)
	require.Contains(t, accountIn(answerOf(t, b), ShapeAddon),
		`"bio":"[e-mail removed] [e-mail removed] [e-mail removed] [e-mail removed] [e-mail removed]"`)
}
