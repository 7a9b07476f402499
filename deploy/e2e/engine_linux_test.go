package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Neither the engine process nor an analyst can read the password or the user's files.
func TestEngine_ProtectsPasswordAndFiles(t *testing.T) {
	t.Parallel()
	const password = "topsecret"
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(password+"\n"), 0o600))
	var log output
	cmd := exec.CommandContext(t.Context(), binary, "engine", "--data-dir", t.TempDir(), "--clickhouse-addr",
		"127.0.0.1:0")
	cmd.Env = append(environment(), "MUSTER_ENGINE_PASSWORD="+password, "MUSTER_SECRET_KEY="+password)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &log, &log, dieWithParent()
	require.NoError(t, cmd.Start())
	said := regexp.MustCompile(`engine: ready.*(http://127\.0\.0\.1:\d+)`)
	var url string
	eventually(t, time.Minute, func() (bool, string) {
		found := said.FindStringSubmatch(log.String())
		if found != nil {
			url = found[1]
		}
		return found != nil, log.String()
	})
	ask := func(user, query string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(query))
		require.NoError(t, err)
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status, body := ask("muster", "SELECT file('/proc/self/environ')")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "PATH=")
	require.NotContains(t, body, password)
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION); errno == 0 && abi >= 2 {
		status, body = ask("muster", "SELECT file('"+secret+"')")
		require.NotEqual(t, http.StatusOK, status, body)
		require.NotContains(t, body, password)
	}
	for _, query := range []string{"SELECT file('/proc/self/environ')",
		"DESCRIBE format(JSONEachRow, 'a UInt8, b UInt64 DEFAULT toUInt64(file(''/proc/self/environ''))', " +
			"'{\"a\":1}')"} {
		status, body = ask("", query)
		require.Equal(t, http.StatusForbidden, status, body)
	}

	// It restarts on the same address, and stops in order.
	children := childProcesses(t, cmd.Process.Pid)
	require.Len(t, children, 1)
	killProcess(t, children[0])
	eventually(t, time.Minute, func() (bool, string) {
		status, body := ask("", "SELECT 1")
		return status == http.StatusOK, fmt.Sprint(status, body)
	})
	children = childProcesses(t, cmd.Process.Pid)
	require.Len(t, children, 1)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), log.String())
	require.ErrorIs(t, syscall.Kill(children[0], 0), syscall.ESRCH)
}
