package gitlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestAccounts(t *testing.T) {
	m := parseMailmap([]byte(`# comment
Jane Doe <jane@corp.example> <jane@home.example>
Jane Doe <jane@corp.example> J <12+jane@users.noreply.codehost.example>
Proper <only@name.example>
<new@x.example> <old@x.example>
garbage
`))
	require.Equal(t, "Jane Doe", m.names["jane@home.example"])
	require.Equal(t, "Proper", m.names["only@name.example"])
	known := Authors{"boss@corp.example": {ID: 1, Username: "Boss"}, "new@x.example": {ID: 2, Username: "x"}}
	a := newAccounts(Options{Authors: known, NoReplyHosts: []string{"git.corp.example"}}, m)
	for email, want := range map[string]Account{
		"Boss@Corp.example":                            {1, "Boss"},
		"34+kim@users.noreply.codehost.example":        {34, "kim"},
		"jane@home.example":                            {12, "jane"},
		"JANE@corp.example":                            {12, "jane"},
		"Jane@users.noreply.codehost.example":          {12, "jane"},
		"old@x.example":                                {2, "x"},
		"boss@users.noreply.git.corp.example":          {1, "Boss"},
		"77+maintainer@users.noreply.git.corp.example": {77, "maintainer"},
		"kim@users.noreply.codehost.example":           {34, "kim"}, // seen above, in whatever order
		"stranger@users.noreply.codehost.example":      {},
		"stranger@mail.example":                        {},
		"":                                             {},
	} {
		a.of("34+kim@users.noreply.codehost.example")
		got, ok := a.of(email)
		require.Equal(t, want.ID != 0, ok, email)
		require.Equal(t, want, got, email)
	}

	made := newAccounts(Options{MakeAccounts: true}, m)
	one, ok := made.of("Stranger@mail.example")
	require.True(t, ok)
	require.GreaterOrEqual(t, one.ID, int64(1)<<52)
	require.Less(t, one.ID, int64(1)<<53)
	require.Regexp(t, `^git-[0-9a-f]{12}$`, one.Username)
	again, _ := made.of("stranger@mail.example ")
	require.Equal(t, one, again)
	left, _ := made.of("old@x.example")
	right, _ := made.of("new@x.example")
	require.Equal(t, left, right, "addresses of one author are one account")
	named, _ := made.of("stranger@users.noreply.codehost.example")
	require.Equal(t, "stranger", named.Username)
	_, ok = made.of("")
	require.False(t, ok)
}

func TestReadAuthors(t *testing.T) {
	read := func(text string) (Authors, error) {
		path := filepath.Join(t.TempDir(), "authors.csv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return ReadAuthors(path)
	}
	got, err := read("\ufeffusername,email,commits,user_id\njane,Jane@X.example,3,12\n,left@open.example,1,\n")
	require.NoError(t, err)
	require.Equal(t, Authors{"jane@x.example": {12, "jane"}}, got)
	for text, want := range map[string]string{
		"":                                  "read the header",
		"email,user_id\n":                   `no column "username"`,
		"email,user_id,username\na,x,b\n":   "line 2: user_id must be a positive integer",
		"email,user_id,username\na,-1,b\n":  "line 2: user_id must be a positive integer",
		"email,user_id,username\n\na,1,\n":  "line 3: username is empty",
		"email,user_id,username\na,1,b,c\n": "wrong number of fields",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want)
	}
	_, err = ReadAuthors(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestEvidenceVersion(t *testing.T) {
	last := record.Version(0)
	for _, unix := range []int64{-5, 1, 1_700_000_000, 1_700_000_001, 3_599_999_999, 9_000_000_000} {
		v, err := record.ParseVersion(evidenceVersion(time.Unix(unix, 0)))
		require.NoError(t, err)
		require.GreaterOrEqual(t, v, last)
		require.Equal(t, 1970, v.Time().Year())
		last = v
	}
	require.Equal(t, "1970-01-01T00:28:20.000000Z", evidenceVersion(time.Unix(1_700_000_000, 0)))
}
