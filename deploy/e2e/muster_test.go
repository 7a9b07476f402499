package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/platform/bus"
	"muster/platform/freeport"
)

// startTimeout is the maximum start time of `muster up` on a busy machine, with the sample. The limit for an idle
// one is part of the benchmarks.
const startTimeout = 2 * time.Minute

// output collects the output of a process.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// platform is a running `muster up`.
type platform struct {
	instance.Instance
	dataDir     string
	cmd         *exec.Cmd
	out, errors output
	// ended is closed when the process has exited; exit has its error then.
	ended chan struct{}
	exit  error
}

// start runs `muster up` on a data directory, by default on free ports, and waits for its startup summary.
func start(t *testing.T, dataDir string, args ...string) *platform {
	t.Helper()
	p := launch(t, dataDir, args...)
	p.awaitWelcome(t)
	return p
}

var addrFlags = []string{"--api-addr", "--ingest-addr", "--admin-addr", "--clickhouse-addr", "--kafka-addr"}

// fixedPorts returns address flags for a platform that is killed and started again at the same addresses.
func fixedPorts(t *testing.T) []string {
	t.Helper()
	var flags []string
	for i, addr := range freeAddrs(t, len(addrFlags)) {
		flags = append(flags, addrFlags[i], addr)
	}
	return flags
}

func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	addrs, err := freeport.Addrs(t.Context(), n)
	require.NoError(t, err)
	return addrs
}

// launch is like start, without waiting.
func launch(t *testing.T, dataDir string, args ...string) *platform {
	t.Helper()
	p := &platform{dataDir: dataDir, ended: make(chan struct{})}
	flags := []string{"up", "--data-dir", dataDir}
	for _, name := range addrFlags {
		if !slices.Contains(args, name) {
			flags = append(flags, name, "127.0.0.1:0")
		}
	}
	p.cmd = exec.Command(binary, append(flags, args...)...)
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errors
	p.cmd.SysProcAttr = dieWithParent()
	require.NoError(t, p.cmd.Start())
	go func() {
		p.exit = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last log lines of `muster up` (pid %d):\n%s", p.cmd.Process.Pid,
				lastLines(p.errors.String(), 40))
		}
	})
	return p
}

// begun is a data directory that `muster up --no-sample` has created.
var begun struct {
	sync.Mutex
	dir string
}

// newDataDir returns a copy of a data directory without people, with topics and tables: it saves time in tests that
// are not about the first start.
func newDataDir(t *testing.T) string {
	t.Helper()
	begun.Lock()
	defer begun.Unlock()
	if begun.dir == "" {
		dir := filepath.Join(filepath.Dir(binary), "fresh")
		start(t, dir, "--no-sample").stop(t)
		begun.dir = dir
	}
	out := filepath.Join(t.TempDir(), "data")
	copied, err := exec.CommandContext(t.Context(), "cp", "-a", begun.dir, out).CombinedOutput()
	require.NoError(t, err, "%s", copied)
	return out
}

// environment returns this process's environment without variables that configure muster.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "KAFKA_") || strings.HasPrefix(v, "CLICKHOUSE_") || strings.HasPrefix(v, "OTEL_") ||
			strings.HasPrefix(v, "MUSTER_") && !strings.HasPrefix(v, "MUSTER_LIBCHDB") &&
				!strings.HasPrefix(v, "MUSTER_LLM_")
	})
}

// secret returns the environment variable with the root secret, for other processes of the instance.
func (p *platform) secret(t *testing.T) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(p.dataDir, "secret.key"))
	require.NoError(t, err)
	return "MUSTER_SECRET_KEY=" + strings.TrimSpace(string(secret))
}

// bus returns the configuration of the platform's broker.
func (p *platform) bus(t *testing.T) bus.Config {
	t.Helper()
	cfg, err := p.Bus(bus.Config{})
	require.NoError(t, err)
	return cfg
}

// serviceEnv returns the environment of a service that runs on the servers of the platform.
func (p *platform) serviceEnv(t *testing.T) []string {
	t.Helper()
	return append(environment(), "KAFKA_BROKERS="+p.Kafka, "KAFKA_SASL_MECHANISM=SCRAM-SHA-256",
		"KAFKA_SASL_USERNAME="+p.KafkaUser,
		"KAFKA_SASL_PASSWORD="+p.KafkaPassword, "CLICKHOUSE_DSN="+p.ClickHouseURL, p.secret(t))
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (p *platform) awaitWelcome(t *testing.T) {
	t.Helper()
	eventually(t, startTimeout, func() (bool, string) {
		select {
		case <-p.ended:
			t.Fatalf("`muster up` exited: %v\n%s", p.exit, lastLines(p.errors.String(), 20))
		default:
		}
		return strings.Contains(p.out.String(), "Ctrl-C stops it"), "no startup summary of `muster up`"
	})
	in, err := instance.Read(p.dataDir)
	require.NoError(t, err)
	p.Instance = in
}

// eventually polls until done. After the timeout it fails with why.
func eventually(t *testing.T, timeout time.Duration, poll func() (done bool, why string)) {
	t.Helper()
	eventuallyEvery(t, timeout, 20*time.Millisecond, poll)
}

// eventuallyEvery is like eventually with a longer interval, for expensive polls such as a command.
func eventuallyEvery(t *testing.T, timeout, pause time.Duration, poll func() (done bool, why string)) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		done, why := poll()
		if done {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("after %s: %s", timeout, why)
		case <-tick.C:
		}
	}
}

// stop ends the platform with Ctrl-C, requires an orderly stop, and returns its duration. Only
// TestAccounts_FileRotationAndReconciliation, which runs alone, can check the duration.
func (p *platform) stop(t *testing.T) time.Duration {
	t.Helper()
	const limit = time.Minute
	began := time.Now()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	select {
	case <-p.ended:
		took := time.Since(began)
		t.Logf("stopped in %s", took.Round(time.Millisecond))
		require.NoError(t, p.exit, "exit status after Ctrl-C; the log:\n%s", lastLines(p.errors.String(), 20))
		return took
	case <-time.After(limit):
		t.Fatalf("`muster up` is still running %s after Ctrl-C; the log:\n%s", limit, lastLines(p.errors.String(), 20))
	}
	return limit
}

// kill kills the platform with SIGKILL.
func (p *platform) kill() {
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// result is the outcome of a command.
type result struct {
	out, errors string
	status      int
	took        time.Duration
}

// muster runs a command on a data directory until it exits.
func muster(ctx context.Context, dataDir string, args ...string) (result, error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{"--data-dir", dataDir}, args...)...)
	cmd.Env = environment()
	cmd.SysProcAttr = dieWithParent()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	r := result{out: out.String(), errors: errs.String(), status: cmd.ProcessState.ExitCode(), took: time.Since(began)}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return r, err
}

// muster runs a command that must succeed.
func (p *platform) muster(t *testing.T, args ...string) string {
	t.Helper()
	r, err := muster(t.Context(), p.dataDir, args...)
	require.NoError(t, err)
	require.Zero(t, r.status, "exit status of muster %s\n%s%s", strings.Join(args, " "), r.out, r.errors)
	return r.out
}

func (p *platform) musterJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	out := p.muster(t, args...)
	require.NoError(t, json.Unmarshal([]byte(out), into), "muster %s: output is not JSON:\n%s",
		strings.Join(args, " "), out)
}

// engine returns the process ID of the platform's engine, its only child process.
func (p *platform) engine(t *testing.T) int {
	t.Helper()
	children := childProcesses(t, p.cmd.Process.Pid)
	require.Len(t, children, 1, "child processes of `muster up`")
	return children[0]
}

func killProcess(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
