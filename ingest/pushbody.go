package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// pushBody reads a request body with a deadline for each read. It reads nothing after close,
// because the connection may then serve another request.
type pushBody struct {
	in       io.Reader
	control  *http.ResponseController
	idle     time.Duration
	encoding string
	checked  bool
	head     []byte

	mu          sync.Mutex
	closed      bool
	atEOF       bool  // the body was read to its end
	readErr     error // the first read error other than io.EOF
	activeReads int   // reads in progress
	reading     sync.WaitGroup
}

var errEncoding = errors.New("the body does not match its Content-Encoding")

func (b *pushBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed || b.readErr != nil {
		defer b.mu.Unlock()
		return 0, errors.Join(b.readErr, os.ErrClosed)
	}
	b.reading.Add(1)
	b.activeReads++
	// Without deadlines (a connection that knows none) the client's own apply.
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
	b.mu.Unlock()
	defer b.reading.Done()
	n, err := b.read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.activeReads--
	switch {
	case err == io.EOF: //nolint:errorlint // io.EOF is never wrapped by readers
		b.atEOF = true
		// The server now reads the next request, without a deadline of ours.
		_ = b.control.SetReadDeadline(time.Time{})
	case err != nil && !b.closed:
		b.readErr = err
	}
	return n, err
}

func (b *pushBody) read(p []byte) (int, error) {
	if !b.checked {
		if err := b.checkMagic(); err != nil {
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

// err returns the first read error. It is nil if the connection of the request is gone: the run
// then ends for the same reason without naming it.
func (b *pushBody) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readErr
}

// checkMagic reports errEncoding unless the body starts with the magic number of its encoding.
func (b *pushBody) checkMagic() error {
	b.checked = true
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

// close stops reads and waits for those in progress. It sets no deadline after a body was read to
// its end: the server then watches the connection, and would take an expired deadline for its end.
func (b *pushBody) close() {
	b.mu.Lock()
	b.closed = true
	if b.activeReads > 0 && !b.atEOF {
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // wakes up pending reads
	}
	b.mu.Unlock()
	b.reading.Wait()
}
