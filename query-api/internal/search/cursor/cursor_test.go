package cursor

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestEncode_RejectsWhatDecodeCannotRead(t *testing.T) {
	key, query, now := make([]byte, KeySize), []byte("q"), time.Now()
	words := func(n int) Cursor {
		return Cursor{Query: query, Now: now.UnixMilli(), Expansions: map[string][]string{"w": {strings.Repeat("a", n)}}}
	}
	text, err := Encode(words(maxSize-200), key)
	require.NoError(t, err)
	c, err := Decode(text, Cursor{Query: query}, now, key)
	require.NoError(t, err)
	require.Len(t, c.Expansions["w"][0], maxSize-200)
	_, err = Encode(words(maxSize), key)
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestHash_IgnoresTheFormOfJSON(t *testing.T) {
	const query = `{"bool":{"must":[{"match":{"profile.headline":"engineer"}}],"filter":[{"term":` +
		`{"profile.connections":5}}]}}`
	const sort = `[{"updated_at":"desc","profile.connections":"asc"},"_score"]`
	of := Hash([]byte(query), []byte(sort), "org")
	for name, c := range map[string]struct {
		query, sort, organization string
		same                      bool
	}{
		"unchanged":   {query, sort, "org", true},
		"white space": {strings.ReplaceAll(query, ":", " :\n\t"), strings.ReplaceAll(sort, ":", " :\n"), "org", true},
		"escapes": {strings.ReplaceAll(query, "engineer", `\u0065ngin\u0065er`),
			strings.ReplaceAll(sort, "_score", `\u005fscore`), "org", true},
		"order in query": {`{"bool":{"filter":[{"term":{"profile.connections":5}}],"must":[{"match":` +
			`{"profile.headline":"engineer"}}]}}`, sort, "org", true},
		"order in sort":   {query, `[{"profile.connections":"asc","updated_at":"desc"},"_score"]`, "org", false},
		"order of sort":   {query, `["_score",{"updated_at":"desc","profile.connections":"asc"}]`, "org", false},
		"another word":    {strings.ReplaceAll(query, "engineer", "engineers"), sort, "org", false},
		"another number":  {strings.ReplaceAll(query, "5", "5.0"), sort, "org", false}, // another keyword
		"no sort":         {query, "", "org", false},
		"another's query": {query, sort, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.same, string(of) == string(Hash([]byte(c.query), []byte(c.sort), c.organization)))
		})
	}
	for _, none := range []string{"null", "[]", " [ ] "} {
		require.Equal(t, Hash([]byte(query), nil, "org"), Hash([]byte(query), []byte(none), "org"), none)
	}
	for _, large := range []string{"9007199254740993", "9007199254740992"} {
		require.NotEqual(t, Hash(jsontext.Value("9007199254740991"), nil, "org"), Hash(jsontext.Value(large), nil, "org"))
	}
}

func TestDecode_RejectsForeignExpiredAndInvalidCursors(t *testing.T) {
	key, now := make([]byte, KeySize), time.Now()
	query := func(text string) Cursor { return Cursor{Query: Hash([]byte(text), nil, "org"), Now: now.UnixMilli()} }
	text, err := Encode(query(`{"match_all":{}}`), key)
	require.NoError(t, err)
	c, err := Decode(text, query(`{ "match_all" : {} }`), now, key)
	require.NoError(t, err)
	require.Equal(t, query(`{"match_all":{}}`), c)
	_, err = Decode(text, query(`{"match_none":{}}`), now, key)
	require.ErrorIs(t, err, ErrForeign)
	_, err = Decode(text, query(`{"match_all":{}}`), now.Add(Lifetime+time.Second), key)
	require.ErrorIs(t, err, ErrExpired)
	for _, wrong := range []string{"", "AAAA", "B" + text, "*"} {
		_, err = Decode(wrong, query(`{"match_all":{}}`), now, key)
		require.ErrorIs(t, err, ErrInvalid, wrong)
	}
}

func TestEncode_EncryptsAndAuthenticates(t *testing.T) {
	key, query, now := bytes.Repeat([]byte{7}, KeySize), Cursor{Query: []byte("q")}, time.Now()
	text, err := Encode(Cursor{Query: query.Query, Now: now.UnixMilli(),
		Expansions: map[string][]string{"w": {"sentinel"}}}, key)
	require.NoError(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	for i := range raw {
		content, _ := io.ReadAll(flate.NewReader(bytes.NewReader(raw[i:])))
		require.NotContains(t, string(content), "sentinel")
		raw[i] ^= 1
		_, err = Decode(base64.RawURLEncoding.EncodeToString(raw), query, now, key)
		require.ErrorIs(t, err, ErrInvalid)
		raw[i] ^= 1
	}
	_, err = Decode(text, query, now, make([]byte, KeySize))
	require.ErrorIs(t, err, ErrInvalid)
}
