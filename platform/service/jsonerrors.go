package service

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// errorBody returns the JSON body of an HTTP error.
func errorBody(detail string) []byte {
	body, err := json.Marshal(struct {
		Detail string `json:"detail"`
	}{strings.ToValidUTF8(detail, "?")})
	// Marshaling a valid string does not fail.
	if err != nil {
		return []byte(`{"detail":"error"}`)
	}
	return body
}

// jsonErrors turns plain-text errors, such as those of [http.Error] and [http.ServeMux], into JSON with a detail.
func jsonErrors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &errorWriter{ResponseWriter: w}
		next.ServeHTTP(e, r)
		e.finish()
	})
}

// maxErrorText limits how much of a plain-text error becomes the detail.
const maxErrorText = 4 << 10

// errorWriter buffers a plain-text error until it is complete.
type errorWriter struct {
	http.ResponseWriter
	begun  bool
	status int // of a buffered error
	text   bytes.Buffer
}

func (w *errorWriter) WriteHeader(status int) {
	if w.begun {
		return
	}
	w.begun = status >= http.StatusOK
	media := w.Header().Get("Content-Type")
	if status >= http.StatusBadRequest && (media == "" || strings.HasPrefix(media, "text/plain")) {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *errorWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.status == 0 {
		return w.ResponseWriter.Write(b)
	}
	w.text.Write(b[:min(len(b), maxErrorText-w.text.Len())])
	return len(b), nil
}

// Unwrap supports [http.ResponseController].
func (w *errorWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *errorWriter) finish() {
	if w.status == 0 {
		return
	}
	detail := strings.TrimSpace(w.text.String())
	if detail == "" {
		detail = http.StatusText(w.status)
	}
	body := errorBody(detail)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.ResponseWriter.WriteHeader(w.status)
	_, _ = w.ResponseWriter.Write(body) // the client may have disconnected
}

// jsonErrorListener turns the plain-text responses that net/http itself gives to malformed requests, before any
// handler runs, into JSON with a detail. net/http does not let them be configured (golang/go#25565).
type jsonErrorListener struct {
	net.Listener
	maxHeaderBytes int
}

func (l jsonErrorListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &jsonErrorConn{TCPConn: tcp, maxHeaderBytes: l.maxHeaderBytes}, nil
	}
	return c, err
}

// jsonErrorConn embeds a TCP connection to keep the methods that net/http looks for.
type jsonErrorConn struct {
	*net.TCPConn
	maxHeaderBytes int
}

// Write sends b. If b is one of net/http's own errors, each of which is a single write, it sends the JSON form instead.
func (c *jsonErrorConn) Write(b []byte) (int, error) {
	status, reason, ok := builtInError(b)
	if !ok {
		return c.TCPConn.Write(b)
	}
	body := errorBody(c.detail(status, reason))
	response := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
	if _, err := c.TCPConn.Write(response); err != nil {
		return 0, err
	}
	return len(b), nil
}

// builtInErrorHeaders follow the status line in net/http's own errors (net/http, conn.serve).
const builtInErrorHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// maxBuiltInError limits the size of net/http's own errors.
const maxBuiltInError = 1 << 10

// builtInError reports whether b is a complete error of net/http itself, and returns its status and reason. A
// handler's response never looks like one: it has a Date, and its body does not repeat its status line.
func builtInError(b []byte) (status int, reason string, ok bool) {
	if len(b) > maxBuiltInError || !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return 0, "", false
	}
	text := string(b)
	line, body, found := strings.Cut(text, builtInErrorHeaders)
	if !found {
		// For an unknown Expect, net/http writes the headers only.
		line, body, _ = strings.Cut(text, "\r\n")
		found = strings.HasSuffix(line, " 417 Expectation Failed") && strings.HasSuffix(body, "\r\n\r\n")
		body = ""
	}
	_, line, _ = strings.Cut(line, " ")
	code, phrase, _ := strings.Cut(line, " ")
	status, err := strconv.Atoi(code)
	if !found || err != nil || body != "" && body != line && body != "Unsupported transfer encoding" {
		return 0, "", false
	}
	_, reason, _ = strings.Cut(phrase, ": ")
	return status, reason, true
}

func (c *jsonErrorConn) detail(status int, reason string) string {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return fmt.Sprintf("the URL and headers of the request exceed %d bytes: send fewer or shorter headers",
			c.maxHeaderBytes)
	case http.StatusNotImplemented:
		return "the Transfer-Encoding of the request is not supported: send the body chunked or with a Content-Length"
	case http.StatusExpectationFailed:
		return "the Expect header of the request is not supported: omit it or send 100-continue"
	case http.StatusHTTPVersionNotSupported:
		return "the HTTP version is not supported: use HTTP/1.1"
	}
	if reason == "" {
		return "the request is not valid HTTP: check the request line, the headers and the Content-Length, and " +
			"do not use TLS"
	}
	return "the request is not valid HTTP: " + reason
}
