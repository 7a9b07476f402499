package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
)

// chargedWriter says in the headers of a 200 what the call has cost
// (interface.md, Limits).
//
// It also keeps the answer of a call with an Idempotency-Key, before the last
// byte of it is sent: who has it and calls again finds it stored. It closes the connection of a caller that reads too
// slowly, and knows how much of an answer was handed to the connection.
type chargedWriter struct {
	http.ResponseWriter
	ctx      context.Context // of the request
	op       *operation
	call     *metering.Call
	recorder *recorder // behind the compression
	grace    time.Duration
	rate     int64 // bytes per second
	began    time.Time
	status   int
	kept     []byte
	length   int // of the body, before it is compressed
	offset   int // bytes of the body that were written, before they are compressed
	flushed  int // the offset up to which the compression holds nothing back
}

// WriteHeader adds the headers.
func (w *chargedWriter) WriteHeader(status int) {
	if w.status == 0 && status == http.StatusOK && w.op.price != nil {
		h := w.Header()
		quota, ok := w.call.Quota()
		h[creditsChargedHeader] = []string{strconv.FormatInt(quota.Charged, 10)}
		if w.op.quota && ok {
			h.Set("X-Quota-Used", strconv.FormatInt(quota.Used, 10))
			h.Set("X-Quota-Limit", strconv.FormatInt(quota.Limit, 10))
			h.Set("X-Quota-Remaining", strconv.FormatInt(quota.Remaining, 10))
		}
	}
	if w.status == 0 {
		w.status, w.began = status, time.Now()
		w.length, _ = strconv.Atoi(w.Header().Get("Content-Length"))
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins a 200 if nothing was begun.
func (w *chargedWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if storable(w.status) && w.call.Keeps() && len(w.kept)+len(b) <= maxKept {
		if w.kept = append(w.kept, b...); len(w.kept) == w.length {
			w.call.Keep(context.WithoutCancel(w.ctx), idempotency.Answer{
				Status: w.status, ContentType: w.Header().Get("Content-Type"), Body: w.kept, Header: said(w.Header()),
			})
		}
	}
	written := 0
	for written < len(b) {
		n, err := w.writePiece(b[written:min(len(b), written+pieceBytes)])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// pieceBytes is how much of a body is written at a time, within which it is not known how much of a compressed answer
// was handed to the connection.
const pieceBytes = 64 << 10

// writePiece writes a part of the body, in the time that its reader has for it.
func (w *chargedWriter) writePiece(b []byte) (int, error) {
	if w.length > pieceBytes {
		due := w.grace + time.Duration(w.offset+len(b))*time.Second/time.Duration(w.rate)
		// A writer of a test's may have no deadlines, and needs none.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.began.Add(due))
	}
	n, err := w.ResponseWriter.Write(b)
	w.offset += len(b) // of a piece that is not whole it is not known how much is compressed
	if err != nil || w.offset-w.flushed < pieceBytes || !w.compressed() {
		return n, err
	}
	w.flushed = w.offset
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return n, err
	}
	return n, w.recorder.failed
}

func (w *chargedWriter) compressed() bool { return w.recorder.Header().Get("Content-Encoding") != "" }

// netBuffers is how much of an answer net/http takes before any of it is handed to the connection.
const netBuffers = 6 << 10

// handed is how many bytes of a body whose answer broke off were handed to the connection, before they were compressed.
func (w *chargedWriter) handed() int {
	handed := max(0, int(w.recorder.bytes)-netBuffers)
	if handed > 0 && w.compressed() {
		return w.offset
	}
	return handed
}

// maxKept bounds the answers that an Idempotency-Key keeps, in bytes: what is kept of all is bounded, too, and some large
// ones would push out those of everybody else.
const maxKept = 16 << 20

// storable says which answers an Idempotency-Key keeps: no errors. Wrong input is found before
// the key is looked at, and what is refused later may be answered the next time.
func storable(status int) bool { return status < http.StatusBadRequest }

// saying are the headers that are part of an answer: they say what it lacks, and how old
// it was.
func saying() []string { return []string{"X-Degraded", "Age"} }

// said returns those that are set.
func said(h http.Header) map[string]string {
	var out map[string]string
	for _, name := range saying() {
		if value := h.Get(name); value != "" {
			if out == nil {
				out = make(map[string]string)
			}
			out[name] = value
		}
	}
	return out
}

// replay sends a stored answer.
func replay(w http.ResponseWriter, a idempotency.Answer) {
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	h.Set("Cache-Control", "no-store")
	h.Set("Idempotent-Replayed", "true")
	for _, name := range saying() {
		if value := a.Header[name]; value != "" {
			h.Set(name, value)
		}
	}
	w.WriteHeader(a.Status)
	// The caller may be gone; there is nobody else to tell.
	_, _ = w.Write(a.Body)
}

// maxIdempotencyKey bounds an Idempotency-Key, in bytes.
const maxIdempotencyKey = 255

// idempotencyKey reads the header of a POST.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if r.Method != http.MethodPost || len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", invalidf("there is more than one Idempotency-Key header: send one")
	}
	key := values[0]
	if key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }) {
		return "", invalidf("the Idempotency-Key must be 1 to %d visible ASCII characters without spaces", maxIdempotencyKey)
	}
	return key, nil
}

// Unwrap serves http.ResponseController.
func (w *chargedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// estimate answers a dry run of a call that needs so many units at most.
func estimate(ctx context.Context, units int64) (answer, error) {
	cost, quota, err := metering.CallOf(ctx).Estimate(ctx, units)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"dry_run":true,"max_credits":%d,"credits_remaining":%d}`, cost, quota.Remaining), nil
}

// isTrue reads an optional flag.
func isTrue[B ~bool](flag *B) bool { return flag != nil && bool(*flag) }

// Names of headers that are set for every call, in the form in which http.Header has
// them, which Set would make anew each time.
const (
	creditsChargedHeader = "X-Credits-Charged"
	rateLimitHeader      = "X-Ratelimit-Limit"
	rateRemainingHeader  = "X-Ratelimit-Remaining"
	rateResetHeader      = "X-Ratelimit-Reset"
)

// rateHeaders states the key's rate, in the form that everybody reads and in
// that of draft-ietf-httpapi-ratelimit-headers-10. The values are parts of one text.
func rateHeaders(h http.Header, d limits.Decision, now time.Time) {
	var room [160]byte
	b := append(room[:0], `"default";q=`...)
	limit := len(b)
	b = strconv.AppendInt(b, d.Limit, 10)
	limitEnd := len(b)
	b = append(b, `;w=60`...)
	policyEnd := len(b)
	b = append(b, `"default";r=`...)
	remaining := len(b)
	b = strconv.AppendInt(b, d.Remaining, 10)
	remainingEnd := len(b)
	b = strconv.AppendInt(append(b, `;t=`...), int64((d.ResetAfter+time.Second-1)/time.Second), 10)
	rateEnd := len(b)
	b = strconv.AppendInt(b, now.Add(d.ResetAfter+time.Second-1).Unix(), 10)
	text := string(b)
	values := []string{text[limit:limitEnd], text[remaining:remainingEnd], text[rateEnd:], text[:policyEnd], text[policyEnd:rateEnd]}
	for i, name := range [...]string{rateLimitHeader, rateRemainingHeader, rateResetHeader, "RateLimit-Policy", "RateLimit"} {
		h[name] = values[i : i+1 : i+1]
	}
}

// end finishes a call: its answer leaves, and then it is known what it is charged.
func (x *exchange) end(ctx context.Context) error {
	if x.call == nil {
		return nil
	}
	x.recorder.Flush()
	return x.call.End(context.WithoutCancel(ctx), x.recorder.status, x.sent())
}

// sent counts what has left of an answer.
func (x *exchange) sent() metering.Sent {
	switch {
	case x.recorder.failed == nil:
		return metering.Whole
	case x.sending == nil:
		return metering.Nothing
	}
	handed, units := x.sending.handed(), metering.Nothing
	if x.starts == nil && handed > 0 {
		return 1
	}
	for _, start := range x.starts {
		if start < handed {
			units++
		}
	}
	return units
}
