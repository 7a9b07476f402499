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
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"muster/ingest/internal/source"
	"muster/ingest/internal/versions"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// PushConfig bounds what is pushed over HTTP. The zero value of a field means its
// default.
type PushConfig struct {
	// Concurrent is how many pushes may run at a time; more are answered with 429.
	// The default is 4.
	Concurrent int
	// MaxBytes is the largest body, compressed and not; larger ones are answered
	// with 413. The default is 1 GiB.
	MaxBytes int64
	// Stall is how long the brokers may acknowledge nothing before a push is
	// answered with 503. The default is 10 s.
	Stall time.Duration
	// Idle is how long a client may send nothing before it is answered with 408.
	// The default is 1 minute.
	Idle time.Duration
	// Rejected is how many rejected records an answer lists. The default is 100.
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

// pushFile is the "file" of records that were pushed.
const pushFile = "push"

// Why a push is given up.
var (
	errKafkaAway = errors.New("kafka acknowledges nothing")
	errStopping  = errors.New("the service stops")
)

// pushes is what the pushes of a service share.
type pushes struct {
	slots   chan struct{}
	token   [sha256.Size]byte
	stopped context.Context // ends with Service.Run's
	stop    context.CancelCauseFunc
	writer  *bus.Writer
	known   *versions.Store
	erasing chan struct{} // held by the push whose erasures are compared and published
}

func (p *pushes) init(cfg Config) {
	p.erasing = make(chan struct{}, 1)
	p.slots = make(chan struct{}, cfg.Push.Concurrent)
	p.token = sha256.Sum256([]byte(cfg.Token))
	p.stopped, p.stop = context.WithCancelCause(context.Background())
}

// closeKnown notes how far the topics go. The time for it is what leaves a stop without brokers an orderly one: a
// group's units have 5 s.
func (s *Service) closeKnown(ctx context.Context) error {
	if s.pushes.known == nil {
		return nil
	}
	return closeVersions(ctx, s.cfg, s.deps, s.pushes.known, 3*time.Second)
}

// servePushes answers requests until ctx ends.
func (s *Service) servePushes(ctx context.Context) (err error) {
	if s.cfg.StateDir != "" {
		if s.pushes.known, err = openVersions(ctx, s.cfg, s.deps); err != nil {
			if ctx.Err() != nil {
				return s.Close() // as above: what fails then is the asking that was cut short
			}
			return fmt.Errorf("ingest: %w", errors.Join(err, s.Close()))
		}
	}
	if err := s.deps.Suppressed.WaitLoaded(ctx); err != nil {
		return errors.Join(s.Close(), s.closeKnown(ctx))
	}
	s.pushes.writer = newWriter(s.cfg, s.deps)
	detach := context.AfterFunc(ctx, func() { s.pushes.stop(errStopping) })
	defer func() {
		detach()
		s.pushes.stop(errStopping)
		err = errors.Join(err, s.pushes.writer.Close(), s.closeKnown(ctx))
	}()
	return s.server.Run(ctx)
}

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ingest/v1/{kind}", s.push)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.bound(w)
		fail(w, http.StatusNotFound, "There is nothing here. Records are pushed with POST /ingest/v1/KIND; the kinds are "+kindList()+".")
	})
	return mux
}

// restTime is how long a client may take to send what is left of a body that is not
// wanted.
const restTime = 5 * time.Second

// bound sets deadlines for an answer, and for what is left of the body: the server
// itself writes the one and reads the other, and would wait for ever.
func (s *Service) bound(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	// Without deadlines (a connection that knows none) the client's own apply.
	rest := time.Now().Add(min(s.cfg.Push.Idle, restTime))
	_ = control.SetReadDeadline(rest)
	_ = control.SetWriteDeadline(rest.Add(s.cfg.Push.Idle)) // the answer is sent behind the rest
}

func kindList() string {
	var names []string
	for _, k := range record.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// refusal is an answer to a request that nothing was read of.
type refusal struct {
	status int
	detail string
	header [2]string
}

// check refuses what can be refused by the head of a request.
func (s *Service) check(r *http.Request) (record.Kind, string, *refusal) {
	kind := record.Kind(r.PathValue("kind"))
	if checkKind(kind) != nil {
		return "", "", &refusal{status: http.StatusNotFound, detail: fmt.Sprintf("No kind of record is called %q; the kinds are %s.", kind, kindList())}
	}
	if detail := checkQuery(r.URL.RawQuery); detail != "" {
		return "", "", &refusal{status: http.StatusBadRequest, detail: detail}
	}
	if kind == record.KindErasure && s.deps.Suppressed == nil {
		return "", "", &refusal{status: http.StatusServiceUnavailable, detail: "Erasures are not taken here: there is no suppression set."}
	}
	if kind == record.KindErasure && s.deps.Suppressed.Ours() != nil {
		return "", "", &refusal{status: http.StatusServiceUnavailable, detail: "Erasures are not taken here: this server has another root secret than the instance."}
	}
	if r.Method != http.MethodPost {
		return "", "", &refusal{http.StatusMethodNotAllowed, "Records are pushed with POST.", [2]string{"Allow", http.MethodPost}}
	}
	if r.ContentLength > s.cfg.Push.MaxBytes {
		return "", "", &refusal{status: http.StatusRequestEntityTooLarge, detail: s.tooLarge()}
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if types := slices.Compact(slices.Clone(r.Header.Values("Content-Type"))); len(types) > 1 {
		err = errors.New("several media types")
	}
	switch mediaType {
	case "application/json", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines":
	default:
		err = errors.New("another media type")
	}
	if err != nil {
		return "", "", &refusal{http.StatusUnsupportedMediaType, "The body must be JSON: send Content-Type: application/x-ndjson, or application/json.", [2]string{"Accept", "application/x-ndjson"}}
	}
	encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	switch encoding {
	case "identity":
		encoding = ""
	case "", "gzip", "zstd":
	default:
		return "", "", &refusal{http.StatusUnsupportedMediaType, "Content-Encoding must be gzip or zstd, or left out.", [2]string{"Accept-Encoding", "gzip, zstd"}}
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !ok || s.cfg.Token == "" || subtle.ConstantTimeCompare(sum[:], s.pushes.token[:]) != 1 {
		detail := "The operator token is missing or wrong: send Authorization: Bearer TOKEN. It is operator_token in standalone.json of the data folder, or what MUSTER_OPERATOR_TOKEN was set to."
		if s.cfg.Token == "" {
			detail = "No operator token is configured, so that nobody may push: set MUSTER_OPERATOR_TOKEN."
		}
		return "", "", &refusal{http.StatusUnauthorized, detail, [2]string{"WWW-Authenticate", "Bearer"}}
	}
	return kind, encoding, nil
}

// checkQuery says what is wrong with the parameters of a push, or nothing.
func checkQuery(raw string) string {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return "The parameters behind the question mark cannot be read: again and remap are known, each true or false."
	}
	for name, v := range query {
		if name != "again" && name != "remap" {
			return fmt.Sprintf("Unknown parameter %q: again and remap are known, each true or false.", name)
		}
		if len(v) > 1 || v[0] != "true" && v[0] != "false" {
			return name + " is true or false."
		}
	}
	return ""
}

func (s *Service) tooLarge() string {
	return fmt.Sprintf("The body is larger than %s: push it in parts.", bytesText(s.cfg.Push.MaxBytes))
}

// push takes a stream of records.
func (s *Service) push(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of the answer before, on this connection
	kind, encoding, refused := s.check(r)
	if refused != nil {
		s.bound(w)
		if refused.header[0] != "" {
			w.Header().Set(refused.header[0], refused.header[1])
		}
		fail(w, refused.status, refused.detail)
		return
	}
	select {
	case s.pushes.slots <- struct{}{}:
		defer func() { <-s.pushes.slots }()
	default:
		s.bound(w)
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, fmt.Sprintf("%d pushes run already: try again when one of them is done.", s.cfg.Push.Concurrent))
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		s.bound(w)
		fail(w, http.StatusInternalServerError, "The push could not be begun.")
		return
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && mediaType == "application/json" && kind == record.KindErasure {
		if r.Body, err = s.oneLine(w, r, encoding); err != nil {
			status, detail := s.explainObject(err)
			s.bound(w)
			w.Header().Set("Connection", "close") // what is left of the body is not read
			if status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "5")
			}
			fail(w, status, detail)
			return
		}
		encoding = "" // it is decompressed
	}
	began := time.Now()
	answer := s.take(w, r, id.String(), kind, encoding)
	s.deps.Logger.LogAttrs(r.Context(), slog.LevelInfo, "records were pushed", slog.String("run", answer.Run), slog.String("kind", string(kind)),
		slog.Int("status", answer.Status), slog.Int64("lines", answer.Acknowledged.Lines), slog.Duration("took", time.Since(began)))
	s.bound(w)
	if !answer.Complete {
		// What is left of the body is not read.
		w.Header().Set("Connection", "close")
	}
	if answer.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	respond(w, answer.Status, answer)
}

// errNoObject is the error of a body that should be one JSON object.
var errNoObject = errors.New("no JSON object")

// oneLine makes a line of a body that is one JSON object, written over any number of
// them and perhaps compressed.
func (s *Service) oneLine(w http.ResponseWriter, r *http.Request, encoding string) (io.ReadCloser, error) {
	body := &pushBody{in: http.MaxBytesReader(w, r.Body, record.MaxSize), control: http.NewResponseController(w), idle: s.cfg.Push.Idle, encoding: encoding}
	detach := context.AfterFunc(s.pushes.stopped, body.close)
	plain, done := source.Decompress(body)
	raw, err := io.ReadAll(io.LimitReader(plain, record.MaxSize+1))
	detach()
	body.close() // also when that has begun and is not done
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
		return nil, errNoObject
	}
	return io.NopCloser(bytes.NewReader(value)), nil
}

// explainObject says why a body could not be made a line. Nothing of it is stored.
func (s *Service) explainObject(err error) (int, string) {
	tooLarge, _ := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errNoObject):
		return http.StatusBadRequest, "The body is no JSON object."
	case tooLarge != nil:
		return http.StatusRequestEntityTooLarge, "The body is larger than 1 MiB: send erasures in parts, or one a line with Content-Type: application/x-ndjson."
	case s.pushes.stopped.Err() != nil:
		return http.StatusServiceUnavailable, "The service stops. Nothing is stored: send it again."
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, fmt.Sprintf("Nothing came for %s. Nothing is stored: send it again.", s.cfg.Push.Idle)
	case errors.Is(err, errEncoding):
		return http.StatusBadRequest, "The body is not what Content-Encoding says."
	}
	return http.StatusBadRequest, "The connection broke off." // for the log: nobody reads it
}

// take runs the pipeline over a request's body.
func (s *Service) take(w http.ResponseWriter, r *http.Request, id string, kind record.Kind, encoding string) pushAnswer {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	//nolint:contextcheck // the end of the service, which is no part of the request's context
	detach := context.AfterFunc(s.pushes.stopped, func() { cancel(errStopping) })
	defer detach()

	body := &pushBody{
		in: http.MaxBytesReader(w, r.Body, s.cfg.Push.MaxBytes), control: http.NewResponseController(w), idle: s.cfg.Push.Idle, encoding: encoding,
	}
	defer body.close()
	rejected := &rejectedList{max: s.cfg.Push.Rejected}
	cfg, deps := s.cfg, s.deps
	cfg.RunID, cfg.Again, cfg.Remap = id, r.URL.Query().Get("again") == "true", r.URL.Query().Get("remap") == "true"
	cfg.DrainTimeout = min(cfg.DrainTimeout, time.Second)
	deps.Logger = slog.New(slog.DiscardHandler) // what goes wrong is the client's to know
	deps.Progress = stallWatch{limit: cfg.Push.Stall, stalled: func() { cancel(errKafkaAway) }}
	deps.Rejected = rejected.add
	if kind == record.KindErasure {
		select {
		case s.pushes.erasing <- struct{}{}:
			defer func() { <-s.pushes.erasing }()
		case <-ctx.Done(): // the run reads nothing then
		}
	}
	var err error
	if cfg.revision, err = (&state{versions: s.pushes.known}).revision(ctx, cfg, deps); err != nil {
		return pushAnswer{Run: id, Kind: kind, Status: http.StatusServiceUnavailable, Detail: "No mapping revision could be reserved. Nothing is stored: send it again."}
	}
	run := newRun(ctx, cfg, deps, s.meters, s.pushes.writer, s.pushes.known)
	run.via = "http"
	run.add(pushFile, kind, -1, func(ctx context.Context, _ source.Position) (source.Source, error) {
		return source.FromReader(ctx, pushFile, body, source.Options{
			MaxLine: record.MaxSize, Head: event.MaxRejectedRaw, Kind: kind, Format: source.FormatNDJSON, MaxTotal: cfg.Push.MaxBytes,
		})
	})
	sum, err := run.finish()

	stored := sum.Files[0]
	answer := pushAnswer{
		Run: id, Kind: kind, Status: http.StatusOK, Complete: stored.Complete,
		Acknowledged: acknowledged{Lines: stored.Lines, Bytes: stored.Bytes}, Counts: sum.Kinds,
	}
	answer.Rejected = rejected.upTo(stored.Lines)
	answer.RejectedMore = max(0, sum.Total().Rejected-int64(len(answer.Rejected)))
	if !stored.Complete {
		if r.Context().Err() != nil && s.pushes.stopped.Err() == nil {
			// A read that fails ends the request's context before it returns.
			body.reading.Wait()
		}
		answer.Status, answer.Detail = s.explain(ctx, r, errors.Join(body.err(), err, stored.Err))
	}
	return answer
}

// explain says why a push was cut short.
func (s *Service) explain(ctx context.Context, r *http.Request, err error) (int, string) {
	const resume = " Everything up to acknowledged.lines is stored; push the rest."
	tooLarge, _ := errors.AsType[*http.MaxBytesError](err)
	broken, _ := errors.AsType[*source.Error](err)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errKafkaAway):
		return http.StatusServiceUnavailable, "The Kafka brokers do not acknowledge." + resume
	case errors.Is(cause, errStopping):
		return http.StatusServiceUnavailable, "The service stops." + resume
	case tooLarge != nil, errors.Is(err, source.ErrTooMuch):
		return http.StatusRequestEntityTooLarge, s.tooLarge() + resume
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, fmt.Sprintf("Nothing came for %s.", s.cfg.Push.Idle) + resume
	case errors.Is(err, errEncoding):
		return http.StatusBadRequest, "The body is not what Content-Encoding says."
	case errors.Is(err, source.ErrFormat) && broken != nil:
		return http.StatusBadRequest, fmt.Sprintf("The body is not JSON: %v.", broken.Err)
	case broken == nil && r.Context().Err() != nil:
		return http.StatusBadRequest, "The connection broke off." + resume // for the log: nobody reads it
	case broken != nil:
		return http.StatusBadRequest, fmt.Sprintf("The body breaks off or is damaged behind line %d.", broken.At.Line) + resume
	}
	s.deps.Logger.Error("a push failed", "error", err)
	return http.StatusInternalServerError, "The records could not be published." + resume
}

// acknowledged is the place up to which everything is stored.
type acknowledged struct {
	Lines int64 `json:"lines"`
	// Bytes is of the uncompressed body.
	Bytes int64 `json:"bytes"`
}

// pushAnswer is what became of a push.
type pushAnswer struct {
	Run          string         `json:"run"`
	Kind         record.Kind    `json:"kind"`
	Status       int            `json:"status"`
	Complete     bool           `json:"complete"`
	Detail       string         `json:"detail,omitempty"`
	Acknowledged acknowledged   `json:"acknowledged"`
	Counts       []KindCounts   `json:"counts"`
	Rejected     []rejectedLine `json:"rejected"`
	RejectedMore int64          `json:"rejected_more,omitzero"`
}

// rejectedLine is a record that was rejected.
type rejectedLine struct {
	Kind   record.Kind `json:"kind"`
	Line   int64       `json:"line"`
	Offset int64       `json:"offset"`
	Path   string      `json:"path,omitempty"`
	Code   string      `json:"code"`
	Reason string      `json:"reason"`
	// Defects has all defects, the one above first, of a record that has several.
	Defects []record.Defect `json:"defects,omitzero"`
}

// rejectedList keeps the first rejected records of a push.
type rejectedList struct {
	max  int
	mu   sync.Mutex
	list []rejectedLine
}

func (l *rejectedList) add(r event.Rejected) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < l.max {
		l.list = append(l.list, rejectedLine{r.Kind, r.Source.Line, r.Source.Offset, r.Path, r.Code, r.Reason, r.Defects})
	}
}

// upTo returns those up to a line, in order; a client pushes the rest again.
func (l *rejectedList) upTo(line int64) []rejectedLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	listed := []rejectedLine{}
	for _, r := range l.list {
		if r.Line <= line {
			listed = append(listed, r)
		}
	}
	sortRejected(listed)
	return listed
}

// stallWatch gives a push up when the brokers have been silent for too long.
type stallWatch struct {
	limit   time.Duration
	stalled func()
}

// Update implements [Progress].
func (w stallWatch) Update(s Snapshot) {
	if s.Stalled >= w.limit {
		w.stalled()
	}
}

// Finish implements [Progress].
func (w stallWatch) Finish(Snapshot) {}

// OperatorTokenEnv is the environment variable that holds the operator token.
const OperatorTokenEnv = "MUSTER_OPERATOR_TOKEN"

// StateDirOf is the folder of ingest's state in a data folder.
func StateDirOf(dataDir string) string { return filepath.Join(dataDir, "ingest") }
