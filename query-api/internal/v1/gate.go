package v1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"muster/query-api/internal/account"
	"muster/query-api/internal/mcptools"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
)

// drainFactor is how much of a body that is too large is read, as a multiple of the limit: a client that is cut off
// while it writes sees a broken connection instead of the 413.
const drainFactor = 16

// gate runs the checks before an operation, in the order of rulings.md, Errors, starting with 413.
func (s *Server) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		op := s.routes[mux.CurrentRoute(r)]
		if op.data { // before anything is read
			x.asOf, _ = s.asOf()
			if op.searched {
				x.asOf, _ = s.searchAsOf()
			}
		}
		x.operation = op
		receive := s.receive
		if op.upload {
			receive = s.receiveUpload
		}
		body, err := receive(w, r, op, x)
		defer x.upload.close()
		defer x.parsed()
		if err == nil && x.call != nil && !op.tools {
			var key string
			if key, err = idempotencyKey(r); key != "" {
				x.call.Idempotent(key, r.URL.Path, body)
			}
		}
		if err != nil {
			x.fail(w, problemOf(op, err))
			return
		}
		timeout := s.cfg.RequestTimeout
		if op.patient {
			timeout += s.finder.Budget()
		}
		if op.waiting {
			timeout += event.MaxContextTimeout
			extendDeadlines(w, timeout)
		}
		if op.upload {
			timeout += storeTimeout
			extendDeadlines(w, timeout)
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if op.streams {
			ctx = r.Context() // the rate at which the client reads bounds it
		}
		if s.cfg.Uncounted {
			ctx = metering.NewContext(ctx, &metering.Call{})
		}
		if x.call != nil {
			ctx = metering.NewContext(ctx, x.call)
			x.sending = &chargedWriter{
				ResponseWriter: w, ctx: ctx, op: op, call: x.call, recorder: x.recorder,
				grace: s.cfg.ReadGrace, rate: s.cfg.MinReadRate, now: s.now,
			}
			w = x.sending
		}
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// receive runs the checks of a call with a JSON body, or without a body, and returns the body.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, op *operation, x *exchange) ([]byte, error) {
	unauthenticated := s.checkKey(r, op)
	body, truncated, err := s.readBody(w, r, op, unauthenticated == nil)
	if err == nil {
		err = unauthenticated
	}
	if err == nil && !s.cfg.Uncounted {
		err = s.authorize(w, r, op, x, body)
	}
	if err == nil {
		err = truncated
	}
	if err == nil && op.queries && len(body) > largeSearch {
		x.release, err = s.search.Compute(r.Context())
	}
	if err != nil {
		return nil, err
	}
	return op.check(r, body)
}

// largeSearch is the size of the bodies of searches above which few are parsed at a time: parsing 32 KiB takes up to 20
// ms.
const largeSearch = 16 << 10

const (
	// maxHead bounds the request line and the headers.
	maxHead = 64 << 10
	// MaxHeaderBytes is the header limit that the HTTP server needs at least: it rejects longer headers itself, not as
	// JSON.
	MaxHeaderBytes = 4 * maxHead
)

// checkHead rejects a request line and headers that are too long.
func checkHead(r *http.Request) error {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	if n > maxHead {
		return invalidf("address and headers of the request have %d bytes, and may have %d: "+
			"ask for less at a time, or send a list of identifiers as the body of a POST", n, maxHead)
	}
	return nil
}

// extendDeadlines extends the connection deadlines for calls that wait: the defaults are for immediate responses.
func extendDeadlines(w http.ResponseWriter, timeout time.Duration) {
	until := time.Now().Add(timeout)
	c := http.NewResponseController(w)
	// Writers in tests may not support deadlines.
	_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until)
}

// checkKey returns the 401 for a call without a valid key. It runs before the body is read, so that unauthenticated
// bodies are not buffered, although 413 and 415 are answered first.
func (s *Server) checkKey(r *http.Request, op *operation) error {
	if s.cfg.Uncounted || op.isPublic() {
		return nil
	}
	_, err := s.accounts.Authenticate(r.Header.Values("Authorization"), s.now())
	return err
}

// readBody checks for 413 and 415, and reads the body, except of a GET. It returns the body if keep is set.
// truncated is the error of a body that ends too early; it is answered after authentication.
func (s *Server) readBody(
	w http.ResponseWriter, r *http.Request, op *operation, keep bool,
) (body []byte, truncated, err error) {
	limit := s.cfg.MaxBodyBytes
	tooLarge := func() error {
		return &problem{status: http.StatusRequestEntityTooLarge, detail: sizeDetail(limit)}
	}
	if r.ContentLength > limit {
		if r.ContentLength <= drainFactor*limit && r.Header.Get("Expect") == "" {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength)
		}
		return nil, nil, tooLarge()
	}
	switch coding := contentEncoding(r); {
	case op.body == nil && op.method == http.MethodGet:
		return nil, nil, nil
	case op.body == nil: // read to see that it has no fields
	case coding != "":
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType,
			detail: "the request body is sent with Content-Encoding " + quote(coding) +
				": send it uncompressed, without Content-Encoding",
		}
	case !isJSON(r):
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType,
			detail: `the request body must be JSON in UTF-8: send the header "Content-Type: application/json"`,
		}
	}
	var buf bytes.Buffer
	to := io.Writer(&buf)
	switch {
	case !keep:
		to = io.Discard
	case r.ContentLength > 0:
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	n, err := io.Copy(to, http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		_, _ = io.CopyN(io.Discard, r.Body, drainFactor*limit)
		return nil, nil, tooLarge()
	case op.body != nil && n > 0 && r.Header.Get("Content-Type") == "":
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType,
			detail: `the request body has no type: send the header "Content-Type: application/json"`,
		}
	case err != nil:
		return nil, invalidf("the request body could not be read to its end"), nil
	}
	return buf.Bytes(), nil, nil
}

// contentEncoding returns the first encoding of the body other than identity, in any of the headers; empty if none.
func contentEncoding(r *http.Request) string {
	for _, value := range r.Header.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return coding
			}
		}
	}
	return ""
}

// isJSON reports whether all Content-Type headers declare JSON. It accepts a missing header: an empty body has no type.
func isJSON(r *http.Request) bool {
	for _, text := range r.Header.Values("Content-Type") {
		if text == "" || text == "application/json" {
			continue
		}
		kind, params, err := mime.ParseMediaType(text)
		if err != nil || kind != "application/json" {
			return false
		}
		if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
			return false
		}
	}
	return true
}

// authorize checks for 401, 403, and 429 for the rate limit. It leaves the call of a tool to the tool's endpoint.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, op *operation, x *exchange, body []byte) error {
	if op.isPublic() {
		return nil
	}
	who, err := s.accounts.Authenticate(r.Header.Values("Authorization"), s.now())
	if err != nil {
		return err
	}
	x.principal = who
	var forbidden error
	if op.tools {
		forbidden = s.checkOrigin(r)
		if forbidden == nil && s.tools.IsCall(mcptools.ReadMessage(body)) {
			return nil
		}
	}
	cost := op.costs(r)
	x.call = s.begin(x, op, cost)
	rate := x.call.Rate(r.Context())
	rateHeaders(w.Header(), rate, s.now())
	if !who.Organization.Active {
		x.call.Forbidden()
		return &problem{
			status: http.StatusForbidden,
			detail: "the organization of this API key is inactive: ask the operator of this service to activate it",
		}
	}
	if forbidden != nil {
		x.call.Forbidden()
		return forbidden
	}
	if cost.scope != "" && !who.Key.HasScope(cost.scope) {
		return x.lacksScope(cost.scope)
	}
	if !rate.Allowed {
		return x.call.RateLimitError(rate)
	}
	return nil
}

// lacksScope returns the 403 for a key without a scope.
func (x *exchange) lacksScope(scope string) error {
	x.call.Forbidden()
	return &problem{
		status: http.StatusForbidden,
		detail: "this API key lacks the scope " + scope +
			": use a key that has it, or ask the operator of this service for one" + scopesOf(x.principal),
	}
}

func scopesOf(who account.Principal) string {
	if len(who.Key.Scopes) == 0 {
		return " (this one has none of " + strings.Join(event.Scopes(), ", ") + ")"
	}
	return " (this one has " + strings.Join(who.Key.Scopes, ", ") + ")"
}

// check validates query string and body strictly, and returns the body.
func (op *operation) check(r *http.Request, body []byte) ([]byte, error) {
	if err := checkHead(r); err != nil {
		return nil, err
	}
	if err := checkQuery(r.URL.RawQuery, op.parameters); err != nil {
		return nil, err
	}
	if op.body != nil {
		return checkBody(body, op.body())
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	_, err := checkBody(body, new(struct{}))
	return nil, err
}
