//go:build packages

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	dataDir     = "/var/lib/muster"
	cacheDir    = "/var/cache/muster"
	libraryDir  = "/usr/lib/muster"
	environment = "/etc/muster/muster.env"
	unit        = "/lib/systemd/system/muster.service"
	// timeLimit bounds the whole test, including cleaning up.
	timeLimit = 15 * time.Minute
)

// The test installs the package on this machine, so it needs root and rejects a machine that has muster.
func TestDebian_InstallRunUpgradeRemove(t *testing.T) {
	require.Zero(t, os.Getuid(), "needs root, to install a package")
	for _, path := range []string{"/usr/bin/muster", configDir, dataDir, cacheDir, libraryDir} {
		_, err := os.Lstat(path)
		require.ErrorIs(t, err, fs.ErrNotExist,
			"%s: the test installs and removes muster, so this machine must not have it", path)
	}
	_, err := user.Lookup("muster")
	require.Error(t, err, "user muster exists")
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	m := &machine{t: t, ctx: ctx}
	older, newer := m.buildPackage("0.1.0", t.TempDir()), m.buildPackage("0.1.1", t.TempDir())
	t.Cleanup(m.cleanUp)

	m.run("dpkg", "-i", older)
	require.Equal(t, "muster 0.1.0\n", m.run("/usr/bin/muster", "--version"))
	require.Equal(t, "muster muster 700", strings.TrimSpace(m.run("stat", "-c", "%U %G %a", dataDir)))
	require.Equal(t, "root muster 640", strings.TrimSpace(m.run("stat", "-c", "%U %G %a", environment)))
	require.Empty(t, m.run("sh", "-c", "ls -A "+dataDir), "the package does not start the service")
	m.installLibrary()
	m.configure()

	service := m.start()
	key := m.apiKey()
	record := filepath.Join(m.sharedDir(), "people.ndjson")
	const person = `{"profile_id":"package1","username":"packaged-one","last_updated":"2026-11-21",` +
		`"full_name":"Packaged One"}`
	require.NoError(t, os.WriteFile(record, []byte(person+"\n"), 0o600))
	require.NoError(t, os.Chmod(record, 0o644))
	m.muster("ingest", "network-person", record)
	m.muster("status", "--wait")
	require.Contains(t, m.enrich(key), "Packaged One")
	require.Equal(t, sourceOf(m.muster("config", "api-addr")), "environment")
	require.Equal(t, sourceOf(m.muster("config", "data-dir")), "file")
	require.NoDirExists(t, filepath.Join(cacheDir, "libchdb"), "the installed library was used")
	service.stop()

	m.run("dpkg", "-i", newer)
	require.Equal(t, "muster 0.1.1\n", m.run("/usr/bin/muster", "--version"))
	require.Contains(t, m.read(environment), "MUSTER_API_ADDR=", "the configuration stays")
	service = m.start()
	require.Equal(t, key, m.apiKey())
	require.Contains(t, m.enrich(key), "Packaged One", "the data stays")
	service.stop()

	m.run("dpkg", "-r", "muster")
	require.NoFileExists(t, "/usr/bin/muster")
	require.FileExists(t, environment)
	require.FileExists(t, filepath.Join(dataDir, "secret.key"))
	require.Contains(t, m.run("dpkg", "--purge", "muster"), dataDir+" was kept")
	require.NoFileExists(t, environment)
	require.FileExists(t, filepath.Join(dataDir, "secret.key"))
}

func sourceOf(explained string) string {
	found := regexp.MustCompile(`(?m)^  source +(\w+)$`).FindStringSubmatch(explained)
	if found == nil {
		return explained
	}
	return found[1]
}

// machine is the machine that the test runs on.
type machine struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // of one test
	dir string
}

// run returns the output of a command that must succeed.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	out, err := exec.CommandContext(m.ctx, name, args...).CombinedOutput()
	require.NoError(m.t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// muster runs a command as the service's user, with the packaged configuration.
func (m *machine) muster(args ...string) string {
	m.t.Helper()
	shell := "cd /; set -a; . " + environment + "; exec /usr/bin/muster \"$@\""
	return m.run("runuser", append([]string{"-u", "muster", "--", "sh", "-c", shell, "muster"}, args...)...)
}

func (m *machine) read(path string) string {
	m.t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(m.t, err)
	return string(raw)
}

// sharedDir returns a directory that the user muster can read.
func (m *machine) sharedDir() string {
	m.t.Helper()
	if m.dir == "" {
		dir, err := os.MkdirTemp("", "muster-package-test-*")
		require.NoError(m.t, err)
		require.NoError(m.t, os.Chmod(dir, 0o755))
		m.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		m.dir = dir
	}
	return m.dir
}

// buildPackage builds the .deb of a version for this machine.
func (m *machine) buildPackage(version, dir string) string {
	m.t.Helper()
	r := &release{root: "../..", out: dir, version: version}
	require.NoError(m.t, r.prepare(m.ctx))
	lib := m.library()
	program := filepath.Join(dir, "muster")
	require.NoError(m.t, r.compile(m.ctx, lib, program))
	name, err := r.writePackage("deb", lib.arch, program)
	require.NoError(m.t, err)
	return filepath.Join(dir, name)
}

func (m *machine) library() library {
	m.t.Helper()
	libraries, err := readLibraries("../..")
	require.NoError(m.t, err)
	for _, lib := range libraries {
		if lib.isNative() {
			return lib
		}
	}
	require.Fail(m.t, "no engine for this platform")
	return library{}
}

// installLibrary puts the engine where the page of the offline bundle says.
func (m *machine) installLibrary() {
	m.t.Helper()
	source, err := fetchLibrary(m.ctx, "/usr/bin/muster")
	require.NoError(m.t, err)
	m.run("install", "-D", "-m", "644", source, filepath.Join(libraryDir, m.library().bundledPath()))
}

// configure makes the service listen on free ports, as an operator edits the environment.
func (m *machine) configure() {
	m.t.Helper()
	lines := m.read(environment)
	for _, name := range []string{"API", "INGEST", "ADMIN", "CLICKHOUSE", "KAFKA"} {
		lines += "MUSTER_" + name + "_ADDR=127.0.0.1:0\n"
	}
	require.NoError(m.t, os.WriteFile(environment, []byte(lines), 0o640))
}

// apiKey returns the key of the running instance.
func (m *machine) apiKey() string { return m.described("api_key") }

// described returns a field of the instance file.
func (m *machine) described(member string) string {
	m.t.Helper()
	text := m.read(filepath.Join(dataDir, "standalone.json"))
	found := regexp.MustCompile(`"` + member + `": *"([^"]+)"`).FindStringSubmatch(text)
	require.NotNil(m.t, found, member)
	return found[1]
}

// enrich requests the person of the test from the API.
func (m *machine) enrich(key string) string {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.ctx, http.MethodPost, m.described("base_url")+"/v1/person/enrich",
		strings.NewReader(`{"network_username": "packaged-one", "websets": ["network"]}`))
	require.NoError(m.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(m.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(m.t, err)
	require.Equal(m.t, http.StatusOK, response.StatusCode, "%s", body)
	return string(body)
}

// process is the unit's command line, started without systemd.
type process struct {
	m     *machine
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan error
}

// start runs the command of the unit, as its user, with its environment, without privileges.
func (m *machine) start() *process {
	m.t.Helper()
	text := m.read(unit)
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=-?(.*)$`).FindStringSubmatch(text)
		require.NotNil(m.t, found, name)
		return found[1]
	}
	name := setting("User")
	args := []string{
		"--reuid", name, "--regid", setting("Group"), "--init-groups", "--no-new-privs", "--bounding-set", "-all", "--",
	}
	p := &process{m: m, ended: make(chan error, 1)}
	p.cmd = exec.CommandContext(m.ctx, "setpriv", append(args, strings.Fields(setting("ExecStart"))...)...)
	p.cmd.Dir = setting("WorkingDirectory")
	p.cmd.Env = append(strings.Fields(setting("Environment")), "HOME="+dataDir, "USER="+name, "LOGNAME="+name,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	for line := range strings.Lines(m.read(setting("EnvironmentFile"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			p.cmd.Env = append(p.cmd.Env, line)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	require.NoError(m.t, p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
	m.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	for {
		select {
		case err := <-p.ended:
			require.NoError(m.t, errors.Join(err, errors.New("the service exited")), "%s", p.log.String())
		case <-time.After(time.Second):
		}
		// ^The instance file names the process once all services are ready.
		description, err := os.ReadFile(filepath.Join(dataDir, "standalone.json"))
		if err == nil && regexp.MustCompile(`"pid": *`+strconv.Itoa(p.cmd.Process.Pid)+`\b`).Match(description) {
			m.muster("status", "--wait")
			return p
		}
	}
}

// stop stops the process as systemd does.
func (p *process) stop() {
	p.m.t.Helper()
	require.NoError(p.m.t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(p.m.t, <-p.ended, "%s", p.log.String())
}

// cleanUp removes what the test has installed.
func (m *machine) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), time.Minute)
	defer cancel()
	for _, command := range [][]string{
		{"sh", "-c", "dpkg -s muster >/dev/null 2>&1 && dpkg --purge --force-all muster || true"},
		{"rm", "-rf", dataDir, cacheDir, libraryDir, configDir},
		{"sh", "-c", "! getent passwd muster >/dev/null || userdel muster"},
		{"sh", "-c", "! getent group muster >/dev/null || groupdel muster"},
	} {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err != nil {
			m.t.Errorf("clean up: %s: %s: %s", strings.Join(command, " "), err, out)
		}
	}
}
