package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// pushBody reads a request's body, with a deadline for each read, and no more once
// it is closed: the connection may then be another request's.
type pushBody struct {
	in       io.Reader
	control  *http.ResponseController
	idle     time.Duration
	encoding string
	begun    bool
	head     []byte

	mu      sync.Mutex
	closed  bool
	ended   bool  // the body was read to its end
	failed  error // the first error of a read but io.EOF
	active  int   // reads that are under way
	reading sync.WaitGroup
}

var errEncoding = errors.New("the body is not encoded as Content-Encoding says")

func (b *pushBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed || b.failed != nil {
		defer b.mu.Unlock()
		return 0, errors.Join(b.failed, os.ErrClosed)
	}
	b.reading.Add(1)
	b.active++
	// Without deadlines (a connection that knows none) the client's own apply.
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
	b.mu.Unlock()
	defer b.reading.Done()
	n, err := b.read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active--
	switch {
	case err == io.EOF: //nolint:errorlint // io.EOF is never wrapped by readers
		b.ended = true
		// From here on the server itself reads, for the next request: that has
		// all the time it wants.
		_ = b.control.SetReadDeadline(time.Time{})
	case err != nil && !b.closed:
		b.failed = err
	}
	return n, err
}

func (b *pushBody) read(p []byte) (int, error) {
	if !b.begun {
		if err := b.begin(); err != nil {
			return 0, err
		}
	}
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	return b.in.Read(p)
}

// err is why the body could not be read to its end, if that was it. It is not the
// error of a request whose connection is gone: the run ends for the same reason
// without naming it.
func (b *pushBody) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// begin looks whether the body begins as its encoding does.
func (b *pushBody) begin() error {
	b.begun = true
	magic := map[string]string{"gzip": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd"}[b.encoding]
	if magic == "" {
		return nil
	}
	b.head = make([]byte, len(magic))
	n, err := io.ReadFull(b.in, b.head)
	b.head = b.head[:n]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(b.head) != magic {
		return errEncoding
	}
	return err
}

// close waits until nothing reads the body any more. A body that was read to its end
// is left alone: the server watches the connection then, and takes a deadline that
// passes for the end of the connection, and so of the request that comes next on it.
func (b *pushBody) close() {
	b.mu.Lock()
	b.closed = true
	if b.active > 0 && !b.ended {
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // wakes up what reads
	}
	b.mu.Unlock()
	b.reading.Wait()
}
