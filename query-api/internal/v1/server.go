package v1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"code.dny.dev/ssrf"
	"github.com/gorilla/mux"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/publicnet"
	"muster/platform/suggest"
	"muster/query-api/internal/account"
	"muster/query-api/internal/api"
	"muster/query-api/internal/bulk"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/discovery"
	"muster/query-api/internal/docs"
	"muster/query-api/internal/explore"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/mcptools"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/clause"
	"muster/schemas/identity"
)

// Config configures a [Server]. The limits are required.
type Config struct {
	// RequestTimeout bounds the processing of one request.
	RequestTimeout time.Duration
	// MaxBodyBytes bounds a request body.
	MaxBodyBytes int64
	// ResponseBytes bounds the total memory of large responses.
	AnswerBytes int64
	// ReadGrace and MinReadRate (bytes per second) bound how slowly a client may read a large
	// response. The connection is closed if, ReadGrace after the response began, fewer bytes were
	// written to it than the rate requires.
	ReadGrace   time.Duration
	MinReadRate int64
	// Pages has further pages of the documentation; nil means none.
	Pages fs.FS
	// Uncounted disables authentication and metering.
	Uncounted bool
	// UploadDir is the directory for uploads while they are received.
	UploadDir string
	// WebhookAllow lists private address ranges that webhooks may use, also over plain HTTP.
	WebhookAllow []netip.Prefix
	// Origins are the origins whose web pages may call the API, as ParseOrigins returns them.
	Origins []string
}

// Deps holds the dependencies of a [Server]. All fields are required, but for the questions.
type Deps struct {
	Store *readstore.Store
	// Search searches people, Companies companies.
	Search, Companies *search.Searcher
	Accounts          *account.Directory
	Meter             *metering.Meter
	Finder            *discovery.Finder
	Contexts          *contexts.CallTracker
	Bulk              *bulk.Jobs
	Settings          Settings
	// Erased reports whether a stored response is about an erased person.
	Erased    func(idempotency.Answer) bool
	Platforms *identity.Platforms
	// Questions are the saved questions of analysts, and Analyze runs their statements; nil if there are none.
	Questions []explore.Question
	Analyze   Analyze
	// AsOf returns the time as of which the read models have every published record; ok is false if it is unknown.
	// SearchAsOf is that of the search index.
	AsOf, SearchAsOf func() (asOf time.Time, ok bool)
	// Description is the OpenAPI document as JSON.
	Description []byte
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
	Tracer      trace.Tracer
	Now         func() time.Time
}

// Server serves the /v1 API. It implements http.Handler.
type Server struct {
	cfg         Config
	store       *readstore.Store
	search      *search.Searcher // of people
	companies   *search.Searcher
	accounts    *account.Directory
	meter       *metering.Meter
	finder      *discovery.Finder
	contexts    *contexts.CallTracker
	bulk        *bulk.Jobs
	settings    Settings
	rotating    sync.Mutex // serializes rotations of keys
	erased      func(idempotency.Answer) bool
	uploads     chan struct{} // slots for uploads
	downloads   chan struct{} // slots for results
	platforms   *identity.Platforms
	asOf        func() (time.Time, bool)
	searchAsOf  func() (time.Time, bool)
	description []byte
	fields      recordFields
	questions   []explore.Question
	analyze     Analyze
	logger      *slog.Logger
	tracer      trace.Tracer
	metrics     *metrics
	now         func() time.Time
	room        *room
	public      *ssrf.Guardian // checks webhook addresses like webhook-sender
	tools       *mcptools.Server

	routes  map[*mux.Route]*operation
	handler http.Handler
}

var _ api.StrictServerInterface = (*Server)(nil)

// New builds the API handler.
func New(cfg Config, deps Deps) (*Server, error) {
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	fields, err := newRecordFields(deps.Description)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, store: deps.Store, search: deps.Search, companies: deps.Companies, accounts: deps.Accounts, meter: deps.Meter,
		finder: deps.Finder,
		bulk:   deps.Bulk, erased: deps.Erased, settings: deps.Settings,
		uploads: make(chan struct{}, maxUploads), downloads: make(chan struct{}, maxDownloads),
		contexts: deps.Contexts, platforms: deps.Platforms, description: deps.Description, fields: fields,
		asOf: deps.AsOf, searchAsOf: deps.SearchAsOf, questions: deps.Questions, analyze: deps.Analyze,
		logger: deps.Logger, tracer: deps.Tracer, metrics: m, now: deps.Now,
		room: newRoom(cfg.AnswerBytes), public: publicnet.NewGuardian(), routes: make(map[*mux.Route]*operation),
	}
	// Paths are not cleaned: that would redirect, and unknown paths are 404.
	router := mux.NewRouter().SkipClean(true)
	router.Use(s.gate)
	router.NotFoundHandler = http.HandlerFunc(s.notFound)
	router.MethodNotAllowedHandler = http.HandlerFunc(s.methodNotAllowed)
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		x := exchangeOf(r.Context())
		var stored *metering.Replay
		if errors.As(err, &stored) {
			// Twice the size: encrypted and decrypted.
			if err = x.take(2 * len(stored.Answer.Body)); err == nil {
				x.asOf = time.Time{} // the stored response has its own
				replay(w, stored.Answer)
				return
			}
		}
		x.fail(w, problemOf(x.operation, err))
	}
	// The gate's stricter checks run first, so the generated code rejects a request only if they differ.
	reject := func(w http.ResponseWriter, r *http.Request, _ error) {
		fail(w, r, invalidf("the request is not valid: compare it with /v1/openapi.json"))
	}
	strict := api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: reject, ResponseErrorHandlerFunc: fail,
	})
	api.HandlerWithOptions(strict, api.GorillaServerOptions{BaseRouter: router, ErrorHandlerFunc: reject})
	agents, tools, err := s.newMCP()
	if err != nil {
		return nil, err
	}
	s.tools = tools
	router.Handle(MCPPath, agents).Methods(http.MethodPost)
	if err := s.index(router); err != nil {
		return nil, err
	}
	const minSize = 200 // bytes; smaller bodies do not compress
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(minSize),
		gzhttp.ContentTypes([]string{"application/json", "application/x-ndjson", "text/csv", "text/html", "text/css",
			"text/javascript", "image/svg+xml"}))
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	// Rendered on the first request: rendering would delay the start by about 0.1 s.
	documents := &operation{id: "getDocs", method: http.MethodGet, path: docs.Path}
	next := s.servePages(documents, sync.OnceValues(func() (embeddedPages, error) {
		return docs.New(docs.Config{Clauses: clause.Page(), Pages: cfg.Pages, Reference: true})
	}), s.rejectEscapedPaths(router))
	next = s.servePages(&operation{id: "getExplore", method: http.MethodGet, path: explore.Path},
		sync.OnceValues(func() (embeddedPages, error) { return explore.New() }), next)
	s.handler = s.observe(s.crossOrigin(compress(redirectRoot(documents, s.serveQuestions(next)))))
	return s, nil
}

// index maps routes to operations. It returns an error unless they match one to one.
func (s *Server) index(router *mux.Router) error {
	known := make(map[string]*operation)
	for _, op := range operations() {
		known[op.method+" "+op.path] = &op
	}
	err := router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := route.GetMethods()
		if err != nil {
			return err
		}
		for _, method := range methods {
			op := known[method+" "+path]
			if op == nil {
				return fmt.Errorf("%s %s: no operation", method, path)
			}
			s.routes[route] = op
			delete(known, method+" "+path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index routes: %w", err)
	}
	if len(known) > 0 {
		return errors.New("index routes: operations without a route")
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// rejectEscapedPaths rejects paths with unnecessary escapes, such as %2F for a slash: a proxy in front of this server
// may take them for other paths.
func (s *Server) rejectEscapedPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" && !strings.HasPrefix(r.URL.RawPath, ContextPath+"/") {
			s.notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	paths := make([]string, 0, len(s.routes))
	for _, op := range operations() {
		paths = append(paths, op.path)
	}
	paths = append(paths, docs.Path, explore.Path)
	exchangeOf(r.Context()).fail(w, &problem{
		status: http.StatusNotFound,
		detail: "no such path: " + suggest.Hint(r.URL.Path, paths, "/docs and /v1/openapi.json list all paths"),
	})
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, op := range operations() {
		if op.matches(r.URL.Path) {
			allowed = append(allowed, op.method)
		}
	}
	exchangeOf(r.Context()).fail(w, &problem{
		status: http.StatusMethodNotAllowed, allow: strings.Join(allowed, ", "),
		detail: "method not allowed: use " + strings.Join(allowed, " or "),
	})
}

func sizeDetail(limit int64) string {
	return fmt.Sprintf("the request body is larger than %d bytes: send less in one call", limit)
}

// answer is an encoded JSON response body.
type answer []byte

func (a answer) write(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(a)))
	w.WriteHeader(http.StatusOK)
	// The client may have disconnected.
	_, _ = w.Write(a)
	return nil
}

// list is a response body with individually charged records. It is written record by record, without a copy of the
// whole.
type list struct {
	exchange   *exchange
	head, tail []byte
	items      [][]byte
	free       []bool // free items; nil: none
}

func (l list) write(w http.ResponseWriter) error {
	parts, starts, size := [][]byte{l.head}, make([]int, 0, len(l.items)), len(l.head)
	for i, item := range l.items {
		if i > 0 {
			parts, size = append(parts, []byte{','}), size+1
		}
		if l.free == nil || !l.free[i] {
			starts = append(starts, size)
		}
		parts, size = append(parts, item), size+len(item)
	}
	parts, size = append(parts, l.tail), size+len(l.tail)
	l.exchange.starts = starts
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(http.StatusOK)
	// Storing needs the whole body before anything is sent.
	if l.exchange.call != nil && l.exchange.call.Storable() {
		parts = [][]byte{bytes.Join(parts, nil)}
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return nil //nolint:nilerr // the client is gone or too slow; the end of the call charges the sent part
		}
	}
	return nil
}

// GetOpenAPI is GET /v1/openapi.json.
func (s *Server) GetOpenAPI(context.Context, api.GetOpenAPIRequestObject) (api.GetOpenAPIResponseObject, error) {
	return answer(s.description), nil
}

// VisitGetOpenAPIResponse implements api.GetOpenAPIResponseObject.
func (a answer) VisitGetOpenAPIResponse(w http.ResponseWriter) error { return a.write(w) }
