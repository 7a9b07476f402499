package suppress_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func key(t testing.TB, fill byte) *suppress.Key {
	t.Helper()
	material := make([]byte, suppress.KeySize)
	for i := range material {
		material[i] = fill
	}
	k, err := suppress.NewKey(material)
	require.NoError(t, err)
	return k
}

// Compares with the library.
func TestHash_IsHMAC(t *testing.T) {
	material := make([]byte, suppress.KeySize)
	for i := range material {
		material[i] = 7
	}
	for _, typ := range append(suppress.Types(), suppress.MicroblogUserID, suppress.CodehostAccount,
		suppress.NetworkAccount, suppress.MicroblogAccount) {
		sum := sha256.Sum256([]byte("ada@example.com"))
		mac := hmac.New(sha256.New, material)
		mac.Write([]byte(typ))
		mac.Write([]byte{0})
		mac.Write(sum[:])
		require.Equal(t, hex.EncodeToString(mac.Sum(nil)[:16]), key(t, 7).Of(typ, "ada@example.com").String())
	}
}

func TestNormalize_ReturnsOneFormOrRejects(t *testing.T) {
	for _, c := range []struct {
		typ      suppress.Type
		in, want string
		fails    bool
	}{
		{suppress.Email, " Ada@Example.COM ", "ada@example.com", false},
		{suppress.Email, "ada", "", true},
		{suppress.Phone, "+1 (415) 555-0100", "14155550100", false},
		{suppress.Phone, "0049 30 123456", "4930123456", false},
		{suppress.Phone, "call me", "", true},
		{suppress.Phone, "123", "", true},
		{suppress.NetworkUsername, "@Ada-L", "ada-l", false},
		{suppress.CodehostUsername, "a b", "", true},
		{suppress.UserID, "0042", "42", false},
		{suppress.UserID, "-1", "", true},
		{suppress.ProfileID, " p_1 ", "p_1", false},
		{suppress.ProfileID, "", "", true},
		{"name", "Ada", "", true},
	} {
		got, err := suppress.Normalize(c.typ, c.in)
		require.Equal(t, c.fails, err != nil, "%s %q: %v", c.typ, c.in, err)
		require.Equal(t, c.want, got)
		if err == nil {
			again, err := suppress.Normalize(c.typ, got)
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
	}
}

// put applies an entry with its mark, or the one that it has.
func put(t testing.TB, s *suppress.Set, typ suppress.Type, value string, e suppress.Entry) {
	t.Helper()
	e.Type, e.Key = typ, s.Key().ID()
	if e.Mark == "" {
		e.Mark = s.Key().Mark(typ, suppress.Sum(value))
	}
	if e.Scope == "" {
		e.Scope = suppress.All
	}
	if e.RequestedAt == "" {
		e.RequestedAt = "2026-11-20"
	}
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	require.NoError(t, s.Apply([]byte(s.Key().Of(typ, value).String()), raw))
}

func decode(t testing.TB, kind record.Kind, raw string) *record.Record {
	t.Helper()
	r, err := record.Decode(kind, []byte(raw))
	require.NoError(t, err)
	return r
}

const (
	networkAda = `{"profile_id":"p1","username":"ada-l","emails":["Ada@Example.com"],"mobile_phone":"415-555-0100",` +
		`"last_updated":"2026"}`
	codehostAda = `{"user_id":42,"codehost_username":"Ada","personal_email":"ada@example.com","last_updated":"2026"}`
)

func TestRecord_IsSuppressedByItsIdentifiersOnly(t *testing.T) {
	kinds := map[string]*record.Record{
		"network":  decode(t, record.KindNetworkPerson, networkAda),
		"codehost": decode(t, record.KindCodehostPerson, codehostAda),
		"repo":     decode(t, record.KindCodehostRepo, `{"user_id":42,"id":1,"updated_at":"2026"}`),
		"commit": decode(t, record.KindCodehostCommit,
			`{"user_id":7,"sha":"a","author_email":"ADA@example.com","author_date":"2026"}`),
		"microblog": decode(t, record.KindMicroblogPerson, `{"user_id":"m1","username":"ada_m","last_updated":"2026"}`),
		"link": decode(t, record.KindAccountLink,
			`{"a":{"platform":"codehost","username":"ada"},"b":{"platform":"network","username":"someone"},`+
				`"source":"s","observed_at":"2026"}`),
		"company": decode(t, record.KindNetworkCompany,
			`{"company_id":"p1","network_slug":"ada-l","last_updated":"2026"}`),
		"withdrawn": decode(t, record.KindNetworkPerson, `{"profile_id":"p1","deleted":true,"last_updated":"2026"}`),
	}
	for _, c := range []struct {
		typ   suppress.Type
		value string
		scope suppress.Scope
		hits  []string
	}{
		{suppress.Email, "ada@example.com", "", []string{"network", "codehost", "commit"}},
		{suppress.Email, "ada@example.com", suppress.Network, []string{"network"}},
		{suppress.Email, "ada@example.com", suppress.Codehost, []string{"codehost", "commit"}},
		{suppress.Phone, "14155550100", "", []string{"network"}},
		{suppress.Phone, "4155550100", "", []string{"network"}},
		{suppress.NetworkUsername, "ada-l", "", []string{"network"}},
		{suppress.NetworkUsername, "someone", "", []string{"link"}},
		{suppress.CodehostUsername, "ada", "", []string{"codehost", "link"}},
		{suppress.CodehostAccount, "ada", "", []string{"link"}},
		{suppress.MicroblogUsername, "ada_m", "", []string{"microblog"}},
		{suppress.MicroblogUsername, "ada_m", suppress.Network, nil},
		{suppress.MicroblogUserID, "m1", "", []string{"microblog"}},
		{suppress.ProfileID, "p1", "", []string{"network", "withdrawn"}},
		{suppress.UserID, "42", "", []string{"codehost", "repo"}},
		{suppress.UserID, "42", suppress.Network, nil},
	} {
		for _, mark := range []string{"", unmarked} {
			s := suppress.NewSet(key(t, 1))
			put(t, s, c.typ, c.value, suppress.Entry{Scope: c.scope, Mark: mark})
			for name, r := range kinds {
				_, hit := s.Record(r)
				require.Equal(t, contains(c.hits, name), hit, "%s=%s %s: %s %s", c.typ, c.value, c.scope, name, mark)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func TestSet_NewestEntryWins(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	ada := suppress.Subject{Platform: identity.Network, Emails: []string{"ada@example.com"}}
	hit := func() bool { _, ok := s.Subject(ada); return ok }
	require.False(t, hit())
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-02"})
	require.True(t, hit())
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-01", Unsuppressed: true})
	require.True(t, hit(), "an older withdrawal changes nothing")
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-03", Unsuppressed: true})
	require.False(t, hit())
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-03"})
	require.False(t, hit(), "a withdrawal wins among equal versions, in any order")
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-04", Scope: suppress.Codehost})
	require.False(t, hit(), "a correction of the scope")
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-05"})
	require.True(t, hit())

	hers, his := s.Key().Of(suppress.Email, "ada@example.com"), s.Key().Of(suppress.Email, "bob@example.com")
	for requestedAt, known := range map[string]bool{"2026-04": true, "2026-05": true, "2026-06": false, "": true} {
		require.Equal(t, known, s.Knows(hers, requestedAt), requestedAt)
		require.False(t, s.Knows(his, requestedAt), requestedAt)
	}
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-06", Unsuppressed: true})
	require.True(t, s.Knows(hers, "2026-06"), "withdrawn entries are known, too")
}

// Entries derived from a withdrawn one are withdrawn, at any distance.
func TestUnsuppressDerived_WithdrawsAtAnyDistance(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{})
	put(t, s, suppress.Email, "bob@example.com", suppress.Entry{})
	derived := map[suppress.Hash]suppress.Entry{}
	follow := func(platform, id string, by suppress.Hash) suppress.Hash {
		h, e, ok := s.Derive(platform, id, by)
		require.True(t, ok)
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		require.NoError(t, s.Apply([]byte(h.String()), raw))
		derived[h] = e
		return h
	}
	ada := follow(identity.Network, "p1", s.Key().Of(suppress.Email, "ada@example.com"))
	linked := ada
	const far = 8
	for i := range far {
		linked = follow(identity.Codehost, fmt.Sprint(42+i), linked)
	}
	bob := follow(identity.Network, "p2", s.Key().Of(suppress.Email, "bob@example.com"))
	require.Empty(t, s.UnsuppressDerived(derived))
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{RequestedAt: "2026-12", Unsuppressed: true})
	lifted := s.UnsuppressDerived(derived)
	require.Len(t, lifted, 1+far)
	for h, e := range lifted {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		require.NoError(t, s.Apply([]byte(h.String()), raw))
	}
	require.False(t, s.Suppressed(ada))
	require.False(t, s.Suppressed(linked))
	require.True(t, s.Suppressed(bob))
	require.Empty(t, s.UnsuppressDerived(derived))
}

// A derived entry has the scope of its cause, combined with that of a known entry. Nothing is derived from an
// entry that is not in force.
func TestDerive_CombinesScopes(t *testing.T) {
	const none suppress.Scope = ""
	for name, c := range map[string]struct {
		cause, known, want suppress.Scope // none: there is no entry
		causeLifted        bool
		knownLifted        bool
	}{
		"everywhere":                     {cause: suppress.All, want: suppress.All},
		"in one webset":                  {cause: suppress.Codehost, want: suppress.Codehost},
		"in the other":                   {cause: suppress.Network, want: suppress.Network},
		"of nothing":                     {cause: none, want: none},
		"derived from a withdrawn entry": {cause: suppress.All, causeLifted: true, want: none},
		"known everywhere":               {cause: suppress.Network, known: suppress.All, want: none},
		"known there":                    {cause: suppress.Network, known: suppress.Network, want: none},
		"known elsewhere":                {cause: suppress.Network, known: suppress.Codehost, want: suppress.All},
		"known with a narrower scope":    {cause: suppress.All, known: suppress.Codehost, want: suppress.All},
		"known and withdrawn": {cause: suppress.Network, known: suppress.All, knownLifted: true,
			want: suppress.Network},
		"all, withdrawn": {cause: suppress.Codehost, known: suppress.Network, knownLifted: true,
			want: suppress.Codehost},
	} {
		t.Run(name, func(t *testing.T) {
			s := suppress.NewSet(key(t, 1))
			put(t, s, suppress.Email, "bob@example.com", suppress.Entry{})
			if c.cause != none {
				put(
					t,
					s,
					suppress.Email,
					"ada@example.com",
					suppress.Entry{Scope: c.cause, Unsuppressed: c.causeLifted},
				)
			}
			if c.known != none {
				put(t, s, suppress.ProfileID, "p1", suppress.Entry{Scope: c.known, Unsuppressed: c.knownLifted,
					RequestedAt: "2026-12"})
			}
			before := s.Suppressed(s.Key().Of(suppress.ProfileID, "p1"))
			require.Equal(t, c.known != none && !c.knownLifted, before)
			h, e, ok := s.Derive(identity.Network, "p1", s.Key().Of(suppress.Email, "ada@example.com"))
			require.Equal(t, c.want != none, ok)
			require.Equal(t, c.want, e.Scope)
			if !ok {
				return
			}
			require.Equal(t, s.Key().Of(suppress.ProfileID, "p1"), h)
			raw, err := json.Marshal(e)
			require.NoError(t, err)
			require.NoError(t, s.Apply([]byte(h.String()), raw))
			require.True(t, s.Suppressed(h), "it is newer than the known entry")
			require.Equal(t, c.want == suppress.All, s.InAllScopes(h))
		})
	}
}

func TestHasPhones_IsSetByPhoneEntries(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{})
	require.False(t, s.HasPhones())
	put(t, s, suppress.Phone, "14155550100", suppress.Entry{})
	require.True(t, s.HasPhones())
}

func TestApply_RejectsOtherKey(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	h := key(t, 2).Of(suppress.Email, "ada@example.com")
	raw := fmt.Sprintf(`{"type":"email","scope":"all","requested_at":"2026","key":%q}`, key(t, 2).ID())
	require.ErrorIs(t, s.Apply([]byte(h.String()), []byte(raw)), suppress.ErrOtherKey)
}

// The owner record identifies the key before the first entry; entries take precedence.
func TestCheckOwner_RejectsOtherKey(t *testing.T) {
	mine, other := key(t, 1), key(t, 2)
	s := suppress.NewSet(mine)
	require.False(t, s.HasOwner())
	require.NoError(t, s.CheckOwner())
	require.NoError(t, s.Apply([]byte(suppress.OwnerKey), mine.OwnerRecord()))
	require.True(t, s.HasOwner())
	require.NoError(t, s.CheckOwner())
	require.NoError(t, s.Apply([]byte(suppress.OwnerKey), other.OwnerRecord()))
	require.ErrorIs(t, s.CheckOwner(), suppress.ErrOtherKey, "the last owner record counts")
	before, _ := s.Changes()
	require.Zero(t, before, "an owner record does not change the set")
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{})
	require.NoError(t, s.CheckOwner())
	require.Error(t, s.Apply([]byte(suppress.OwnerKey), []byte("no JSON")))
}

func TestNilSet_SuppressesNothing(t *testing.T) {
	var s *suppress.Set
	_, hit := s.Record(decode(t, record.KindNetworkPerson, networkAda))
	require.False(t, hit)
	require.True(t, s.IsLoaded())
	require.NoError(t, s.WaitLoaded(t.Context()))
}

func TestSet_FindsManyEntries(t *testing.T) {
	const n = 20_000
	s := suppress.NewSet(key(t, 1))
	for i := range n {
		put(t, s, suppress.UserID, strconv.Itoa(i), suppress.Entry{})
	}
	require.Equal(t, n, s.Len())
	for i := range 2 * n {
		_, hit := s.ID(identity.Codehost, strconv.Itoa(i))
		require.Equal(t, i < n, hit, i)
	}
}

func FuzzApply(f *testing.F) {
	s := suppress.NewSet(key(f, 1))
	f.Add([]byte(key(f, 1).Of(suppress.Email, "a@b.c").String()),
		[]byte(`{"type":"email","scope":"all","requested_at":"2026","key":"`+key(f, 1).ID()+`"}`))
	f.Add([]byte("x"), []byte(`{}`))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		before := s.Len()
		if s.Apply(k, v) != nil {
			require.Equal(t, before, s.Len(), "an invalid message changes nothing")
		}
	})
}

func FuzzContactsIn(f *testing.F) {
	f.Add([]byte(`{"phone":"+1 415 555 0100","mobile_phones":["030 1234567",7],"x":{"e\u006dail":{"v":"a@b.c"}}}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { suppress.ContactsIn(raw) })
}

func BenchmarkMisses(b *testing.B) {
	s := suppress.NewSet(key(b, 1))
	for i := range 100_000 {
		put(b, s, suppress.UserID, strconv.Itoa(i), suppress.Entry{})
	}
	p := suppress.Subject{Platform: identity.Network, ID: "p_1234567", Username: "ada-lovelace-12",
		Emails: []string{"ada@example.com", "lovelace@example.org"}}
	b.ReportAllocs()
	for b.Loop() {
		s.Subject(p)
	}
}

func TestFindInDocument_FindsIdentifiers(t *testing.T) {
	marked, bare := suppress.NewSet(key(t, 1)), suppress.NewSet(key(t, 1))
	for typ, v := range map[suppress.Type]string{
		suppress.Email: "ada@example.com", suppress.CodehostUsername: "ada", suppress.NetworkAccount: "ada-l",
		suppress.MicroblogUsername: "ada_m",
		suppress.UserID:            "42", suppress.Phone: "14155550100", suppress.CodehostAccount: "taken", // by 42
	} {
		put(t, marked, typ, v, suppress.Entry{})
		put(t, bare, typ, v, suppress.Entry{Mark: unmarked})
	}
	for raw, want := range map[string]bool{
		`{"codehost":{"username":"taken"}}`:                                       true,
		`{"codehost":{"username":"taken","id":42}}`:                               true,
		`{"codehost":{"username":"taken","id":77}}`:                               false, // the next owner of the name
		`{"codehost":{"id":0,"username":"taken"}}`:                                true,
		`{"codehost":{"id":77,"x":[{"codehost_username":"taken"}]}}`:              true,
		`{"codehost": {"id":"77","x":{"network_username":"ada-l"}}}`:              true,
		`{"codehost":{"id":77},"network":{"codehost_username":"taken"}}`:          true,
		`{"codehost":{"id":77,"network":{"username":"b","y":["taken"]}},"id":[]}`: false,
		`{"a":[{"b":"write to Ada@Example.com."}]}`:                               true,
		`{"codehost":{"username":"Ada"}}`:                                         true,
		`{"codehost":{"id":42}}`:                                                  true,
		`{"user_id":"42"}`:                                                        true,
		`{"links":["https://network.example/in/Ada-L?x=1"]}`:                      true,
		`{"links":["https://network.example/in/bob"]}`:                            false,
		`{"microblog_username":"Ada_m"}`:                                          true,
		`{"network_username":"ada-l"}`:                                            true,
		`{"phone_number":"(415) 555-0100"}`:                                       true,
		`{"phones":[{"number":"+1 415 555 0100"}]}`:                               true,
		`{"contact":{"Mobile":{"of":["home",{"value":14155550100}]}}}`:            true,
		`{"phones":[],"number":"+1 415 555 0100"}`:                                false,
		`{"phones":[{"user_id":42}]}`:                                             true,
		`{"by_address":{"Ada@example.com":1}}`:                                    true,
		`broken {"x":"ada@example.com`:                                            true,
		`{"microblog":{"username":"ada"},"count":42,"id":"42"}`:                   false,
		`{"name":"ada","other":"bob@example.com","network":null}`:                 false,
		`{}`: false,
	} {
		for name, s := range map[string]*suppress.Set{"with marks": marked, "from before marks": bare} {
			_, hit := s.FindInDocument(identity.Default(), []byte(raw))
			require.Equal(t, want, hit, "%s, %s", raw, name)
		}
	}
}

// Punctuation and escapes around an address are ignored; addresses that contain it are not found.
func TestFindInDocument_FindsAddressesInText(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	for _, address := range []string{"ada@example.com", "o'hara@example.com", "ada@bücher.example", "阿达@example.com",
		"a/b@example.com", "_x@example.com"} {
		put(t, s, suppress.Email, address, suppress.Entry{})
	}
	put(t, s, suppress.NetworkUsername, "ada-l", suppress.Entry{})
	for text, want := range map[string]bool{
		"“ada@example.com”": true, "«ada@example.com»": true, "‘ada@example.com’": true, "'ada@example.com'": true,
		"**ada@example.com**": true, "_ada@example.com_": true, "`ada@example.com`": true, "~~ada@example.com~~": true,
		"d'ada@example.com":                        true,
		"https://x.example/?email=ada@example.com": true, "email=ada@example.com&x=1": true, "ada%40example.com": true,
		"?to=%22ada%40example.com%22": true,
		"%22ada@example.com%22":       true, "ada&#64;example.com": true, "ada&#x40;example.com": true,
		"ada&commat;example.com": true,
		"e-mail：ada@example.com": true, "ada@example.com，": true, "ada@example.com。": true, "邮箱ada@example.com请": true,
		"阿达@example.com":   true,
		"•ada@example.com": true, "- ada@example.com": true, "-ada@example.com": true, "ada@example.com/": true,
		"ada@example.com#x": true, "\ufeffada@example.com": true,
		"ada@example.com…": true, "ada@example.com!": true, "ada@example.com—call": true, "@ada@example.com": true,
		"bob@x.example/ada@example.com": true,
		"邮箱ada@bücher.example请":         true, "“ADA@xn--bcher-kva.example”": true, "o'hara@example.com": true,
		"'o'hara@example.com'": true, "a/b@example.com": true, "_x@example.com": true,
		"https%3A%2F%2Fnetwork.example%2Fin%2FAda-L": true,
		"lovelace_ada@example.com":                   false, "lovelace.ada@example.com": false,
		"lovelace-ada@example.com": false, "x+ada@example.com": false,
		"ada@example.com.uk": false, "ada@sub.example.com": false, "ada@example.community": false, "ada@": false,
		"@example.com": false, "ada @example.com": false,
		"éada@example.com": false,
	} {
		_, hit := s.FindInDocument(identity.Default(), []byte(`{"text":"`+text+`"}`))
		require.Equal(t, want, hit, text)
	}
}

// Addresses are found in any spelling and in either form of an international domain.
func TestSet_FindsEmailFormsOfDomain(t *testing.T) {
	for _, erased := range []string{"ada@bücher.example", "ada@xn--bcher-kva.example"} {
		s := suppress.NewSet(key(t, 1))
		put(t, s, suppress.Email, erased, suppress.Entry{})
		for _, written := range []string{"ada@bücher.example", "Ada@XN--BCHER-KVA.example", "Ada <ada@bücher.example>",
			"mailto:ada@xn--bcher-kva.example?subject=x"} {
			_, hit := s.Record(decode(t, record.KindNetworkPerson, `{"profile_id":"p1","username":"u","emails":["`+
				written+`"],"last_updated":"2026"}`))
			require.True(t, hit, written)
			r := decode(t, record.KindCodehostPerson, `{"user_id":1,"codehost_username":"u","school_email":"`+written+
				`","last_updated":"2026"}`)
			subject, ok := suppress.SubjectOf(r)
			require.True(t, ok)
			_, hit = s.Subject(subject)
			require.True(t, hit, written)
			author, err := identity.NormalizeEmail(written)
			require.NoError(t, err)
			require.True(t, s.Author(author), written)
			require.True(t, s.Addresses([]byte(`{"email":"`+written+`"}`)), written)
			_, hit = s.FindInDocument(identity.Default(), []byte(`{"text":"write to `+written+`"}`))
			require.True(t, hit, written)
		}
		require.False(t, s.Author("ada@bucher.example"))
	}
}

func TestFindInDocumentOf_LooksUpOwnUsername(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.NetworkUsername, "ada-l", suppress.Entry{})
	for raw, want := range map[string]bool{`{"username":"Ada-L","last_updated":7}`: true,
		`{"username":"ada-l","broken`: true, `{"username":"bob"}`: false} {
		_, hit := s.FindInDocumentOf(identity.Default(), identity.Network, []byte(raw))
		require.Equal(t, want, hit, raw)
		_, hit = s.FindInDocumentOf(identity.Default(), identity.Codehost, []byte(raw))
		require.False(t, hit, raw)
	}
}

func FuzzDocument(f *testing.F) {
	s := suppress.NewSet(key(f, 1))
	put(f, s, suppress.Email, "ada@example.com", suppress.Entry{})
	f.Add([]byte(`{"a":[1,{"b":"x@y.z"}],"a":"http://network.example/in/x"}`))
	f.Add([]byte("{\"a\":\"“x@y.z”邮a@b%40c&#64;d@@e@\xff\"}"))
	f.Fuzz(func(_ *testing.T, raw []byte) { s.FindInDocument(identity.Default(), raw) })
}
