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
	// readLimit is how much of an answer is read, readPatience how long after its
	// status: what it says decides nothing.
	readLimit    = 16 << 10
	readPatience = time.Second
	// Bounds of Retry-After: a receiver can slow deliveries down, not stop them.
	minRetryAfter = time.Second
	maxRetryAfter = 24 * time.Hour
)

// Config configures a [Client].
type Config struct {
	// Timeout bounds one call from dialling to the answer's status. Default 15 s.
	Timeout time.Duration
	// Allow are addresses that are called although they are not public, and by plain
	// http too: for development.
	Allow []netip.Prefix
	// MaxIdlePerHost bounds the connections to one host that are kept. Many endpoints
	// may share one, and a connection that is made anew costs more than the call.
	// Default 128.
	MaxIdlePerHost int
	// Ping is how long an HTTP/2 connection may be silent before it is asked for a sign of
	// life, and how long it has for that. Default 5 s.
	Ping time.Duration
	// UserAgent is sent along.
	UserAgent string
	Resolver  *net.Resolver  // default: the system's
	RootCAs   *x509.CertPool // default: the system's
	Now       func() time.Time
}

// Client calls receivers. It is safe for concurrent use.
type Client struct {
	cfg           Config
	plain, secure *http.Transport
}

// New returns a client. It uses no proxy, whatever the environment says: a proxy
// would dial past the check.
func New(cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.MaxIdlePerHost <= 0 {
		cfg.MaxIdlePerHost = 128
	}
	if cfg.Ping <= 0 {
		cfg.Ping = 5 * time.Second
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
			// A call that is broken off leaves its connection to the next ones: without pings they
			// would all fail on one that is dead, until the kernel gives it up.
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: cfg.Ping, PingTimeout: cfg.Ping},
			DisableCompression:     true, // an answer is not worth inflating
			MaxIdleConns:           1024,
			MaxIdleConnsPerHost:    cfg.MaxIdlePerHost,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &Client{cfg: cfg, plain: transport(true), secure: transport(false)}
}

// Close closes the connections that are kept.
func (c *Client) Close() {
	c.plain.CloseIdleConnections()
	c.secure.CloseIdleConnections()
}

// Class is the kind of a failure.
type Class string

// Classes of failures.
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

// Result is what came of a call.
type Result struct {
	// Status is the answer's, 0 without one.
	Status int
	// Class is empty when the receiver answered with a 2xx.
	Class    Class
	Duration time.Duration
	// RetryAfter is what a failure's Retry-After asks for, between 1 s and 24 h; 0
	// without one.
	RetryAfter time.Duration
	// Excerpt is the beginning of a failure's answer, redacted.
	Excerpt string
}

// OK reports whether the receiver took the delivery.
func (r Result) OK() bool { return r.Class == "" }

// Permanent reports whether trying again is pointless.
func (r Result) Permanent() bool { return r.Class == ClassForbidden || r.Class == ClassURL }

// Post sends body with the headers, to which it adds its own, to address. It always
// returns a result; one whose ctx was cancelled says nothing of the receiver.
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
	// The transport and not a client: nothing follows redirects or keeps cookies.
	res, err := transport.RoundTrip(req)
	if err != nil {
		return Result{Class: classify(err)}
	}
	defer func() { _ = res.Body.Close() }() // the answer is done with
	var head []byte
	if res.Body != http.NoBody {
		stop := time.AfterFunc(readPatience, cancel)
		defer stop.Stop()
		head, _ = io.ReadAll(io.LimitReader(res.Body, readLimit)) // as far as it came
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

// classify names the kind of a failure without an answer. Errors name addresses,
// so they are not kept.
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
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ClassTimeout
	case errors.As(err, &dns):
		return ClassResolve
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return ClassTLS
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ClassReset
	case errors.As(err, &op) && op.Op == "dial":
		return ClassConnect
	}
	return ClassOther
}

// retryAfter reads the header: seconds, or a date (RFC 9110, 10.2.3).
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
