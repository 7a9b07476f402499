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
	"muster/query-api/internal/metering"
	"muster/schemas/event"
)

// drained bounds how much of a body that is too large is still read, as a
// multiple of the limit: a caller that is cut off while it writes sees a broken
// connection instead of the 413.
const drained = 16

// gate runs everything that stands before an operation's own work, in the order
// of rulings.md, Errors, from 413 on.
func (s *Server) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		op := s.routes[mux.CurrentRoute(r)]
		x.operation = op
		unknown := s.unknown(r, op)
		body, broken, err := s.readBody(w, r, op, unknown == nil)
		if err == nil {
			err = unknown
		}
		if err == nil && !s.cfg.Uncounted {
			err = s.authorize(w, r, op, x)
		}
		if err == nil {
			err = broken
		}
		if err == nil {
			body, err = op.check(r, body)
		}
		if err == nil && x.call != nil {
			var key string
			if key, err = idempotencyKey(r); key != "" {
				x.call.Idempotent(key, body)
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
			linger(w, timeout)
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if s.cfg.Uncounted {
			ctx = metering.With(ctx, &metering.Call{})
		}
		if x.call != nil {
			ctx = metering.With(ctx, x.call)
			x.sending = &chargedWriter{
				ResponseWriter: w, ctx: ctx, op: op, call: x.call, recorder: x.recorder,
				grace: s.cfg.ReadGrace, rate: s.cfg.MinReadRate,
			}
			w = x.sending
		}
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

const (
	// maxHead bounds the request line and the headers.
	maxHead = 64 << 10
	// MaxHeaderBytes is what a server that stands before this must read of them at least: it
	// answers what is longer by itself, in another form than this does.
	MaxHeaderBytes = 4 * maxHead
)

// checkHead refuses a request line and headers that are too long.
func checkHead(r *http.Request) error {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	if n > maxHead {
		return invalidf("address and headers of the request have %d bytes, and may have %d: ask for less at a time, or send a list of identifiers as the body of a POST", n, maxHead)
	}
	return nil
}

// linger lets a connection be silent for longer than others: its limits are made
// for calls that are answered at once.
func linger(w http.ResponseWriter, timeout time.Duration) {
	until := time.Now().Add(timeout)
	c := http.NewResponseController(w)
	// A writer of a test's may have no deadlines, and needs none.
	_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until)
}

// unknown is the 401 of who has no key, before the body is read: it comes after 413 and 415, but
// what they send is not kept, as slow and as often as they may send it.
func (s *Server) unknown(r *http.Request, op *operation) error {
	if s.cfg.Uncounted || op.scope == "" {
		return nil
	}
	_, err := s.accounts.Authenticate(r.Header.Values("Authorization"), s.now())
	return err
}

// readBody answers 413 and 415, and reads the body of an operation that has one; it returns
// the body if that is to be kept. broken is of one that ends too early: invalid input, which comes after the key.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, op *operation, keep bool) (body []byte, broken, err error) {
	limit := s.cfg.MaxBodyBytes
	tooLarge := func() error {
		return &problem{status: http.StatusRequestEntityTooLarge, detail: sizeDetail(limit)}
	}
	if r.ContentLength > limit {
		if r.ContentLength <= drained*limit && r.Header.Get("Expect") == "" {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength)
		}
		return nil, nil, tooLarge()
	}
	if op.body == nil {
		return nil, nil, nil
	}
	if coding := encoded(r); coding != "" {
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType,
			detail: "the request body is sent with Content-Encoding " + quote(coding) + ": send it uncompressed, without Content-Encoding",
		}
	}
	if !isJSON(r) {
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
		_, _ = io.CopyN(io.Discard, r.Body, drained*limit)
		return nil, nil, tooLarge()
	case n > 0 && r.Header.Get("Content-Type") == "":
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType,
			detail: `the request body has no type: send the header "Content-Type: application/json"`,
		}
	case err != nil:
		return nil, invalidf("the request body could not be read to its end"), nil
	}
	return buf.Bytes(), nil, nil
}

// encoded is the first encoding of the body that changes it, of however many headers; empty: none.
func encoded(r *http.Request) string {
	for _, value := range r.Header.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return coding
			}
		}
	}
	return ""
}

// isJSON reports whether the body is declared as JSON, by each of its declarations. No declaration at all
// passes here: an empty body has no type.
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

// authorize answers 401, 403, and 429 for the rate.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, op *operation, x *exchange) error {
	if op.scope == "" {
		return nil
	}
	who, err := s.accounts.Authenticate(r.Header.Values("Authorization"), s.now())
	if err != nil {
		return err
	}
	x.principal = who
	x.call = s.meter.Begin(metering.Request{
		ID: x.id, Method: op.method, Endpoint: op.path, Principal: who, Price: op.price, Counted: op.counted, Sized: op.sized, None: op.none, Quota: op.quota,
	})
	rate := x.call.Rate(r.Context())
	rateHeaders(w.Header(), rate, s.now())
	if !who.Organization.Active {
		x.call.Forbidden()
		return &problem{
			status: http.StatusForbidden,
			detail: "the organization of this API key is inactive: ask the operator of this service to activate it",
		}
	}
	if !who.Key.HasScope(op.scope) {
		x.call.Forbidden()
		return &problem{
			status: http.StatusForbidden,
			detail: "this API key lacks the scope " + op.scope + ": use a key that has it, or ask the operator of this service for one" + scopesOf(who),
		}
	}
	if !rate.Allowed {
		return x.call.RateRefused(rate)
	}
	return nil
}

func scopesOf(who account.Principal) string {
	if len(who.Key.Scopes) == 0 {
		return " (this one has none of " + strings.Join(event.Scopes(), ", ") + ")"
	}
	return " (this one has " + strings.Join(who.Key.Scopes, ", ") + ")"
}

// check is the strict reading of query string and body, which it returns.
func (op *operation) check(r *http.Request, body []byte) ([]byte, error) {
	if err := checkHead(r); err != nil {
		return nil, err
	}
	if err := checkQuery(r.URL.RawQuery, op.parameters); err != nil {
		return nil, err
	}
	if op.body == nil {
		return body, nil
	}
	return checkBody(body, op.body())
}
