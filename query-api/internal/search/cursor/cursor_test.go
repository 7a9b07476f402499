package cursor

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// What is encoded can be decoded again, or is refused.
func TestSize(t *testing.T) {
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

// A query is the same however it is written, and another one otherwise.
func TestHash(t *testing.T) {
	const query = `{"bool":{"must":[{"match":{"profile.headline":"engineer"}}],"filter":[{"term":{"profile.connections":5}}]}}`
	const sort = `[{"updated_at":"desc","profile.connections":"asc"},"_score"]`
	of := Hash([]byte(query), []byte(sort), "org")
	for name, c := range map[string]struct {
		query, sort, organization string
		same                      bool
	}{
		"as it was":       {query, sort, "org", true},
		"white space":     {strings.ReplaceAll(query, ":", " :\n\t"), strings.ReplaceAll(sort, ":", " :\n"), "org", true},
		"escapes":         {strings.ReplaceAll(query, "engineer", `\u0065ngin\u0065er`), strings.ReplaceAll(sort, "_score", `\u005fscore`), "org", true},
		"order in query":  {`{"bool":{"filter":[{"term":{"profile.connections":5}}],"must":[{"match":{"profile.headline":"engineer"}}]}}`, sort, "org", true},
		"order in sort":   {query, `[{"profile.connections":"asc","updated_at":"desc"},"_score"]`, "org", false},
		"order of sort":   {query, `["_score",{"updated_at":"desc","profile.connections":"asc"}]`, "org", false},
		"another word":    {strings.ReplaceAll(query, "engineer", "engineers"), sort, "org", false},
		"another number":  {strings.ReplaceAll(query, "5", "5.0"), sort, "org", false}, // another keyword, too
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

// Cursors of the version before, which knows the query as it is written, are read, and it
// reads those of this one.
func TestVersionBefore(t *testing.T) {
	key, now := make([]byte, KeySize), time.Now()
	query := func(text string) Cursor {
		return Cursor{Query: Hash([]byte(text), nil, "org"), Text: TextHash([]byte(text), nil, "org"), Now: now.UnixMilli()}
	}
	before := query(`{"match_all":{}}`)
	before.Query = nil
	text, err := Encode(before, key)
	require.NoError(t, err)
	c, err := Decode(text, query(`{"match_all":{}}`), now, key)
	require.NoError(t, err)
	require.Equal(t, query(`{"match_all":{}}`), c)
	_, err = Decode(text, query(`{ "match_all" : {} }`), now, key)
	require.ErrorIs(t, err, ErrForeign)

	text, err = Encode(c, key)
	require.NoError(t, err)
	c, err = Decode(text, query(`{ "match_all" : {} }`), now, key)
	require.NoError(t, err)
	require.Equal(t, TextHash([]byte(`{ "match_all" : {} }`), nil, "org"), c.Text, "of the page that it was read for")
}
