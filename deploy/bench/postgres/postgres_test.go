//go:build postgres

package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"muster/deploy/bench/postgres"
)

// documents returns a reader of n answers with the keys person-0 and so on.
func documents(n int) func() (string, []byte, error) {
	next := 0
	return func() (string, []byte, error) {
		if next == n {
			return "", nil, io.EOF
		}
		name := fmt.Sprint("person-", next)
		next++
		return name, fmt.Appendf(nil, `{"username":%q,"text":"a \"quoted\"\tline, مرحبا \\ and an end"}`, name), nil
	}
}

func TestPostgres_ReturnsLoadedAnswers(t *testing.T) {
	c, err := postgres.Start(t.Context())
	require.NoError(t, err)
	dir := strings.Fields(strings.TrimPrefix(c.DSN(), "host="))[0]
	closed := false
	defer func() {
		if !closed {
			require.NoError(t, c.Close())
		}
	}()
	version, err := postgres.Version(t.Context(), c.DSN())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(version, "15."), version)
	for _, table := range []postgres.Table{postgres.CodehostAnswers, postgres.NetworkAnswers} {
		loaded, err := postgres.Load(t.Context(), c.DSN(), table, documents(10))
		require.NoError(t, err)
		require.EqualValues(t, 10, loaded.Rows)
		require.Positive(t, loaded.Bytes)
	}
	pool, err := pgxpool.New(t.Context(), c.DSN())
	require.NoError(t, err)
	defer pool.Close()
	server := httptest.NewServer(postgres.Handler(pool))
	defer server.Close()
	answer := func(method, path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := server.Client().Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
		return string(text)
	}
	read := documents(10)
	var list, names []string
	for {
		name, document, err := read()
		if err != nil {
			break
		}
		require.JSONEq(t, string(document),
			answer(http.MethodPost, "/v1/person/enrich",
				`{"codehost":"`+strings.ToUpper(name)+`","websets":["codehost"]}`))
		require.JSONEq(t, string(document), answer(http.MethodGet, "/v1/webset/network/person?network="+name, ""))
		list, names = append(list, string(document)), append(names, name)
	}
	names, list = append(names, "unknown-user", names[0]), append(list, "{}", list[0])
	request, err := json.Marshal(map[string]any{"network": names})
	require.NoError(t, err)
	require.JSONEq(t, "["+strings.Join(list, ",")+"]",
		answer(http.MethodPost, "/v1/webset/network/person", string(request)))
	require.Equal(t, "{}", answer(http.MethodPost, "/v1/person/enrich", `{"codehost":"unknown-user"}`))

	// It runs as an ordinary user, and leaves no files.
	if os.Geteuid() == 0 {
		info, err := os.Stat(fmt.Sprint("/proc/", c.PID()))
		require.NoError(t, err)
		owner, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.NotZero(t, owner.Uid)
	}
	pool.Close()
	closed = true
	require.NoError(t, c.Close())
	require.NoDirExists(t, dir)
	require.ErrorIs(t, syscall.Kill(c.PID(), 0), syscall.ESRCH)
}

func TestStart_LeavesNothingIfCanceled(t *testing.T) {
	dir, err := os.MkdirTemp("", "muster-") //nolint:usetesting // t.TempDir is closed to others
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = postgres.Start(ctx)
	require.Error(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestStart_NamesTheFixIfTheDirectoryIsClosedToItsUser(t *testing.T) {
	dir, err := os.MkdirTemp("", "muster-") //nolint:usetesting // its path is too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	t.Setenv("TMPDIR", dir)
	c, err := postgres.Start(t.Context())
	if os.Geteuid() == 0 {
		require.ErrorContains(t, err, "set TMPDIR")
		return
	}
	require.NoError(t, err, "the server runs as the owner")
	require.NoError(t, c.Close())
}
