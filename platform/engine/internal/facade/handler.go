package facade

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/platform/engine/internal/chdb"
)

// Default limits of a ClickHouse server (http_max_uri_size, http_max_fields, http_max_field_name_size,
// http_max_field_value_size).
const (
	maxURISize        = 1 << 20
	maxFields         = 1_000_000
	maxFieldNameSize  = 128 << 10
	maxFieldValueSize = 128 << 10
)

// headSize is the number of bytes of a body that are read to parse the statement.
const headSize = 64 << 10

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
		return
	}
	defer s.active.Done()
	// A write deadline of the previous response on this connection must not apply.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // supported by every connection
	// Pages of other origins must not load responses as scripts or images.
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	if len(r.RequestURI) > maxURISize {
		http.Error(w, "HTTP request URI invalid or too long", http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/", "/query":
	case "/ping", "/replicas_status":
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		_, _ = io.WriteString(w, "Ok.\n") // fails if the client has disconnected
		return
	default:
		http.Error(w, "There is no handle "+r.URL.Path+". Use / or /ping for health checks. "+
			"Send queries from your program with POST method or GET /?query=...", http.StatusNotFound)
		return
	}
	out := &response{server: s, w: w}
	if err := s.handle(out, r); err != nil {
		out.fail(err)
	}
}

// enter registers a request. It returns false if the server is stopping.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.active.Add(1)
	return true
}

// handle serves one request. An error that it returns has not been sent.
func (s *Server) handle(out *response, r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
	case http.MethodOptions:
		out.w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		return errNotImplemented.errorf("Method %s is not supported", r.Method)
	}
	values, err := parseFields(r.URL.RawQuery, r.Header)
	if err != nil {
		return err
	}
	headers := map[string]string{"X-ClickHouse-Database": "database", "X-ClickHouse-Format": "default_format"}
	for header, name := range headers {
		if v := r.Header.Get(header); v != "" && !values.Has(name) {
			values.Set(name, v)
		}
	}
	user, err := s.authenticate(r, values)
	if err != nil {
		return err
	}
	out.queryID = values.Get("query_id")
	if out.queryID == "" {
		out.queryID = fmt.Sprintf("%s-%d", s.boot, s.queryIDs.Add(1))
	}
	readonly := r.Method == http.MethodGet || r.Method == http.MethodHead
	if isMultipart(r) {
		return s.handleForm(out, r, values, user)
	}
	q, err := s.parseRequest(values, user, readonly, nil)
	if err != nil {
		return err
	}
	out.prepare(q, r)
	release, gateErr := s.admit(r.Context(), out.w, user)
	if gateErr != nil {
		return gateErr
	}
	defer release()
	body, err := decodedBody(r, q.decompress)
	if err != nil {
		return err
	}
	defer body.Close()
	size := headSize
	plain := r.Header.Get("Content-Encoding") == "" && !q.decompress
	if r.ContentLength >= 0 && r.ContentLength < headSize && plain {
		size = int(r.ContentLength) + 1
	}
	text, rest, readErr := splitBody(values.Get("query"), body, size, q.maxQuerySize)
	if readErr != nil {
		return readErr
	}
	if err := clearReadDeadline(out.w, user); err != nil {
		return err
	}
	return s.execute(r.Context(), out, q, text, rest, nil)
}

// parseFields parses the URL's parameters within ClickHouse's limits.
func parseFields(raw string, header http.Header) (url.Values, *chdb.Error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errPoco.errorf("Poco::Exception. Code: 1000, e.displayText() = HTML Form Exception: %s", err)
	}
	if e := checkFields(values); e != nil {
		return nil, e
	}
	if e := checkFields(url.Values(header)); e != nil {
		return nil, e
	}
	return values, nil
}

func checkFields(values url.Values) *chdb.Error {
	n := 0
	for name, all := range values {
		n += len(all)
		if len(name) > maxFieldNameSize {
			return errPoco.errorf("HTML Form Exception: Field name too long")
		}
		for _, v := range all {
			if len(v) > maxFieldValueSize {
				return errPoco.errorf("HTML Form Exception: Field value too long")
			}
		}
	}
	if n > maxFields {
		return errPoco.errorf("HTML Form Exception: Too many form fields")
	}
	return nil
}

// splitBody parses the statement. The body continues the query parameter, unless that is an INSERT, whose rows are the
// body. For an INSERT, rest is the unread part of the body after the statement.
//
// size is the number of bytes to read at first; a smaller body is read completely.
func splitBody(param string, body io.Reader, size, maxQuerySize int) (text statement, rest io.Reader, err error) {
	if strings.TrimSpace(param) != "" {
		if text = parseStatement(param); text.isInsert {
			return text, body, nil
		}
		param += "\n"
	} else {
		param = ""
	}
	reader := bufio.NewReaderSize(body, size)
	head, peekErr := reader.Peek(size)
	if peekErr != nil && !errors.Is(peekErr, io.EOF) {
		return text, nil, bodyError(peekErr)
	}
	if len(head) == 0 && param != "" {
		return text, nil, nil
	}
	whole := errors.Is(peekErr, io.EOF)
	if !whole {
		if text = parseStatement(param + string(head)); text.isInsert {
			return text, discard(reader, len(head)), nil
		}
		var b strings.Builder
		if _, err := io.Copy(&b, io.LimitReader(reader, int64(maxQuerySize)+1)); err != nil {
			return text, nil, bodyError(err)
		}
		text = parseStatement(param + b.String())
		if text.isInsert {
			return text, reader, nil
		}
		if b.Len() > maxQuerySize {
			return text, nil, errQueryTooLarge(maxQuerySize)
		}
		return text, nil, nil
	}
	return parseStatement(param + string(head)), nil, nil
}

func discard(r *bufio.Reader, n int) io.Reader {
	_, _ = r.Discard(n) // these bytes are buffered
	return r
}

func bodyError(err error) error {
	if e, ok := errors.AsType[*chdb.Error](err); ok {
		return e
	}
	return errCannotDecompress.errorf("Cannot read the request's body: %s", err)
}
