package opensearch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/javatest"
)

// readyTimeout bounds a start, on a machine that is busy.
const readyTimeout = 2 * time.Minute

// longest bounds a request; merging a million documents takes minutes.
const longest = 30 * time.Minute

// Options say how a node is started.
type Options struct {
	// Heap is the size of Java's heap in MiB; default 1024.
	Heap int
	// Dir keeps the indexes beyond Close; default: a temporary folder.
	Dir string
}

// Node is a running OpenSearch.
type Node struct {
	dir    string
	keep   bool
	url    string
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
	output *javatest.Tail
	client *http.Client
}

// Start returns when the node answers.
func Start(ctx context.Context, o Options) (*Node, error) {
	if o.Heap == 0 {
		o.Heap = 1024
	}
	build, err := build(ctx)
	if err != nil {
		return nil, fmt.Errorf("opensearch: %w", err)
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "opensearch-"); err != nil {
			return nil, fmt.Errorf("opensearch: %w", err)
		}
	}
	n := &Node{dir: dir, keep: o.Dir != "", output: &javatest.Tail{}, exited: make(chan struct{}), client: &http.Client{Timeout: longest}}
	if err := n.start(ctx, build, o.Heap); err != nil {
		return nil, errors.Join(fmt.Errorf("opensearch: %w", err), n.Close())
	}
	return n, nil
}

// Attach uses a node that another process started, by its URL. Close leaves it running.
func Attach(url string) *Node {
	return &Node{url: url, client: &http.Client{Timeout: longest}}
}

// PID is the process that the node runs in, 0 for one that is attached.
func (n *Node) PID() int {
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// URL is where the node answers.
func (n *Node) URL() string { return n.url }

func (n *Node) start(ctx context.Context, build string, heap int) error {
	if err := os.MkdirAll(filepath.Join(n.dir, "config"), 0o750); err != nil {
		return err
	}
	classpath := filepath.Join(build, "classes") + string(os.PathListSeparator) + filepath.Join(build, "jars", "*")
	// The node outlives ctx. It ends when its standard input does, so not later than this process.
	cmd := exec.Command("java", "-Xms256m", fmt.Sprintf("-Xmx%dm", heap), "-XX:+UseSerialGC", "-cp", classpath, "Judge", n.dir) //nolint:gosec,noctx // see above
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = n.output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start java: %w", err)
	}
	n.cmd, n.stdin = cmd, stdin
	port := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(io.TeeReader(stdout, n.output)); s.Scan(); {
			if p, ok := strings.CutPrefix(s.Text(), "port "); ok {
				port <- p
			}
		}
		_ = cmd.Wait() // how it ended is in its output
		close(n.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case p := <-port:
		n.url = "http://127.0.0.1:" + p
		return nil
	case <-n.exited:
		return fmt.Errorf("java ended:\n%s", n.output)
	case <-ctx.Done():
		return fmt.Errorf("java is not ready: %w\n%s", ctx.Err(), n.output)
	}
}

// Close stops the node and removes its data, unless they are in a folder of the caller's.
func (n *Node) Close() error {
	n.client.CloseIdleConnections()
	if n.dir == "" {
		return nil
	}
	if n.cmd != nil {
		_ = n.stdin.Close() // a process that is gone has closed it
		select {
		case <-n.exited:
		case <-time.After(20 * time.Second):
			if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("opensearch: stop: %w", err)
			}
			<-n.exited
		}
	}
	if n.keep {
		return nil
	}
	return os.RemoveAll(n.dir)
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Body   string
}

// Error holds the beginning of the answer.
func (e *StatusError) Error() string {
	return fmt.Sprintf("opensearch: status %d: %.600s", e.Status, e.Body)
}

// Do sends one request and decodes the answer into out, unless that is nil. An answer that is no success is a
// *[StatusError].
func (n *Node) Do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("opensearch: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("opensearch: %w", err)
	}
	defer res.Body.Close() // read to its end
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("opensearch: %w", err)
	}
	if res.StatusCode >= 300 {
		return &StatusError{Status: res.StatusCode, Body: string(answer)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out, jsontext.AllowDuplicateNames(true)); err != nil {
		return fmt.Errorf("opensearch: %s %s: %w", method, path, err)
	}
	return nil
}
