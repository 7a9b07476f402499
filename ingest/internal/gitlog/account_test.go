package gitlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestReadAuthors_ValidatesColumnsAndRows(t *testing.T) {
	read := func(text string) (Authors, error) {
		path := filepath.Join(t.TempDir(), "authors.csv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return ReadAuthors(path)
	}
	got, err := read("\ufeffusername,email,commits,user_id\njane,Jane@X.example,3,12\n,left@open.example,1,\n")
	require.NoError(t, err)
	require.Equal(t, Authors{"jane@x.example": {12, "jane"}}, got)
	for text, want := range map[string]string{
		"":                                  "read header",
		"email,user_id\n":                   `missing column "username"`,
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

func TestEvidenceVersion_IsOlderThanCrawledVersions(t *testing.T) {
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
