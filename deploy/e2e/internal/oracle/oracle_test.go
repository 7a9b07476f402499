package oracle_test

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
	"muster/schemas/sampledata"
)

// sink keeps a world in memory.
type sink struct {
	store *oracle.Store
	truth bytes.Buffer
}

func (s *sink) Record(kind string, json []byte) error {
	return s.store.Add(kind, bytes.Clone(json))
}

func (s *sink) Truth(json []byte) error {
	s.truth.Write(json)
	return s.truth.WriteByte('\n')
}

// The generator's truth file is independent of the oracle.
func TestStore_UsernameHoldersEqualTheTruth(t *testing.T) {
	s := &sink{store: oracle.New()}
	require.NoError(t, sampledata.Generate(t.Context(), sampledata.Options{People: 600, Seed: 4}, s, nil))
	require.NoError(t, s.store.Seal())

	lines := bufio.NewScanner(&s.truth)
	lines.Buffer(nil, 4<<20)
	asked := map[string]int{}
	for lines.Scan() {
		var line struct {
			Type     string  `json:"type"`
			Platform string  `json:"platform"`
			Handle   string  `json:"handle"`
			Holder   *string `json:"holder"`
			Email    string  `json:"email"`
			Network  *string `json:"network"`
			Codehost *string `json:"codehost"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		switch line.Type + " " + line.Platform {
		case "handle network":
			require.Equal(t, line.Holder, profileID(s.store.Profile(line.Handle)), line.Handle)
		case "handle codehost":
			if line.Holder != nil && s.store.IsOrganization(*line.Holder) {
				line.Holder = nil
			}
			require.Equal(t, line.Holder, accountID(s.store.Account(line.Handle)), line.Handle)
		case "handle network-company":
			c := s.store.CompanyBySlug(line.Handle)
			require.Equal(t, line.Holder != nil, c != nil, line.Handle)
			if c != nil {
				require.Equal(t, *line.Holder, c.ID)
			}
		case "email ":
			require.Equal(t, line.Network, profileID(s.store.ProfileByEmail(line.Email)))
			// The truth has no addresses of commits.
			a := s.store.AccountByEmail(line.Email)
			if (line.Codehost == nil || !s.store.IsOrganization(*line.Codehost)) && !s.store.HasByCommit(a, line.Email) {
				require.Equal(t, line.Codehost, accountID(a))
			}
		default:
			continue
		}
		asked[line.Type+" "+line.Platform]++
	}
	require.NoError(t, lines.Err())
	require.Len(t, asked, 4, "some kind of name was not compared: %v", asked)
}

func profileID(p *oracle.Profile) *string {
	if p == nil {
		return nil
	}
	return &p.ID
}

func accountID(a *oracle.Account) *string {
	if a == nil {
		return nil
	}
	id := fmt.Sprint(a.ID)
	return &id
}

// The expected answers are written by hand.
func TestOracle_HandWrittenAnswers(t *testing.T) {
	s := oracle.New()
	add := func(kind, record string) { require.NoError(t, s.Add(kind, []byte(record))) }
	add(oracle.NetworkPerson, `{"profile_id":"p1","username":"Ada","last_updated":"2026-03","full_name":"Ada L.","middle_name":"",
		"summary":"Ask Ada.L+work@Post.Example or root@host, or a%40b.example. Not @ada, not a@b.",
		"emails":["root@host"],"contact":{"e_mail":"x","fax":"1","via":["ada@post.example"]},"gmail":"x","empty":[],
		"experience":[
			{"summary":"Old","start":"2001","end":"2003-02"},
			{"title":"Now","summary":"Engines","start":"2010-05","company":{"name":"Mill","network_url":null}},
			{"summary":"","location":{"city":""}},
			{"title":"Then","start":"1999","end":"2003-03-04T05:06:07Z","current":false}]}`)
	add(oracle.NetworkPerson, `{"profile_id":"p1","username":"countess","last_updated":"2026-02-28T23:59:59Z"}`)
	add(oracle.CodehostPerson, `{"user_id":7,"codehost_username":"ada-l","last_updated":"2026-01-01","created_at":"2015",
		"personal_email":"ada@post.example","emails":["ADA@post.example","not one"],"first_name":"Ada","full_name":"Ada",
		"social_accounts":["https://www.Network.example/in/ADA/?x=1"],"followers":0,
		"repos":[{"id":2,"name":"b","updated_at":"2020-01-01"},{"id":1,"name":"a","updated_at":"2020-01-01"}],"repos_complete":true}`)
	add(oracle.CodehostRepo, `{"user_id":7,"id":3,"name":"gone","updated_at":"2025-12-31"}`)
	add(oracle.CodehostRepo, `{"user_id":7,"id":4,"name":"new","updated_at":"2026-01-02"}`)
	add(oracle.NetworkCompany, `{"company_id":"c","network_slug":"Mill","last_updated":"2026","headquarters":{"city":"London","line1":""},"profile":{"name":""}}`)
	require.NoError(t, s.Seal())

	ada, account := s.Profile("ADA"), s.Account("Ada-L")
	require.NotNil(t, ada)
	require.Nil(t, s.Profile("countess"))
	require.Same(t, account, s.LinkedAccount(ada))
	require.Same(t, ada, s.LinkedProfile(account))
	require.Same(t, account, s.AccountOrID("7"))

	equal := func(name, want string, got any) {
		t.Helper()
		w, err := oracle.Decode([]byte(want))
		require.NoError(t, err)
		require.Empty(t, oracle.Diff(w, got), name)
	}
	equal("network webset", `{"profile_id":"p1","username":"Ada","last_updated":"2026-03-01T00:00:00Z","full_name":"Ada L.","first_name":"Ada",
		"url":"https://network.example/in/Ada","derived":["current_position","first_name","url"],
		"current_position":{"title":"Now","summary":"Engines","start":"2010-05-01","current":true,"company":{"name":"Mill"}},
		"summary":"Ask [e-mail removed] or [e-mail removed], or [e-mail removed]. Not @ada, not a@b.",
		"contact":{"fax":"1","via":["[e-mail removed]"]},"experience_count":3,"experience":[
			{"title":"Now","summary":"Engines","start":"2010-05","end":null,"current":true,"company":{"name":"Mill"}},
			{"title":"Then","start":"1999","end":"2003-03-04T05:06:07Z","current":false},
			{"summary":"Old","start":"2001","end":"2003-02","current":false}]}`,
		s.NetworkWebset(ada, oracle.NetworkOptions{}))
	equal("person.network", `{"profile_id":"p1","network_username":"Ada","updated_at":"2026-03-01T00:00:00Z",
		"network_url":"https://network.example/in/Ada","derived":["network_url","profile.first_name"],
		"profile":{"full_name":"Ada L.","first_name":"Ada","summary":"Ask Ada.L+work@Post.Example or root@host, or a%40b.example. Not @ada, not a@b.","personal_email":"root@host"},
		"contact":{"e_mail":"x","fax":"1","via":["ada@post.example"]},"gmail":"x","experience_count":3,"experience":[
			{"title":"Now","description":"Engines","company_name":"Mill","start_date":"2010-05-01","end_date":null,"is_current":true},
			{"title":"Then","start_date":"1999-01-01","end_date":"2003-03-04","is_current":false},
			{"title":"Old","start_date":"2001-01-01","end_date":"2003-02-01","is_current":false}]}`,
		s.EnrichedNetwork(ada))
	equal("person.codehost", `{"user_id":7,"codehost_username":"ada-l","last_updated":"2026-01-01T00:00:00Z","first_name":"Ada","full_name":"Ada",
		"url":"https://codehost.example/ada-l","derived":["names","url"],"created_at":"2015-01-01","followers":0,"codehost":{"user_id":7,"codehost_username":"ada-l","followers":0,"created_at":"2015-01-01"},
		"names":["Ada","Ada L."],"names_count":2,"emails":["ADA@post.example","not one"],"emails_count":2,"email":"ada@post.example",
		"social_accounts":["https://www.Network.example/in/ADA/?x=1"],"social_accounts_count":1,"network_username":"Ada",
		"repos_count":3,"repos":[
			{"repo_id":4,"name":"new","updated_at":"2026-01-02","owner":{"user_id":7,"codehost_username":"ada-l"}},
			{"repo_id":1,"name":"a","updated_at":"2020-01-01","owner":{"user_id":7,"codehost_username":"ada-l"}},
			{"repo_id":2,"name":"b","updated_at":"2020-01-01","owner":{"user_id":7,"codehost_username":"ada-l"}}]}`,
		s.EnrichedCodehost(account))
	equal("company", `{"company_id":"c","network_slug":"Mill","last_updated":"2026-01-01T00:00:00Z",
		"headquarters":{"city":"London","region":null,"country":null,"postal_code":null,"line1":null,"line2":null}}`,
		s.CompanyBySlug("mill").Render())
	require.True(t, s.NetworkPresent(ada)["personal_email"])
	require.False(t, s.NetworkPresent(ada)["middle_name"])
	require.True(t, s.CodehostPresent(account)["network"])
}

func TestSeal_RejectsTwoContentsOfOneVersion(t *testing.T) {
	s := oracle.New()
	for _, username := range []string{"a", "a", "b"} {
		require.NoError(t, s.Add(oracle.NetworkPerson, fmt.Appendf(nil, `{"profile_id":"p","username":%q,"last_updated":"2026"}`, username)))
	}
	require.ErrorContains(t, s.Seal(), "network-person p")
}

func TestDiff_ListsEachDifference(t *testing.T) {
	for name, c := range map[string]struct{ want, got, diff string }{
		"equal":   {`{"a":[1,{"b":null}]}`, `{"a":[1.0,{"b":null}]}`, ""},
		"value":   {`{"a":[1,"x"]}`, `{"a":[1,"y"]}`, `$.a[1]: want "x", got "y"`},
		"type":    {`{"a":1}`, `{"a":"1"}`, `$.a: want 1, got "1"`},
		"missing": {`{"a":null}`, `{}`, `$.a: want null, got none`},
		"more":    {`{}`, `{"a":true}`, `$.a: want none, got true`},
		"length":  {`[1]`, `[1,2]`, `$: want 1 entries, got 2`},
		"list":    {`null`, `[]`, `$: want null, got []`},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := oracle.Decode([]byte(c.want))
			require.NoError(t, err)
			got, err := oracle.Decode([]byte(c.got))
			require.NoError(t, err)
			require.Equal(t, c.diff, oracle.Diff(want, got))
		})
	}
}
