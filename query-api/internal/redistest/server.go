package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/platform/tlsclient"
	"muster/platform/tlsclient/tlstest"
)

const (
	// startTimeout bounds the start of a server.
	startTimeout = time.Minute
	// clientTimeout is the timeout of [Server.Client].
	clientTimeout = 30 * time.Second
)

// Ports are below the ephemeral range, so that the port of a server is still free when it is restarted.
const (
	firstPort = 20_000
	ports     = 10_000
	draws     = 20
)

// errPort is returned by Restart if the port is in use.
var errPort = errors.New("port in use")

// Server is a server or Sentinel. It may be killed and restarted with the same address.
type Server struct {
	program  program
	dir      string
	port     int
	files    tlstest.Files // zero: no TLS
	sentinel string        // Sentinel configuration file; empty for a server

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	output *bytes.Buffer
}

// Start starts a server that is killed when the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return (&Server{}).begin(tb)
}

// StartTLS starts a server with TLS, with the certificate of files, that requires client certificates of the same
// authority.
func StartTLS(tb testing.TB, files tlstest.Files) *Server {
	tb.Helper()
	return (&Server{files: files}).begin(tb)
}

func (s *Server) begin(tb testing.TB) *Server {
	tb.Helper()
	var err error
	s.program, err = find(tb.Context())
	require.NoError(tb, err)
	s.dir = tb.TempDir()
	for range draws {
		s.port = firstPort + rand.IntN(ports) //nolint:gosec // a port is not a secret
		if err = s.Restart(tb.Context()); !errors.Is(err, errPort) {
			break
		}
	}
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Kill()) })
	return s
}

// URL returns the value of REDIS_URL.
func (s *Server) URL() string {
	scheme := "redis"
	if s.files != (tlstest.Files{}) {
		scheme = "rediss"
	}
	return scheme + "://" + s.addr() + "/0"
}

func (s *Server) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// options returns the options of a client.
func (s *Server) options() (*redis.Options, error) {
	options, err := redis.ParseURL(s.URL())
	if err != nil || options.TLSConfig == nil {
		return options, err
	}
	vars := s.files.Env("REDIS")
	settings, err := tlsclient.FromEnv(func(name string) string { return vars[name] }, "REDIS")
	settings.Apply(options.TLSConfig)
	return options, err
}

// Client returns a client that is closed when the test ends. Its timeouts are long enough for a busy machine.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	options, err := s.options()
	require.NoError(tb, err)
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = clientTimeout, clientTimeout, clientTimeout
	c := redis.NewClient(options)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill redis-server: %w", err)
	}
	<-s.exited
	s.cmd = nil
	return nil
}

// Pause makes the server silent: it accepts connections but does not answer.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("%s to redis-server: %w", sig, err)
	}
	return nil
}

// Save writes the data to a file, which is loaded at the next start.
func (s *Server) Save(ctx context.Context, c *redis.Client) error { return c.Save(ctx).Err() }

// Restart restarts the server on the same address with the saved data.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The server outlives ctx, but not this process.
	cmd := exec.Command(s.program.path, s.arguments()...) //nolint:gosec,noctx // see above
	cmd.Env = append(os.Environ(), s.program.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.output = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // fails for a killed server
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return s.awaitReady(ctx)
}

func (s *Server) arguments() []string {
	args := []string{"--save", "", "--appendonly", "no"}
	if s.sentinel != "" {
		args = []string{s.sentinel, "--sentinel"}
	}
	args = append(args, "--bind", "127.0.0.1", "--dir", s.dir)
	if s.files == (tlstest.Files{}) {
		return append(args, "--port", strconv.Itoa(s.port))
	}
	return append(args, "--port", "0", "--tls-port", strconv.Itoa(s.port), "--tls-replication", "yes",
		"--tls-auth-clients", "yes",
		"--tls-ca-cert-file", s.files.CA, "--tls-cert-file", s.files.Cert, "--tls-key-file", s.files.Key)
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	options, err := s.options()
	if err != nil {
		return err
	}
	options.MaxRetries = -1
	c := redis.NewClient(options)
	defer c.Close()
	for {
		err := c.Ping(ctx).Err()
		if err == nil {
			err = s.checkIdentity(ctx, c)
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.exited:
			if strings.Contains(s.output.String(), "Address already in use") {
				return errPort
			}
			return fmt.Errorf("redis-server exited while starting:\n%s", s.output)
		case <-ctx.Done():
			return fmt.Errorf("redis-server is not ready: %w", err)
		}
	}
}

// checkIdentity returns errPort if another server responds on the port.
func (s *Server) checkIdentity(ctx context.Context, c *redis.Client) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("\r\nprocess_id:%d\r\n", s.cmd.Process.Pid)) {
		return errPort
	}
	return nil
}
