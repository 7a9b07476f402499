package v1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"muster/query-api/internal/mcptools"
	"muster/query-api/internal/metering"
)

// MCPPath is the path of the Model Context Protocol endpoint.
const MCPPath = "/mcp"

// newMCP returns the handler of POST /mcp and its tools. It keeps no sessions, so any replica can serve any message.
func (s *Server) newMCP() (http.Handler, *mcptools.Server, error) {
	tools, err := mcptools.New(s.description, internalCaller{s})
	if err != nil {
		return nil, nil, err
	}
	transport := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools.Server },
		&mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
			// The gate limits the body, and checks key and origin. A reverse proxy on this machine passes on any host.
			MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveMCP(transport, w, r) }), tools, nil
}

// serveMCP serves one message that passed the gate.
func (s *Server) serveMCP(transport http.Handler, w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r.Context())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		x.fail(w, problemOf(x.operation, err))
		return
	}
	m := &mcpExchange{exchange: x, request: r.Context(), rates: make(http.Header)}
	out := &mcpWriter{ResponseWriter: w, server: s, mcp: m, message: body}
	message := mcptools.ReadMessage(body)
	var unsupported *invalid
	switch {
	case message.HasInexactID():
		unsupported = invalidf("id must be a string, or an integer of at most 53 bits")
	case message.Method == "subscriptions/listen":
		unsupported = invalidf("subscriptions are not supported: the lists of tools and resources do not change")
	}
	if unsupported != nil {
		out.setRates()
		x.fail(w, problemOf(x.operation, unsupported))
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), mcpExchangeKey{}, m))
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The SDK requires clients to accept streams, which this endpoint never sends.
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	transport.ServeHTTP(out, r)
	out.finish()
}

// mcpExchange is the state of a message that internal calls need: the SDK runs them in its own goroutines.
type mcpExchange struct {
	exchange *exchange
	request  context.Context // of the HTTP request

	mu    sync.Mutex
	rates http.Header // rate headers of the internal call; empty if there was none
}

type mcpExchangeKey struct{}

func (m *mcpExchange) setRates(h http.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range rateHeaderNames() {
		if values, ok := h[name]; ok {
			m.rates[name] = values
		}
	}
}

func (m *mcpExchange) rateHeaders() http.Header {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.rates)
}

// errInterrupted is returned if the response to an internal call is incomplete.
var errInterrupted = errors.New("the call was interrupted: call again")

// internalCaller sends the requests of tools to the API's own handler. It implements http.RoundTripper.
type internalCaller struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (c internalCaller) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	m, ok := req.Context().Value(mcpExchangeKey{}).(*mcpExchange)
	if !ok {
		return nil, errors.New("internal call outside a request")
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	// The SDK detaches calls of older protocol versions from their request. A response without a reader is not charged.
	defer context.AfterFunc(m.request, cancel)() //nolint:contextcheck // the context of the request, see above
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			resp, err = nil, errInterrupted
		default:
			panic(p)
		}
	}()
	w := &memoryWriter{ctx: ctx, exchange: m.exchange, header: make(http.Header)}
	c.server.handler.ServeHTTP(w, req.WithContext(ctx))
	m.setRates(w.header)
	if w.failed != nil {
		return nil, w.failed
	}
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
		Request: req,
	}, nil
}

// memoryWriter keeps a response in the response memory of the call that it is made for.
type memoryWriter struct {
	ctx      context.Context // ends with the HTTP request
	exchange *exchange
	header   http.Header
	status   int
	body     bytes.Buffer
	failed   error
}

// Header implements http.ResponseWriter.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *memoryWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter. It fails if the client has disconnected, so that nothing is charged.
func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.failed == nil && w.ctx.Err() != nil {
		w.failed = errInterrupted
	}
	if w.failed == nil {
		w.failed = w.exchange.take(len(b))
	}
	if w.failed != nil {
		return 0, w.failed
	}
	return w.body.Write(b)
}

// mcpWriter gives the responses of the SDK the headers and the error body of the API.
type mcpWriter struct {
	http.ResponseWriter
	server  *Server
	mcp     *mcpExchange
	message []byte
	status  int
	rejects bool // the SDK's error is plain text
	text    bytes.Buffer
}

// WriteHeader sets the headers of the API. It holds back plain-text errors until finish.
func (w *mcpWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if w.rejects = strings.HasPrefix(h.Get("Content-Type"), "text/plain"); w.rejects {
		return
	}
	w.setRates()
	w.ResponseWriter.WriteHeader(status)
}

// setRates sets the rate headers: those of the internal call, or else the message counts itself.
func (w *mcpWriter) setRates() {
	x := w.mcp.exchange
	if x.call != nil || x.principal.Key.ID == "" {
		return // the gate has set them, or nothing is counted
	}
	if rates := w.mcp.rateHeaders(); len(rates) > 0 {
		maps.Copy(w.Header(), rates)
		return
	}
	call := w.server.begin(x, x.operation, *x.operation)
	rateHeaders(w.Header(), call.Rate(w.mcp.request), w.server.now())
}

// maxRejection bounds the text of an error of the SDK, in bytes.
const maxRejection = 512

// Write implements http.ResponseWriter.
func (w *mcpWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.rejects {
		w.text.Write(b[:min(len(b), max(0, maxRejection-w.text.Len()))])
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap supports http.ResponseController.
func (w *mcpWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish sends a rejection of the SDK as an error of the API, and that the time is up if there is no response.
func (w *mcpWriter) finish() {
	x := w.mcp.exchange
	switch {
	case w.rejects:
		w.setRates()
		for _, name := range []string{"X-Content-Type-Options", "Content-Type"} {
			w.Header().Del(name)
		}
		text := strings.ToValidUTF8(strings.TrimSpace(w.text.String()), "")
		if response := w.methodNotFound(text); response != nil {
			w.Header().Set("Content-Type", "application/json")
			w.ResponseWriter.WriteHeader(http.StatusOK)
			_, _ = w.ResponseWriter.Write(response) // the client has disconnected
			return
		}
		p := problemOf(x.operation, invalidf("not a message of the Model Context Protocol: %s", text))
		if w.status >= http.StatusInternalServerError {
			p = unexpected(errors.New("mcp: " + text))
		}
		x.fail(w.ResponseWriter, p)
	case w.status == 0 && errors.Is(w.mcp.request.Err(), context.DeadlineExceeded):
		w.setRates()
		x.fail(w.ResponseWriter, problemOf(x.operation, context.DeadlineExceeded))
	}
}

// methodNotFound returns the JSON-RPC error of a request whose method the SDK rejected, or nil. With versions of the
// protocol before 2026-07-28, the SDK rejects it in plain text.
func (w *mcpWriter) methodNotFound(text string) []byte {
	if w.status != http.StatusBadRequest || !strings.HasPrefix(text, "JSON RPC not handled") {
		return nil
	}
	message, err := jsonrpc.DecodeMessage(w.message)
	request, ok := message.(*jsonrpc.Request)
	if err != nil || !ok || !request.IsCall() {
		return nil
	}
	encoded, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: request.ID, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "unknown method " + quote(request.Method),
	}})
	if err != nil {
		return nil
	}
	return encoded
}

// checkOrigin rejects a request of a web page whose origin is not allowed (MCP, Streamable HTTP, Security Warning).
func (s *Server) checkOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(s.cfg.Origins, "*") && !slices.Contains(s.cfg.Origins, strings.ToLower(origin)) {
			return &problem{
				status: http.StatusForbidden,
				detail: "the origin " + quote(origin) + " is not allowed: call from a program, or ask the operator " +
					"of this service to allow it with --cors-origin",
			}
		}
	}
	return nil
}

// begin starts the metering of a call, which costs what another operation does.
func (s *Server) begin(x *exchange, op *operation, cost operation) *metering.Call {
	return s.meter.Begin(metering.Request{
		ID: x.id, Method: op.method, Endpoint: op.path, Principal: x.principal, Price: cost.price,
		Counted: cost.counted, Sized: op.sized, None: op.none, Quota: op.quota,
	})
}
