package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// startTimeout bounds the start of a server.
const startTimeout = 20 * time.Second

// Server is a running server. It may be killed and restarted; its address stays.
type Server struct {
	program program
	dir     string
	port    int

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	output *bytes.Buffer
}

// Start starts a server that ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	p, err := find(tb.Context())
	require.NoError(tb, err)
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	s := &Server{program: p, dir: tb.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	require.NoError(tb, l.Close())
	require.NoError(tb, s.Restart(tb.Context()))
	tb.Cleanup(func() { require.NoError(tb, s.Kill()) })
	return s
}

// URL is what REDIS_URL holds.
func (s *Server) URL() string { return "redis://127.0.0.1:" + strconv.Itoa(s.port) + "/0" }

// Client connects to the server until the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	options, err := redis.ParseURL(s.URL())
	require.NoError(tb, err)
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

// Pause has the server fall silent: it still takes connections, and answers nobody.
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

// Save writes the server's data to its file, which the next start reads.
func (s *Server) Save(ctx context.Context, c *redis.Client) error { return c.Save(ctx).Err() }

// Restart starts the server again on the same address, with what was saved.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The server outlives ctx, but not this process.
	cmd := exec.Command(s.program.path, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no") //nolint:gosec,noctx // see above
	cmd.Env = append(os.Environ(), s.program.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.output = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a server that is killed reports that as an error
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return s.awaitReady(ctx)
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(s.port), MaxRetries: -1})
	defer c.Close()
	for {
		err := c.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.exited:
			return fmt.Errorf("redis-server exited while starting:\n%s", s.output)
		case <-ctx.Done():
			return fmt.Errorf("redis-server is not ready: %w", err)
		}
	}
}
