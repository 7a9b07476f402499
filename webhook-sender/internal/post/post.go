package post

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// maxReadBytes and readTimeout limit reading the response body, which does not affect the
	// result.
	maxReadBytes = 16 << 10
	readTimeout  = time.Second
	// Limits of Retry-After: a receiver can slow deliveries down, but not stop them.
	minRetryAfter = time.Second
	maxRetryAfter = 24 * time.Hour
)

// Config configures a [Client].
type Config struct {
	// Timeout limits one call, from dialing to the response status. Default 15 s.
	Timeout time.Duration
	// Allow lists non-public address ranges that may be called, also over plain HTTP. For
	// development.
	Allow []netip.Prefix
	// MaxIdlePerHost limits the idle connections to one host. Many endpoints may share a host, and
	// a new connection costs more than the call. Default 128.
	MaxIdlePerHost int
	// PingTimeout is how long an HTTP/2 connection may be silent before a ping is sent, and how
	// long the ping may take. Default 5 s.
	PingTimeout time.Duration
	// UserAgent is the User-Agent header. Empty means that of net/http.
	UserAgent string
	Resolver  *net.Resolver  // default: the system resolver
	RootCAs   *x509.CertPool // default: the system roots
	Now       func() time.Time
}

// Client calls webhook receivers. It is safe for concurrent use.
type Client struct {
	cfg           Config
	plain, secure *http.Transport
}

// New returns a client. It ignores proxy settings of the environment: a proxy would bypass the
// address check.
func New(cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.MaxIdlePerHost <= 0 {
		cfg.MaxIdlePerHost = 128
	}
	if cfg.PingTimeout <= 0 {
		cfg.PingTimeout = 5 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	g := newGuard(cfg.Allow)
	transport := func(allowedOnly bool) *http.Transport {
		return &http.Transport{
			Proxy:               nil,
			DialContext:         g.dial(allowedOnly, cfg.Resolver),
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs},
			TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2:   true,
			// A canceled call leaves its connection to later ones. Without pings these would all
			// fail on a dead connection until the kernel closes it.
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: cfg.PingTimeout, PingTimeout: cfg.PingTimeout},
			DisableCompression:     true, // limits the work for a response
			MaxIdleConns:           1024,
			MaxIdleConnsPerHost:    cfg.MaxIdlePerHost,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &Client{cfg: cfg, plain: transport(true), secure: transport(false)}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.plain.CloseIdleConnections()
	c.secure.CloseIdleConnections()
}

// Class is the class of a failure.
type Class string

// Failure classes.
const (
	ClassTimeout   Class = "timeout"
	ClassResolve   Class = "resolve"
	ClassConnect   Class = "connect"
	ClassTLS       Class = "tls"
	ClassReset     Class = "reset"
	ClassForbidden Class = "forbidden_address"
	ClassURL       Class = "invalid_url"
	ClassRedirect  Class = "redirect"
	ClassGone      Class = "gone"
	ClassStatus    Class = "status"
	ClassOther     Class = "other"
)

// Result is the result of a call.
type Result struct {
	// Status is the HTTP status, or 0 without a response.
	Status int
	// Class is empty for a 2xx response.
	Class    Class
	Duration time.Duration
	// RetryAfter is the Retry-After of a failed call, limited to 1 s to 24 h, or 0.
	RetryAfter time.Duration
	// Excerpt is the redacted beginning of a failure's response body.
	Excerpt string
}

// OK reports whether the receiver accepted the delivery.
func (r Result) OK() bool { return r.Class == "" }

// Permanent reports whether a retry is pointless.
func (r Result) Permanent() bool { return r.Class == ClassForbidden || r.Class == ClassURL }

// Post sends body to address. It adds Content-Type and User-Agent to headers. It always returns a
// result; if ctx was canceled, the result does not describe the receiver.
func (c *Client) Post(ctx context.Context, address string, headers http.Header, body []byte) Result {
	begin := c.cfg.Now()
	r := c.post(ctx, address, headers, body)
	r.Duration = c.cfg.Now().Sub(begin)
	return r
}

func (c *Client) post(ctx context.Context, address string, headers http.Header, body []byte) Result {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil || req.URL.Host == "" || req.URL.User != nil {
		return Result{Class: ClassURL}
	}
	transport := c.secure
	switch req.URL.Scheme {
	case "https":
	case "http":
		transport = c.plain
	default:
		return Result{Class: ClassURL}
	}
	req.Header = headers
	req.Header.Set("Content-Type", "application/json")
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	// A client would follow redirects and keep cookies.
	res, err := transport.RoundTrip(req)
	if err != nil {
		return Result{Class: classify(err)}
	}
	defer func() { _ = res.Body.Close() }() // the response is no longer used
	var head []byte
	if res.Body != http.NoBody {
		stop := time.AfterFunc(readTimeout, cancel)
		defer stop.Stop()
		head, _ = io.ReadAll(io.LimitReader(res.Body, maxReadBytes)) // a partial read is fine
	}
	r := Result{Status: res.StatusCode}
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return r
	case res.StatusCode >= 300 && res.StatusCode < 400:
		r.Class = ClassRedirect
	case res.StatusCode == http.StatusGone:
		r.Class = ClassGone
	default:
		r.Class = ClassStatus
	}
	r.RetryAfter = retryAfter(res.Header.Get("Retry-After"), c.cfg.Now())
	r.Excerpt = Redact(head, body, req.URL.RawQuery)
	return r
}

// classify returns the class of a transport error. The error itself is dropped, because it contains
// addresses.
func classify(err error) Class {
	var timeout net.Error
	var dns *net.DNSError
	var op *net.OpError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, ErrForbiddenAddress):
		return ClassForbidden
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
		return ClassTimeout
	case errors.As(err, &dns):
		return ClassResolve
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert),
		strings.Contains(err.Error(), "tls: "):
		return ClassTLS
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return ClassReset
	case errors.As(err, &op) && op.Op == "dial":
		return ClassConnect
	}
	return ClassOther
}

// retryAfter parses a Retry-After header: seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	var d time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		d = maxRetryAfter
		if seconds < uint64(maxRetryAfter/time.Second) {
			d = time.Duration(seconds) * time.Second
		}
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	} else {
		return 0
	}
	return min(max(d, minRetryAfter), maxRetryAfter)
}
