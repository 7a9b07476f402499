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

// chargedWriter sets the charge headers of a 200 response (interface.md, Limits). It stores the
// response of a call with an Idempotency-Key before it sends the last byte, so a client that has
// received it and calls again finds it stored. It closes the connection of a client that reads too
// slowly, and tracks how much of the response was written to the connection.
type chargedWriter struct {
	http.ResponseWriter
	ctx      context.Context // request context
	op       *operation
	call     *metering.Call
	recorder *recorder // below the compression
	grace    time.Duration
	rate     int64 // bytes per second
	now      func() time.Time
	began    time.Time
	status   int
	kept     []byte
	length   int // uncompressed body length
	offset   int // uncompressed bytes written
	flushed  int // offset up to which the compressor is flushed
}

// WriteHeader adds the charge headers.
func (w *chargedWriter) WriteHeader(status int) {
	if w.status == 0 && status == http.StatusOK && w.op.price != nil {
		h := w.Header()
		if x := exchangeOf(w.ctx); !x.asOf.IsZero() && h.Get(dataAsOfHeader) == "" {
			h[dataAsOfHeader] = []string{dataAsOf(x.asOf, w.now())}
		}
		quota, ok := w.call.Quota()
		h[creditsChargedHeader] = []string{strconv.FormatInt(quota.Charged, 10)}
		if reason := exchangeOf(w.ctx).missReason; reason != "" {
			h[missReasonHeader] = []string{reason}
		}
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

// dataAsOf returns the value of X-Data-As-Of: the time, and how many seconds ago it was.
func dataAsOf(asOf, now time.Time) string {
	b := asOf.UTC().AppendFormat(make([]byte, 0, 40), time.RFC3339)
	lag := max(0, now.Sub(asOf.Truncate(time.Second))/time.Second)
	return string(strconv.AppendInt(append(b, "; lag="...), int64(lag), 10))
}

// Write writes the header with status 200 if none was written, then b.
func (w *chargedWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if storable(w.status) && w.call.Storable() && len(w.kept)+len(b) <= maxStoredBytes {
		if w.kept = append(w.kept, b...); len(w.kept) == w.length {
			w.call.StoreResponse(context.WithoutCancel(w.ctx), idempotency.Answer{
				Status: w.status, ContentType: w.Header().Get("Content-Type"), Body: w.kept,
				Header: storedHeaders(w.Header()),
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

// pieceBytes is the size of a write. It is the granularity at which the written part of a
// compressed response is known.
const pieceBytes = 64 << 10

// writePiece writes a part of the body, with a deadline for its client.
func (w *chargedWriter) writePiece(b []byte) (int, error) {
	if w.length > pieceBytes {
		due := w.grace + time.Duration(w.offset+len(b))*time.Second/time.Duration(w.rate)
		// Writers in tests may not support deadlines.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.began.Add(due))
	}
	n, err := w.ResponseWriter.Write(b)
	// The compressed share of an incomplete piece is unknown.
	w.offset += len(b)
	if err != nil || w.offset-w.flushed < pieceBytes || !w.compressed() {
		return n, err
	}
	w.flushed = w.offset
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return n, err
	}
	return n, w.recorder.failed
}

func (w *chargedWriter) compressed() bool { return w.recorder.Header().Get("Content-Encoding") != "" }

// netBuffers is how much of a response net/http buffers before it writes to the connection.
const netBuffers = 6 << 10

// written returns how many uncompressed bytes of an interrupted response were written to the connection.
func (w *chargedWriter) written() int {
	written := max(0, int(w.recorder.bytes)-netBuffers)
	if written > 0 && w.compressed() {
		return w.offset
	}
	return written
}

// maxStoredBytes is the maximum size of a response stored for an Idempotency-Key, in bytes. The
// store is bounded, so large responses would evict those of other organizations.
const maxStoredBytes = 16 << 20

// storable reports whether responses with a status are stored for an Idempotency-Key. Errors are
// not: invalid input is found before the key is checked, and other errors may be temporary.
func storable(status int) bool { return status < http.StatusBadRequest }

// storedHeaderNames returns the names of response headers that are stored with a response.
func storedHeaderNames() []string {
	return []string{"X-Degraded", missReasonHeader, dataAsOfHeader, "Age"}
}

// storedHeaders returns the headers to store, nil if none is set.
func storedHeaders(h http.Header) map[string]string {
	var out map[string]string
	for _, name := range storedHeaderNames() {
		if value := h.Get(name); value != "" {
			if out == nil {
				out = make(map[string]string)
			}
			out[name] = value
		}
	}
	return out
}

// replay sends a stored response.
func replay(w http.ResponseWriter, a idempotency.Answer) {
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	h.Set("Cache-Control", "no-store")
	h.Set("Idempotent-Replayed", "true")
	for _, name := range storedHeaderNames() {
		if value := a.Header[name]; value != "" {
			h.Set(name, value)
		}
	}
	w.WriteHeader(a.Status)
	// The client may have disconnected.
	_, _ = w.Write(a.Body)
}

// maxIdempotencyKey is the maximum length of an Idempotency-Key, in bytes.
const maxIdempotencyKey = 255

// idempotencyKey returns the Idempotency-Key of a POST, empty if there is none.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if r.Method != http.MethodPost || len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", invalidf("more than one Idempotency-Key header: send one")
	}
	key := values[0]
	if key == "" || len(key) > maxIdempotencyKey ||
		strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }) {
		return "", invalidf("the Idempotency-Key must be 1 to %d visible ASCII characters without spaces",
			maxIdempotencyKey)
	}
	return key, nil
}

// Unwrap supports http.ResponseController.
func (w *chargedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// estimate answers a dry run of a call that uses at most units.
func estimate(ctx context.Context, units int64) (answer, error) {
	cost, quota, err := metering.FromContext(ctx).Estimate(ctx, units)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"dry_run":true,"max_credits":%d,"credits_remaining":%d}`, cost, quota.Remaining), nil
}

// checkMaxCredits returns an error unless a call that uses at most units costs at most maxCredits. fix is how the
// caller can lower the cost, besides raising the limit.
func checkMaxCredits(ctx context.Context, units int64, maxCredits *int64, fix string) error {
	if maxCredits == nil {
		return nil
	}
	if *maxCredits < 0 {
		return invalidf("max_credits must not be negative")
	}
	if cost := units * metering.FromContext(ctx).UnitPrice(); cost > *maxCredits {
		return invalidf("max_credits is %d, and the call may cost %d: raise it%s", *maxCredits, cost, fix)
	}
	return nil
}

// isTrue returns the value of an optional flag, false by default.
func isTrue[B ~bool](flag *B) bool { return flag != nil && bool(*flag) }

// Header names of every response, in canonical form: http.Header.Set would canonicalize them for each call.
const (
	creditsChargedHeader = "X-Credits-Charged"
	missReasonHeader     = "X-Miss-Reason"
	dataAsOfHeader       = "X-Data-As-Of"
	rateLimitHeader      = "X-Ratelimit-Limit"
	rateRemainingHeader  = "X-Ratelimit-Remaining"
	rateResetHeader      = "X-Ratelimit-Reset"
)

// rateHeaders sets the rate headers, in the common X-RateLimit form and in that of
// draft-ietf-httpapi-ratelimit-headers-10. To save allocations, all values are slices of one string.
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
	values := []string{text[limit:limitEnd], text[remaining:remainingEnd], text[rateEnd:], text[:policyEnd],
		text[policyEnd:rateEnd]}
	for i, name := range rateHeaderNames() {
		h[name] = values[i : i+1 : i+1]
	}
}

// rateHeaderNames returns the names of the rate headers as they are sent; not all are in canonical form.
func rateHeaderNames() [5]string {
	return [...]string{rateLimitHeader, rateRemainingHeader, rateResetHeader, "RateLimit-Policy", "RateLimit"}
}

// end flushes the response and finishes the call, which determines its charge.
func (x *exchange) end(ctx context.Context) error {
	if x.call == nil {
		return nil
	}
	x.recorder.Flush()
	return x.call.End(context.WithoutCancel(ctx), x.recorder.status, x.sent())
}

// sent returns how much of the response was written to the connection.
func (x *exchange) sent() metering.Sent {
	switch {
	case x.recorder.failed == nil:
		return metering.Whole
	case x.sending == nil:
		return metering.Nothing
	}
	written, units := x.sending.written(), metering.Nothing
	if x.starts == nil && written > 0 {
		return 1
	}
	for _, start := range x.starts {
		if start < written {
			units++
		}
	}
	return units
}
