package opensearchtest

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
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/javatest"
)

// readyTimeout bounds a start, on a busy machine.
const readyTimeout = 2 * time.Minute

// requestTimeout bounds a request; merging a million documents takes minutes.
const requestTimeout = 30 * time.Minute

// Options configures a node.
type Options struct {
	// Heap is the Java heap size in MiB; default 1024.
	Heap int
	// Dir is the data directory, which is kept after Close; default: a temporary directory.
	Dir string
	// Port is the HTTP port on the loopback interface; default: a free one.
	Port int
	// Stock starts OpenSearch with the default cluster settings and without combined_fields.
	Stock bool
	// Settings are further settings of the node, as name=value.
	Settings []string
}

// Node is a running OpenSearch node.
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

// Start starts a node and waits until it responds.
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
	n := &Node{dir: dir, keep: o.Dir != "", output: &javatest.Tail{}, exited: make(chan struct{}),
		client: &http.Client{Timeout: requestTimeout}}
	if err := n.start(ctx, build, o); err != nil {
		return nil, errors.Join(fmt.Errorf("opensearch: %w", err), n.Close())
	}
	return n, nil
}

// Attach uses a node that another process started, by its URL. Close leaves it running.
func Attach(url string) *Node {
	return &Node{url: url, client: &http.Client{Timeout: requestTimeout}}
}

// Dir returns the data directory of the node, "" if it is attached.
func (n *Node) Dir() string { return n.dir }

// Exited is closed when the node's process has ended. It is nil if the node is attached.
func (n *Node) Exited() <-chan struct{} { return n.exited }

// PID returns the process ID of the node, 0 if it is attached.
func (n *Node) PID() int {
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// URL returns the base URL of the node.
func (n *Node) URL() string { return n.url }

func (n *Node) start(ctx context.Context, build string, o Options) error {
	if err := os.MkdirAll(filepath.Join(n.dir, "config"), 0o750); err != nil {
		return err
	}
	classpath := filepath.Join(build, "classes") + string(os.PathListSeparator) + filepath.Join(build, "jars", "*")
	// The node outlives ctx. It exits when its standard input is closed, at the latest with this process.
	args := []string{
		"-Xms256m", fmt.Sprintf("-Xmx%dm", o.Heap), "-XX:+UseSerialGC", "-cp", classpath, "Judge", n.dir, strconv.Itoa(o.Port),
	}
	if o.Stock {
		args = append(args, "stock")
	} else {
		args = append(args, "judge")
	}
	args = append(args, o.Settings...)
	cmd := exec.Command("java", args...) //nolint:gosec,noctx // see above
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
		_ = cmd.Wait() // the output has the reason
		close(n.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case p := <-port:
		n.url = "http://127.0.0.1:" + p
		return nil
	case <-n.exited:
		return fmt.Errorf("java exited:\n%s", n.output)
	case <-ctx.Done():
		return fmt.Errorf("java is not ready: %w\n%s", ctx.Err(), n.output)
	}
}

// Close stops the node and removes its data, unless Options.Dir is set.
func (n *Node) Close() error {
	n.client.CloseIdleConnections()
	if n.dir == "" {
		return nil
	}
	if n.cmd != nil {
		_ = n.stdin.Close() // fails if the process has exited
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

// StatusError is a response with a status other than 2xx.
type StatusError struct {
	Status int
	Body   string
}

// Error includes the beginning of the response.
func (e *StatusError) Error() string {
	return fmt.Sprintf("opensearch: status %d: %.600s", e.Status, e.Body)
}

// Do sends one request and decodes the response into out, unless that is nil. It returns a *[StatusError] if the
// request did not succeed.
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
