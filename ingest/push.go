package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"muster/ingest/internal/dedup"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// PushConfig limits HTTP pushes. The zero value of a field selects its default.
type PushConfig struct {
	// Concurrent is the maximum number of concurrent pushes; more are rejected with 429. The
	// default is 4.
	Concurrent int
	// MaxBytes is the maximum body size in bytes, both compressed and uncompressed; larger bodies
	// are rejected with 413. The default is 1 GiB.
	MaxBytes int64
	// Stall is how long the brokers may acknowledge nothing before a push ends with 503. The
	// default is 10 s.
	Stall time.Duration
	// Idle is how long a client may send nothing before its push ends with 408. The default is 1 minute.
	Idle time.Duration
	// Rejected is the maximum number of rejected records that a response lists. The default is 100.
	Rejected int
}

func (c PushConfig) withDefaults() PushConfig {
	if c.Concurrent <= 0 {
		c.Concurrent = 4
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 1 << 30
	}
	if c.Stall <= 0 {
		c.Stall = 10 * time.Second
	}
	if c.Idle <= 0 {
		c.Idle = time.Minute
	}
	if c.Rejected <= 0 {
		c.Rejected = 100
	}
	return c
}

// pushFile is the file name in the location of pushed records.
const pushFile = "push"

// Causes for which a push is aborted.
var (
	errKafkaUnavailable = errors.New("no acknowledgments from Kafka")
	errStopping         = errors.New("service stopping")
)

// pushes is the state shared by the pushes of a service.
type pushes struct {
	slots       chan struct{}
	token       [sha256.Size]byte
	stopCtx     context.Context // ends with Service.Run's
	stop        context.CancelCauseFunc
	writer      *bus.Writer
	dedup       *dedup.Store
	erasureSlot chan struct{} // held while a push compares and publishes erasures
}

func (p *pushes) init(cfg Config) {
	p.erasureSlot = make(chan struct{}, 1)
	p.slots = make(chan struct{}, cfg.Push.Concurrent)
	p.token = sha256.Sum256([]byte(cfg.Token))
	p.stopCtx, p.stop = context.WithCancelCause(context.Background())
}

// closeDedup closes the deduplication store. Its timeout is below the 5 s in which units of a group
// must stop, so that the service also stops in order without brokers.
func (s *Service) closeDedup(ctx context.Context) error {
	if s.pushes.dedup == nil {
		return nil
	}
	return closeDedup(ctx, s.cfg, s.deps, s.pushes.dedup, 3*time.Second)
}

// servePushes serves requests until ctx ends.
func (s *Service) servePushes(ctx context.Context) (err error) {
	if s.cfg.StateDir != "" {
		if s.pushes.dedup, err = openDedup(ctx, s.cfg, s.deps); err != nil {
			if ctx.Err() != nil {
				// As in Run: the service was stopped while it read the end offsets.
				return s.Close()
			}
			return fmt.Errorf("ingest: %w", errors.Join(err, s.Close()))
		}
	}
	if err := s.deps.Suppressed.WaitLoaded(ctx); err != nil {
		return errors.Join(s.Close(), s.closeDedup(ctx))
	}
	s.pushes.writer = newWriter(s.cfg, s.deps)
	detach := context.AfterFunc(ctx, func() { s.pushes.stop(errStopping) })
	defer func() {
		detach()
		s.pushes.stop(errStopping)
		err = errors.Join(err, s.pushes.writer.Close(), s.closeDedup(ctx))
	}()
	return s.server.Run(ctx)
}

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ingest/v1/{kind}", s.handlePush)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.setDeadlines(w)
		writeProblem(w, http.StatusNotFound,
			"Not found. Push records with POST /ingest/v1/KIND; kinds: "+kindList()+".")
	})
	return mux
}

// drainBodyTimeout is how long a client may take to send the rest of a body that will not be processed.
const drainBodyTimeout = 5 * time.Second

// setDeadlines sets deadlines for writing the response and for draining the body. The server does
// both after the handler returns, and would otherwise wait without limit.
func (s *Service) setDeadlines(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	// If the connection does not support deadlines, the client's timeouts apply.
	rest := time.Now().Add(min(s.cfg.Push.Idle, drainBodyTimeout))
	_ = control.SetReadDeadline(rest)
	// The response is sent after the body has been drained.
	_ = control.SetWriteDeadline(rest.Add(s.cfg.Push.Idle))
}

func kindList() string {
	var names []string
	for _, k := range record.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// requestError is the response to a request that is rejected before its body is read.
type requestError struct {
	status int
	detail string
	header [2]string
}

// checkRequest rejects requests that are invalid by their method, path, query or header.
func (s *Service) checkRequest(r *http.Request) (record.Kind, string, *requestError) {
	kind := record.Kind(r.PathValue("kind"))
	if checkKind(kind) != nil {
		return "", "", &requestError{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("Unknown kind %q; kinds: %s.", kind, kindList()),
		}
	}
	if detail := checkQuery(r.URL.RawQuery); detail != "" {
		return "", "", &requestError{status: http.StatusBadRequest, detail: detail}
	}
	if kind == record.KindErasure && s.deps.Suppressed == nil {
		return "", "", &requestError{
			status: http.StatusServiceUnavailable,
			detail: "Erasures are not accepted: this server has no suppression set.",
		}
	}
	if kind == record.KindErasure && s.deps.Suppressed.CheckOwner() != nil {
		return "", "", &requestError{
			status: http.StatusServiceUnavailable,
			detail: "Erasures are not accepted: the root secret of this server differs from that of the instance.",
		}
	}
	if r.Method != http.MethodPost {
		return "", "", &requestError{
			http.StatusMethodNotAllowed,
			"Push records with POST.",
			[2]string{"Allow", http.MethodPost},
		}
	}
	if r.ContentLength > s.cfg.Push.MaxBytes {
		return "", "", &requestError{status: http.StatusRequestEntityTooLarge, detail: s.tooLarge()}
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if types := slices.Compact(slices.Clone(r.Header.Values("Content-Type"))); len(types) > 1 {
		err = errors.New("several media types")
	}
	switch mediaType {
	case "application/json", "application/x-ndjson", "application/ndjson",
		"application/jsonl", "application/x-jsonlines", "application/jsonlines":
	default:
		err = errors.New("another media type")
	}
	if err != nil {
		return "", "", &requestError{
			http.StatusUnsupportedMediaType,
			"The body must be JSON: set Content-Type to application/x-ndjson or application/json.",
			[2]string{"Accept", "application/x-ndjson"},
		}
	}
	encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	switch encoding {
	case "identity":
		encoding = ""
	case "", "gzip", "zstd":
	default:
		return "", "", &requestError{
			http.StatusUnsupportedMediaType,
			"Content-Encoding must be gzip, zstd or absent.",
			[2]string{"Accept-Encoding", "gzip, zstd"},
		}
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !ok || s.cfg.Token == "" || subtle.ConstantTimeCompare(sum[:], s.pushes.token[:]) != 1 {
		detail := "Missing or invalid operator token: send Authorization: Bearer TOKEN. The token is operator_token " +
			"in standalone.json of the data directory, or the value of MUSTER_OPERATOR_TOKEN."
		if s.cfg.Token == "" {
			detail = "No operator token is configured, so all pushes are denied: set MUSTER_OPERATOR_TOKEN."
		}
		return "", "", &requestError{http.StatusUnauthorized, detail, [2]string{"WWW-Authenticate", "Bearer"}}
	}
	return kind, encoding, nil
}

// checkQuery returns the error in the query parameters of a push, or "".
func checkQuery(raw string) string {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return "Invalid query string: the parameters are again and remap, each true or false."
	}
	for name, v := range query {
		if name != "again" && name != "remap" {
			return fmt.Sprintf("Unknown parameter %q: the parameters are again and remap, each true or false.", name)
		}
		if len(v) > 1 || v[0] != "true" && v[0] != "false" {
			return name + " must be true or false."
		}
	}
	return ""
}

func (s *Service) tooLarge() string {
	return fmt.Sprintf("The body is larger than %s: split it into several pushes.", formatBytes(s.cfg.Push.MaxBytes))
}

// handlePush handles a stream of records.
func (s *Service) handlePush(w http.ResponseWriter, r *http.Request) {
	// Clear the deadline of the previous response on this connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	kind, encoding, rejected := s.checkRequest(r)
	if rejected != nil {
		s.setDeadlines(w)
		if rejected.header[0] != "" {
			w.Header().Set(rejected.header[0], rejected.header[1])
		}
		writeProblem(w, rejected.status, rejected.detail)
		return
	}
	select {
	case s.pushes.slots <- struct{}{}:
		defer func() { <-s.pushes.slots }()
	default:
		s.setDeadlines(w)
		w.Header().Set("Retry-After", "1")
		writeProblem(w, http.StatusTooManyRequests,
			fmt.Sprintf("%d pushes are running, the maximum: retry after one has finished.", s.cfg.Push.Concurrent))
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		s.setDeadlines(w)
		writeProblem(w, http.StatusInternalServerError, "The push could not be started.")
		return
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && mediaType == "application/json" && kind == record.KindErasure {
		if r.Body, err = s.compactObject(w, r, encoding); err != nil {
			status, detail := s.explainObjectError(err)
			s.setDeadlines(w)
			w.Header().Set("Connection", "close") // the rest of the body is not read
			if status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "5")
			}
			writeProblem(w, status, detail)
			return
		}
		encoding = "" // already decompressed
	}
	start := time.Now()
	response := s.runPush(w, r, id.String(), kind, encoding)
	s.deps.Logger.LogAttrs(r.Context(), slog.LevelInfo, "ingest: push finished",
		slog.String("run_id", response.Run), slog.String("kind", string(kind)), slog.Int("status", response.Status),
		slog.Int64("lines", response.Acknowledged.Lines), slog.Int64("duration_ms", time.Since(start).Milliseconds()))
	s.setDeadlines(w)
	if !response.Complete {
		// The rest of the body is not read.
		w.Header().Set("Connection", "close")
	}
	if response.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, response.Status, response)
}

// errNotObject is returned for a body that is not one JSON object.
var errNotObject = errors.New("not a JSON object")

// compactObject returns the body, one JSON object on any number of lines and optionally compressed,
// as one line.
func (s *Service) compactObject(w http.ResponseWriter, r *http.Request, encoding string) (io.ReadCloser, error) {
	body := &pushBody{
		in:       http.MaxBytesReader(w, r.Body, record.MaxSize),
		control:  http.NewResponseController(w),
		idle:     s.cfg.Push.Idle,
		encoding: encoding,
	}
	detach := context.AfterFunc(s.pushes.stopCtx, body.close)
	plain, done := source.Decompress(body)
	raw, err := io.ReadAll(io.LimitReader(plain, record.MaxSize+1))
	detach()
	body.close() // also if closing has started but not finished
	done()
	switch {
	case err != nil && body.err() == nil:
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	case err != nil:
		return nil, err
	case len(raw) > record.MaxSize:
		return nil, &http.MaxBytesError{Limit: record.MaxSize}
	}
	value := jsontext.Value(raw)
	if err := value.Compact(); err != nil {
		return nil, errNotObject
	}
	return io.NopCloser(bytes.NewReader(value)), nil
}

// explainObjectError returns status and detail for an error of compactObject. No part of the body is stored.
func (s *Service) explainObjectError(err error) (int, string) {
	tooLarge, _ := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errNotObject):
		return http.StatusBadRequest, "The body is not a JSON object."
	case tooLarge != nil:
		return http.StatusRequestEntityTooLarge, "The body is larger than 1 MiB: send several requests, " +
			"or one erasure per line with Content-Type: application/x-ndjson."
	case s.pushes.stopCtx.Err() != nil:
		return http.StatusServiceUnavailable, "The service is stopping. Nothing was stored: send the request again."
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, fmt.Sprintf(
			"No data received for %s. Nothing was stored: send the request again.",
			s.cfg.Push.Idle,
		)
	case errors.Is(err, errEncoding):
		return http.StatusBadRequest, "The body does not match its Content-Encoding."
	}
	return http.StatusBadRequest, "The connection was lost." // only for the log: the client is gone
}

// runPush runs the pipeline over a request's body.
func (s *Service) runPush(
	w http.ResponseWriter, r *http.Request, id string, kind record.Kind, encoding string,
) pushResponse {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	//nolint:contextcheck // the end of the service, which is no part of the request's context
	detach := context.AfterFunc(s.pushes.stopCtx, func() { cancel(errStopping) })
	defer detach()

	body := &pushBody{
		in: http.MaxBytesReader(w, r.Body, s.cfg.Push.MaxBytes), control: http.NewResponseController(w),
		idle: s.cfg.Push.Idle, encoding: encoding,
	}
	defer body.close()
	rejected := &rejectedList{max: s.cfg.Push.Rejected}
	cfg, deps := s.cfg, s.deps
	cfg.RunID, cfg.Republish, cfg.Remap = id, r.URL.Query().Get("again") == "true", r.URL.Query().Get("remap") == "true"
	cfg.DrainTimeout = min(cfg.DrainTimeout, time.Second)
	deps.Logger = slog.New(slog.DiscardHandler) // errors are reported to the client
	deps.Progress = stallDetector{limit: cfg.Push.Stall, stalled: func() { cancel(errKafkaUnavailable) }}
	deps.Rejected = rejected.add
	if kind == record.KindErasure {
		select {
		case s.pushes.erasureSlot <- struct{}{}:
			defer func() { <-s.pushes.erasureSlot }()
		case <-ctx.Done(): // the run then reads nothing
		}
	}
	var err error
	if cfg.revision, err = (&state{dedup: s.pushes.dedup}).revision(ctx, cfg, deps); err != nil {
		return pushResponse{
			Run:    id,
			Kind:   kind,
			Status: http.StatusServiceUnavailable,
			Detail: "No mapping revision could be reserved. Nothing was stored: send the request again.",
		}
	}
	run := newRun(ctx, cfg, deps, s.meters, s.pushes.writer, s.pushes.dedup)
	run.via = "http"
	run.add(pushFile, kind, -1, func(ctx context.Context, _ source.Position) (source.Source, error) {
		return source.FromReader(ctx, pushFile, body, source.Options{
			MaxLine: record.MaxSize, Head: event.MaxRejectedRaw, Kind: kind,
			Format: source.FormatNDJSON, MaxTotal: cfg.Push.MaxBytes,
		})
	})
	sum, err := run.finish()

	stored := sum.Files[0]
	response := pushResponse{
		Run: id, Kind: kind, Status: http.StatusOK, Complete: stored.Complete,
		Acknowledged: acknowledged{Lines: stored.Lines, Bytes: stored.Bytes}, Counts: sum.Kinds,
	}
	response.Rejected = rejected.upTo(stored.Lines)
	response.RejectedMore = max(0, sum.Total().Rejected-int64(len(response.Rejected)))
	if !stored.Complete {
		if r.Context().Err() != nil && s.pushes.stopCtx.Err() == nil {
			// A failed read ends the request's context before it returns.
			body.reading.Wait()
		}
		response.Status, response.Detail = s.explainCutShort(ctx, r, errors.Join(body.err(), err, stored.Err))
	}
	return response
}

// explainCutShort returns status and detail for a push that was cut short.
func (s *Service) explainCutShort(ctx context.Context, r *http.Request, err error) (int, string) {
	const resume = " Everything up to acknowledged.lines is stored; push the rest."
	tooLarge, _ := errors.AsType[*http.MaxBytesError](err)
	srcErr, _ := errors.AsType[*source.Error](err)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errKafkaUnavailable):
		return http.StatusServiceUnavailable, "The Kafka brokers are not responding." + resume
	case errors.Is(cause, errStopping):
		return http.StatusServiceUnavailable, "The service is stopping." + resume
	case tooLarge != nil, errors.Is(err, source.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, s.tooLarge() + resume
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, fmt.Sprintf("No data received for %s.", s.cfg.Push.Idle) + resume
	case errors.Is(err, errEncoding):
		return http.StatusBadRequest, "The body does not match its Content-Encoding."
	case errors.Is(err, source.ErrFormat) && srcErr != nil:
		return http.StatusBadRequest, fmt.Sprintf("The body is not JSON: %v.", srcErr.Err)
	case srcErr == nil && r.Context().Err() != nil:
		return http.StatusBadRequest, "The connection was lost." + resume // only for the log: the client is gone
	case srcErr != nil:
		detail := fmt.Sprintf("The body is truncated or corrupt after line %d.", srcErr.At.Line)
		return http.StatusBadRequest, detail + resume
	}
	s.deps.Logger.Error("ingest: push failed", slog.Any("error", err))
	return http.StatusInternalServerError, "Publishing the records failed." + resume
}

// stallDetector aborts a push if the brokers acknowledge nothing for limit.
type stallDetector struct {
	limit   time.Duration
	stalled func()
}

// Update implements [Progress].
func (w stallDetector) Update(s Snapshot) {
	if s.Stalled >= w.limit {
		w.stalled()
	}
}

// Finish implements [Progress].
func (w stallDetector) Finish(Snapshot) {}

// OperatorTokenEnv is the environment variable that holds the operator token.
const OperatorTokenEnv = "MUSTER_OPERATOR_TOKEN"

// StateDirOf returns the ingest state directory in a data directory.
func StateDirOf(dataDir string) string { return filepath.Join(dataDir, "ingest") }
