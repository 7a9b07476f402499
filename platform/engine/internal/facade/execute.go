package facade

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"muster/platform/engine/internal/chdb"
)

// execute runs one statement and writes its result. An analyst's has its place.
func (s *Server) execute(ctx context.Context, out *response, q *request, st statement, body io.Reader, tables []externalTable) error {
	if err := refuse(&st); err != nil {
		return err
	}
	q.ownTables = q.session != "" || len(tables) > 0
	if err := s.pool.acquire(ctx); err != nil {
		return err
	}
	defer s.pool.releasePlace()
	if q.user.Analyst {
		confined, err := s.confine(q, st.text)
		if err != nil {
			return err
		}
		st = confined
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
		// The place is the client's no longer than the query's time, however slowly
		// it reads. A moment more lets an answer end with why.
		out.until = time.Now().Add(q.timeout + time.Second)
		defer func() { out.until = time.Time{} }()
	}
	run := s.watch(ctx, q.timeout, conn.id)
	err = fillTables(conn, tables)
	switch {
	case err != nil:
	case st.isInsert:
		err = s.insert(out, conn, q, &st, body)
	default:
		err = s.query(out, conn, q, &st)
	}
	if cause := run.stop(); cause != nil && err != nil {
		err = cause
	}
	if st.ddl {
		s.headers.clear()
	}
	reusable = err == nil && !st.session && !run.fired
	return err
}

// refuse reports statements that a server would refuse, or that do not work here.
func refuse(st *statement) error {
	switch {
	case st.first == "":
		return errSyntax.errorf("Syntax error: failed at position 1 (end of query): Empty query")
	case st.several:
		return errSyntax.errorf("Syntax error (Multi-statements are not allowed): failed at position %d (end of query)", len(st.text))
	case st.input:
		return errNotImplemented.errorf("INSERT ... SELECT ... FROM input() does not work in the embedded engine: insert the rows, or send them as an external table")
	case st.intoOutfile:
		return code{358, "INTO_OUTFILE_NOT_ALLOWED"}.errorf("INTO OUTFILE and FROM INFILE are a client's business and not allowed here")
	}
	return nil
}

// connection takes a connection that is set up for the request, and says how
// to give it back. The tables are not there yet.
func (s *Server) connection(q *request, tables []externalTable) (*pooled, func(reusable bool), error) {
	if q.session != "" && !q.user.Analyst {
		// An analyst cannot change a session, so has none to keep.
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
		if analysis.Class != chdb.ReadOnly && (analysis.Class != chdb.Unknown || !st.streams()) || analysis.Statements > 1 {
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
		return s.empty(out, conn, q, st)
	}
	return out.finish(data)
}

var errNotStreamable = errors.New("the statement's result does not come in parts")

// stream sends the result part by part. Every part is a document of its own
// in the format, so only formats are streamed whose documents can be joined.
func (s *Server) stream(out *response, conn *pooled, q *request, st *statement, format string, layout formatLayout) error {
	stream, err := conn.Stream(st.text, format, q.params)
	if err != nil {
		if e, ok := errors.AsType[*chdb.Error](err); ok && strings.HasPrefix(e.Message, "Streaming query is not supported") && !q.user.Analyst {
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
		return s.empty(out, conn, q, st)
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

// empty answers a query without rows. In Native a server sends the columns all
// the same; the library sends nothing.
func (s *Server) empty(out *response, conn *pooled, q *request, st *statement) error {
	if !strings.EqualFold(out.format, "Native") {
		return out.finish(nil)
	}
	key := q.setup.key() + "\x00" + st.text
	header, ok := s.headers.get(key)
	if !ok || q.ownTables {
		text := st.text
		result, err := conn.Query("DESCRIBE TABLE ("+withoutFormat(text)+"\n)", "TabSeparatedRaw", q.params)
		if err != nil {
			// What cannot be described has no columns to tell of.
			return out.finish(nil)
		}
		header = parseDescription(string(result.Bytes()))
		result.Close()
		if !q.ownTables {
			s.headers.put(key, header)
		}
	}
	return out.finish(header)
}

// watch cancels the connection's statement when the context or the time ends.
func (s *Server) watch(ctx context.Context, timeout time.Duration, id string) *running {
	r := &running{done: make(chan struct{}), ended: make(chan struct{})}
	if timeout > 0 {
		ctx, r.cancel = context.WithTimeoutCause(ctx, timeout, errTimeoutExceeded.errorf(
			"Timeout exceeded: elapsed %d ms, maximum: %d ms", timeout.Milliseconds(), timeout.Milliseconds()))
	}
	r.ctx = ctx
	r.unregister = context.AfterFunc(ctx, func() {
		defer close(r.ended)
		// The statement may not have begun yet, so one KILL is not enough.
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

// running is a statement under watch.
type running struct {
	ctx        context.Context
	cancel     context.CancelFunc
	unregister func() bool
	done       chan struct{}
	ended      chan struct{} // closed when the killer has returned
	fired      bool
}

// stop ends the watch and returns why the statement was cancelled, if it was.
func (r *running) stop() error {
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
