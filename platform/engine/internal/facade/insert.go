package facade

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// insertChunk is the number of bytes of an INSERT's body that are passed to the engine at a time.
const insertChunk = 256 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, insertChunk); return &b }}

// insert sends the rows in the statement and the body to the engine. They are stored when it returns nil. If the body
// is truncated, complete blocks that were stored before remain, as on a server.
func (s *Server) insert(out *response, conn *pooled, q *request, st *statement, body io.Reader) error {
	out.setFormat(st.dataFormat)
	data := io.Reader(strings.NewReader(st.data))
	if body != nil {
		data = io.MultiReader(data, body)
	}
	insert, err := conn.Insert(st.head, st.dataFormat, q.params)
	if err != nil {
		return err
	}
	defer insert.Close()
	chunk := chunks.Get().(*[]byte)
	defer chunks.Put(chunk)
	for {
		if err := http.NewResponseController(out.w).SetReadDeadline(time.Now().Add(transferTimeout)); err != nil {
			return bodyError(err)
		}
		n, readErr := fill(data, *chunk)
		if n > 0 {
			if err := insert.Append((*chunk)[:n]); err != nil {
				break // Done returns the error
			}
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return bodyError(readErr)
		}
	}
	if err := http.NewResponseController(out.w).SetReadDeadline(time.Time{}); err != nil {
		return bodyError(err)
	}
	stats, err := insert.Done()
	if err != nil {
		return err
	}
	out.stats = stats
	return out.finish(nil)
}

// fill reads until the buffer is full. Unlike io.ReadFull it distinguishes the end of the data (io.EOF) from a
// truncated body (io.ErrUnexpectedEOF).
func fill(r io.Reader, buffer []byte) (int, error) {
	n := 0
	for n < len(buffer) {
		m, err := r.Read(buffer[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
