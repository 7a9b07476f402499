package facade

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"muster/platform/engine/internal/chdb"
)

// execute runs a statement and writes its result. The caller has passed the analyst gate.
func (s *Server) execute(
	ctx context.Context, out *response, q *request, st statement, body io.Reader, tables []externalTable,
) error {
	if err := st.validate(); err != nil {
		return err
	}
	q.hasTempTables = q.session != "" || len(tables) > 0
	if err := s.pool.acquire(ctx); err != nil {
		return err
	}
	defer s.pool.release()
	if q.user.Analyst {
		restricted, err := s.restrictStatement(q, st.text)
		if err != nil {
			return err
		}
		st = restricted
	}
	for i := range tables {
		if err := s.define(&tables[i], q); err != nil {
			return err
		}
	}
	conn, release, err := s.connection(q, tables)
	if err != nil {
		return err
	}
	reusable := false
	defer func() { release(reusable) }()

	if q.user.Analyst && q.timeout > 0 {
		// A slow reader must not occupy its slot for longer than the query's time. One more second lets the response
		// end with the exception.
		out.deadline = time.Now().Add(q.timeout + time.Second)
		defer func() { out.deadline = time.Time{} }()
	}
	w := s.watch(ctx, q.timeout, conn.id)
	err = fillTables(conn, tables)
	switch {
	case err != nil:
	case st.isInsert:
		err = s.insert(out, conn, q, &st, body)
	default:
		err = s.query(out, conn, q, &st)
	}
	if cause := w.stop(); cause != nil && err != nil {
		err = cause
	}
	if st.ddl {
		s.headers.clear()
	}
	reusable = err == nil && !st.session && !w.fired
	return err
}

// validate returns an error for statements that a server rejects, or that the engine as a library does not support.
func (st *statement) validate() error {
	switch {
	case st.first == "":
		return errSyntax.errorf("Syntax error: failed at position 1 (end of query): Empty query")
	case st.several:
		return errSyntax.errorf("Syntax error (Multi-statements are not allowed): failed at position %d (end of query)",
			len(st.text))
	case st.input:
		return errNotImplemented.errorf("INSERT ... SELECT ... FROM input() does not work in the embedded engine: " +
			"insert the rows, or send them as an external table")
	case st.intoOutfile:
		return code{358, "INTO_OUTFILE_NOT_ALLOWED"}.errorf(
			"INTO OUTFILE and FROM INFILE are features of clients and not allowed here")
	}
	return nil
}

// connection returns a connection with the setup of the request, and a function that releases it. External tables are
// not created yet.
func (s *Server) connection(q *request, tables []externalTable) (*pooled, func(reusable bool), error) {
	if q.session != "" && !q.user.Analyst {
		// An analyst cannot change a session, so it has no state.
		return s.sessionConnection(q, tables)
	}
	if len(tables) > 0 {
		return s.externalConnection(q, tables)
	}
	conn, err := s.pool.get(q.setup)
	if err != nil {
		return nil, nil, err
	}
	return conn, func(reusable bool) {
		if reusable {
			s.pool.put(conn)
		} else {
			conn.Close()
		}
	}, nil
}

func (s *Server) query(out *response, conn *pooled, q *request, st *statement) error {
	format := q.defaultFormat
	if format == "" {
		format = "TabSeparated"
	}
	if st.format != "" {
		format = st.format
	}
	out.setFormat(format)
	if q.user.Analyst {
		analysis, err := conn.Classify(st.text)
		if err != nil {
			return err
		}
		mayRead := analysis.Class == chdb.ReadOnly || analysis.Class == chdb.Unknown && st.streams()
		if !mayRead || analysis.Statements > 1 {
			return errReadonly.errorf("%s: Cannot execute query in readonly mode", q.user.Name)
		}
	}
	if st.streams() && !q.waitEnd {
		if layout, ok := streamable[strings.ToLower(format)]; ok {
			err := s.stream(out, conn, q, st, format, layout)
			if !errors.Is(err, errNotStreamable) {
				return err
			}
		}
	}
	if !st.streams() && isExit(st.text) {
		return errSyntax.errorf("Syntax error: failed at position 1 (%s)", st.text)
	}
	result, err := conn.Query(st.text, format, q.params)
	if err != nil {
		return err
	}
	defer result.Close()
	out.stats = result.Stats()
	data := result.Bytes()
	if len(data) == 0 && st.streams() {
		return s.writeEmpty(out, conn, q, st)
	}
	return out.finish(data)
}

var errNotStreamable = errors.New("result cannot be streamed")

// stream sends the result in parts. Each part is a complete document of the format, so only formats whose documents can
// be concatenated are streamed.
func (s *Server) stream(
	out *response, conn *pooled, q *request, st *statement, format string, layout formatLayout,
) error {
	stream, err := conn.Stream(st.text, format, q.params)
	if err != nil {
		e, ok := errors.AsType[*chdb.Error](err)
		if ok && strings.HasPrefix(e.Message, "Streaming query is not supported") && !q.user.Analyst {
			return errNotStreamable
		}
		return err
	}
	defer stream.Close()
	part, err := stream.Next()
	if err != nil {
		return err
	}
	if part == nil {
		return s.writeEmpty(out, conn, q, st)
	}
	header := layout.headerLength(part.Bytes())
	for first := true; ; first = false {
		data := part.Bytes()
		if !first {
			data = data[min(header, len(data)):]
		}
		out.stats.Add(part.Stats())
		next, nextErr := stream.Next()
		if nextErr == nil && next == nil {
			err := out.finish(data)
			part.Close()
			return err
		}
		err := out.write(data)
		part.Close()
		if nextErr != nil {
			return nextErr
		}
		if err != nil {
			if next != nil {
				next.Close()
			}
			return err
		}
		part = next
	}
}

// writeEmpty sends the result of a query without rows. In Native format a server sends the columns, the library
// nothing.
func (s *Server) writeEmpty(out *response, conn *pooled, q *request, st *statement) error {
	if !strings.EqualFold(out.format, "Native") {
		return out.finish(nil)
	}
	key := q.setup.key() + "\x00" + st.text
	header, ok := s.headers.get(key)
	if !ok || q.hasTempTables {
		text := st.text
		result, err := conn.Query("DESCRIBE TABLE ("+withoutFormat(text)+"\n)", "TabSeparatedRaw", q.params)
		if err != nil {
			// DESCRIBE does not support the statement: send no columns.
			return out.finish(nil)
		}
		header = parseDescription(string(result.Bytes()))
		result.Close()
		if !q.hasTempTables {
			s.headers.put(key, header)
		}
	}
	return out.finish(header)
}

// watch kills the statement of a connection when ctx ends or the timeout expires. The caller calls stop.
func (s *Server) watch(ctx context.Context, timeout time.Duration, id string) *watchdog {
	r := &watchdog{done: make(chan struct{}), ended: make(chan struct{})}
	if timeout > 0 {
		ctx, r.cancel = context.WithTimeoutCause(ctx, timeout, errTimeoutExceeded.errorf(
			"Timeout exceeded: elapsed %d ms, maximum: %d ms", timeout.Milliseconds(), timeout.Milliseconds()))
	}
	r.ctx = ctx
	r.unregister = context.AfterFunc(ctx, func() {
		defer close(r.ended)
		// One KILL is not enough: the statement may not have started yet.
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-r.done:
				return
			default:
			}
			if err := s.pool.kill(id); err != nil {
				s.cfg.Logger.Warn("engine: kill a statement", "error", err)
			}
			select {
			case <-r.done:
				return
			case <-ticker.C:
			}
		}
	})
	return r
}

// watchdog watches a running statement.
type watchdog struct {
	ctx        context.Context
	cancel     context.CancelFunc
	unregister func() bool
	done       chan struct{}
	ended      chan struct{} // closed when the killing goroutine has returned
	fired      bool
}

// stop ends the watch. It returns why the statement was killed, or nil.
func (r *watchdog) stop() error {
	close(r.done)
	r.fired = !r.unregister()
	if r.fired {
		<-r.ended
	}
	var cause error
	if r.fired {
		cause = context.Cause(r.ctx)
		if errors.Is(cause, context.Canceled) {
			cause = errQueryCancelled.errorf("Query was cancelled: the client closed the connection")
		}
	}
	if r.cancel != nil {
		r.cancel()
	}
	return cause
}
