package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Conn is a connection: a session of the engine with its own settings and temporary tables. It runs one statement at a
// time and is not safe for concurrent use.
type Conn struct {
	lib    *Library
	handle unsafe.Pointer // chdb_connection *
}

// conn returns the chdb_connection that the handle points to.
func (c *Conn) conn() unsafe.Pointer { return *(*unsafe.Pointer)(c.handle) }

// Close ends the session. Streams and inserts on it must be closed before.
func (c *Conn) Close() {
	if c.handle != nil {
		c.lib.fn.closeConn(c.handle)
		c.handle = nil
	}
}

// Param is a value for a {name:Type} placeholder, escaped as a field of TabSeparated, as in ClickHouse's param_ URL
// parameters.
type Param struct{ Name, Value string }

type statement func(conn, query unsafe.Pointer, queryLen uintptr, format unsafe.Pointer, formatLen uintptr,
	names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer

func (c *Conn) call(fn statement, query, format string, params []Param) unsafe.Pointer {
	if len(params) == 0 {
		r := fn(c.conn(), stringData(query), uintptr(len(query)), stringData(format), uintptr(len(format)),
			nil, nil, nil, nil, 0)
		runtime.KeepAlive(query)
		runtime.KeepAlive(format)
		return r
	}
	var (
		names     = make([]unsafe.Pointer, len(params))
		nameLens  = make([]uintptr, len(params))
		values    = make([]unsafe.Pointer, len(params))
		valueLens = make([]uintptr, len(params))
	)
	for i, p := range params {
		names[i], nameLens[i] = stringData(p.Name), uintptr(len(p.Name))
		values[i], valueLens[i] = stringData(p.Value), uintptr(len(p.Value))
	}
	r := fn(c.conn(), stringData(query), uintptr(len(query)), stringData(format), uintptr(len(format)),
		unsafe.Pointer(&names[0]), unsafe.Pointer(&nameLens[0]),
		unsafe.Pointer(&values[0]), unsafe.Pointer(&valueLens[0]), uintptr(len(params)))
	runtime.KeepAlive(params)
	runtime.KeepAlive(query)
	runtime.KeepAlive(format)
	runtime.KeepAlive(names)
	runtime.KeepAlive(values)
	return r
}

// stringData never returns nil, because the library treats a null pointer as an absent argument.
func stringData(s string) unsafe.Pointer {
	if s == "" {
		return unsafe.Pointer(&emptyString[0])
	}
	return unsafe.Pointer(unsafe.StringData(s))
}

var emptyString = [1]byte{}

// Query runs a statement and holds its whole result in memory.
func (c *Conn) Query(query, format string, params []Param) (*Result, error) {
	return c.result(c.call(c.lib.fn.queryWithParams, query, format, params))
}

func (c *Conn) result(handle unsafe.Pointer) (*Result, error) {
	if handle == nil {
		return nil, errors.New("chdb: the engine returned no result")
	}
	if message := c.lib.fn.resultError(handle); message != nil {
		err := parseError(goString(message))
		c.lib.fn.destroyResult(handle)
		return nil, err
	}
	return &Result{lib: c.lib, handle: handle}, nil
}

// Exec runs a statement and discards its result.
func (c *Conn) Exec(query string) error {
	r, err := c.Query(query, "Null", nil)
	if err != nil {
		return err
	}
	r.Close()
	return nil
}

// Result is the output of a statement or a part of it.
type Result struct {
	lib    *Library
	handle unsafe.Pointer
}

// Bytes returns the formatted output. It belongs to the library and is valid until Close.
func (r *Result) Bytes() []byte {
	n := r.lib.fn.resultLength(r.handle)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(r.lib.fn.resultBuffer(r.handle)), n)
}

// Stats holds the counters of a statement.
type Stats struct {
	ResultRows, ResultBytes   uint64
	ReadRows, ReadBytes       uint64
	WrittenRows, WrittenBytes uint64
}

// Add adds the counters of another part of the same statement.
func (s *Stats) Add(o Stats) {
	s.ResultRows += o.ResultRows
	s.ResultBytes += o.ResultBytes
	s.ReadRows += o.ReadRows
	s.ReadBytes += o.ReadBytes
	s.WrittenRows += o.WrittenRows
	s.WrittenBytes += o.WrittenBytes
}

// Stats returns the counters of the statement up to this result.
func (r *Result) Stats() Stats {
	f := &r.lib.fn
	return Stats{
		ResultRows: f.resultRows(r.handle), ResultBytes: f.resultBytes(r.handle),
		ReadRows: f.resultStorageRows(r.handle), ReadBytes: f.resultStorageBytes(r.handle),
		WrittenRows: f.resultRowsWritten(r.handle), WrittenBytes: f.resultBytesWritten(r.handle),
	}
}

// Close frees the result.
func (r *Result) Close() { r.lib.fn.destroyResult(r.handle) }

// Stream is a query whose result arrives in parts.
type Stream struct {
	conn   *Conn
	handle unsafe.Pointer
	ended  bool
}

// Stream starts a query. Its result is fetched with Next.
func (c *Conn) Stream(query, format string, params []Param) (*Stream, error) {
	handle := c.call(c.lib.fn.streamWithParams, query, format, params)
	if handle == nil {
		return nil, errors.New("chdb: the engine returned no stream")
	}
	if message := c.lib.fn.resultError(handle); message != nil {
		err := parseError(goString(message))
		c.lib.fn.destroyResult(handle)
		return nil, err
	}
	return &Stream{conn: c, handle: handle}, nil
}

// Next returns the next part, or nil at the end.
func (s *Stream) Next() (*Result, error) {
	if s.ended {
		return nil, nil
	}
	f := &s.conn.lib.fn
	r, err := s.conn.result(f.streamFetch(s.conn.conn(), s.handle))
	if err != nil {
		s.ended = true
		return nil, err
	}
	if f.resultLength(r.handle) == 0 {
		s.ended = true
		r.Close()
		return nil, nil
	}
	return r, nil
}

// Close cancels the query if it has not ended, and frees the stream.
func (s *Stream) Close() {
	f := &s.conn.lib.fn
	if !s.ended {
		f.streamCancel(s.conn.conn(), s.handle)
	}
	f.destroyResult(s.handle)
}

// Insert is an INSERT whose data is sent in parts.
type Insert struct {
	lib    *Library
	conn   *Conn
	handle unsafe.Pointer
}

// Insert starts an INSERT. The query must have neither FORMAT nor data.
func (c *Conn) Insert(query, format string, params []Param) (*Insert, error) {
	handle := c.call(c.lib.fn.insertWithParams, query, format, params)
	if handle == nil {
		return nil, errors.New("chdb: the engine returned no insert stream")
	}
	i := &Insert{lib: c.lib, conn: c, handle: handle}
	if message := c.lib.fn.insertError(handle); message != nil {
		err := parseError(goString(message))
		i.Close()
		return nil, err
	}
	return i, nil
}

// Append sends a part of the data, which need not end at a row. It blocks while the engine is busy. It returns
// ErrInsertFailed if the insert has failed; Done returns the cause.
func (i *Insert) Append(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	state := i.lib.fn.insertAppend(i.handle, unsafe.Pointer(&data[0]), uintptr(len(data)))
	runtime.KeepAlive(data)
	if state != 0 {
		return ErrInsertFailed
	}
	return nil
}

// ErrInsertFailed is returned by [Insert.Append] after the insert failed.
var ErrInsertFailed = errors.New("chdb: the insert failed before all data was sent")

// Done ends the data and waits until the rows are stored.
func (i *Insert) Done() (Stats, error) {
	r, err := i.conn.result(i.lib.fn.insertDone(i.handle))
	if err != nil {
		return Stats{}, err
	}
	defer r.Close()
	return r.Stats(), nil
}

// Close frees the insert and cancels it if Done was not called. Blocks that were already written remain, as on a
// ClickHouse server.
func (i *Insert) Close() { i.lib.fn.destroyInsert(i.handle) }
