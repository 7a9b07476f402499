package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/api"
	"muster/query-api/internal/bulk"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// BulkPath is the path of bulk jobs, also used in the ledger.
const BulkPath = "/v1/bulk"

// bulkVariant is the operation of the rows of an upload, without scope and price if it is unknown.
func bulkVariant(r *http.Request) operation {
	ids := map[event.BulkOperation]string{
		event.BulkPersonEnrich: "enrichPerson", event.BulkCompanyEnrich: "enrichCompany",
		event.BulkDiscover: "discoverPerson",
	}
	return operationByID(ids[event.BulkOperation(r.URL.Query().Get("operation"))])
}

// operationByID returns an operation, the zero value if there is none.
func operationByID(id string) operation {
	for _, op := range operations() {
		if op.id == id {
			return op
		}
	}
	return operation{}
}

// bulkScope returns the scope of an operation of jobs.
func bulkScope(o event.BulkOperation) string {
	if o == event.BulkDiscover {
		return event.ScopeDiscover
	}
	return event.ScopeEnrich
}

// bulkResponse is a JSON response of the bulk endpoints.
type bulkResponse struct {
	status int
	body   answer
}

func (b bulkResponse) write(w http.ResponseWriter) error {
	if b.status == http.StatusOK {
		return b.body.write(w)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(b.body)))
	w.WriteHeader(b.status)
	// The client may have disconnected.
	_, _ = w.Write(b.body)
	return nil
}

// VisitSubmitBulkResponse implements api.SubmitBulkResponseObject.
func (b bulkResponse) VisitSubmitBulkResponse(w http.ResponseWriter) error { return b.write(w) }

// VisitGetBulkResponse implements api.GetBulkResponseObject.
func (b bulkResponse) VisitGetBulkResponse(w http.ResponseWriter) error { return b.write(w) }

// VisitGetBulkResultsResponse implements api.GetBulkResultsResponseObject.
func (b bulkResponse) VisitGetBulkResultsResponse(w http.ResponseWriter) error { return b.write(w) }

func newBulkResponse(status int, body any) (bulkResponse, error) {
	text, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return bulkResponse{}, fmt.Errorf("encode bulk response: %w", err)
	}
	return bulkResponse{status: status, body: text}, nil
}

// SubmitBulk is POST /v1/bulk.
func (s *Server) SubmitBulk(
	ctx context.Context, request api.SubmitBulkRequestObject,
) (api.SubmitBulkResponseObject, error) {
	x, call := exchangeOf(ctx), metering.FromContext(ctx)
	job, err := s.bulkJob(x, request.Params)
	if err != nil {
		return nil, err
	}
	job.Rows, err = bulk.ReadRows(x.upload.rows(), x.upload.format, job.Operation, func(bulk.Row) error { return nil })
	if input, ok := errors.AsType[*bulk.InputError](err); ok {
		return nil, invalidf("%s", input.Detail)
	}
	if err != nil {
		return nil, err
	}
	if err := checkMaxCredits(ctx, int64(job.Rows), request.Params.MaxCredits, ", or send fewer rows"); err != nil {
		return nil, err
	}
	if isTrue(request.Params.DryRun) {
		body, err := estimate(ctx, int64(job.Rows))
		return bulkResponse{http.StatusOK, body}, err
	}
	job.Price = call.UnitPrice()
	work, err := call.ClaimWork(ctx, func(metering.Work) (bool, error) { return false, nil })
	if err != nil {
		return nil, err
	}
	abandon := func(err error) error { return err }
	if work != nil {
		// An earlier attempt ended before its response: the job keeps its id, so that it runs and is charged once. It
		// may be running: what the earlier attempt has reserved is neither reserved again nor released.
		job.JobID = work.ID
	} else {
		if err := call.ReserveHolds(ctx, bulkHolds(job), event.BulkDeadline); err != nil {
			return nil, err
		}
		abandon = func(err error) error {
			call.UnbindWork()
			return errors.Join(err, s.releaseBulk(ctx, job))
		}
		if err := call.BindWork(ctx, metering.Work{ID: job.JobID}); err != nil {
			return nil, abandon(err)
		}
	}
	if err := s.bulk.Store(ctx, job, x.upload.rows(), x.upload.format); err != nil {
		return nil, abandon(err)
	}
	if err := s.bulk.Accept(ctx, job); err != nil {
		if !errors.Is(err, bulk.ErrUncertain) {
			return nil, abandon(err)
		}
		return nil, &problem{
			status: http.StatusServiceUnavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("it is not known whether this job was accepted: call again in %d seconds with the same "+
				"Idempotency-Key; if it was, GET %s/%s returns it", retryAfter, BulkPath, job.JobID),
		}
	}
	return newBulkResponse(http.StatusAccepted, api.BulkAccepted{JobId: job.JobID, Rows: job.Rows})
}

// bulkJob validates the parameters and returns the job, without rows and price.
func (s *Server) bulkJob(x *exchange, params api.SubmitBulkParams) (*event.BulkJob, error) {
	job := &event.BulkJob{
		JobID: x.id, OrganizationID: s.organization(x), KeyID: x.principal.Key.ID, Plan: x.principal.Organization.Plan,
		Operation: event.BulkOperation(params.Operation), At: s.now().UTC().Truncate(time.Microsecond),
		Counted: !s.cfg.Uncounted && bulkScope(event.BulkOperation(params.Operation)) == event.ScopeEnrich,
	}
	if s.cfg.Uncounted {
		job.KeyID = uncounted
	}
	if !slices.Contains(event.BulkOperations(), string(job.Operation)) {
		return nil, unknown("operation", string(job.Operation), event.BulkOperations())
	}
	if params.Fields != nil {
		job.Fields = *params.Fields
		if err := s.checkBulkFields(job.Operation, job.Fields); err != nil {
			return nil, err
		}
	}
	if u := params.WebhookUrl; u != nil {
		if err := s.checkWebhook("webhook_url", job.OrganizationID, *u); err != nil {
			return nil, err
		}
		job.WebhookURL = *u
	}
	return job, nil
}

// checkBulkFields returns an error if the columns of a job's results are invalid.
func (s *Server) checkBulkFields(o event.BulkOperation, fields []string) error {
	if o != event.BulkDiscover {
		_, err := s.bulkEnrichment(o, fields)
		return err
	}
	profile := func() *fieldTree {
		return &fieldTree{members: map[string]*fieldTree{"username": {}, "link": {}, "confidence": {}, "context": {}}}
	}
	platforms := &fieldTree{members: make(map[string]*fieldTree)}
	for _, name := range identity.PlatformNames() {
		platforms.members[name] = profile()
	}
	_, err := platforms.parseFields(fields)
	return err
}

// bulkHolds returns the reservations of a job, one for each chunk.
func bulkHolds(job *event.BulkJob) []metering.Hold {
	holds := make([]metering.Hold, job.Chunks())
	for i := range holds {
		first, end := job.ChunkRows(i)
		holds[i] = metering.Hold{ID: job.HoldID(i), Units: int64(end - first)}
	}
	return holds
}

func (s *Server) releaseBulk(ctx context.Context, job *event.BulkJob) error {
	if s.cfg.Uncounted {
		return nil
	}
	chunks := make([]int, job.Chunks())
	for i := range chunks {
		chunks[i] = i
	}
	return ReleaseBulk(context.WithoutCancel(ctx), s.meter, job, chunks)
}

// ReleaseBulk releases the reservations of chunks.
func ReleaseBulk(ctx context.Context, meter *metering.Meter, job *event.BulkJob, chunks []int) error {
	ids := make([]string, len(chunks))
	for i, number := range chunks {
		ids[i] = job.HoldID(number)
	}
	return meter.ReleaseHolds(ctx, bulkCharge(job, 0, job.At), ids)
}

// bulkCharge returns the charge of a row that nothing was found for.
func bulkCharge(job *event.BulkJob, row int, now time.Time) metering.DeferredCharge {
	return metering.DeferredCharge{
		RequestID: job.UsageID(row), Organization: job.OrganizationID, Key: job.KeyID, Plan: job.Plan,
		Method: http.MethodPost, Endpoint: BulkPath, At: job.At, Done: now,
	}
}

// ChargeBulk charges the answers to a chunk, each row once. An answer that was deleted since is nil.
func ChargeBulk(
	ctx context.Context, meter *metering.Meter, job *event.BulkJob, chunk int, answers []*bulk.Answer, now time.Time,
) error {
	first, _ := job.ChunkRows(chunk)
	charges := make([]metering.DeferredCharge, len(answers))
	for i, a := range answers {
		charges[i] = bulkCharge(job, first+i, now)
		if a != nil {
			charges[i].Credits, charges[i].Requests = a.Credits, a.Requests
			charges[i].Used = metering.Used{Identities: a.Identities, Groups: a.Groups}
		}
	}
	return meter.ChargeHold(ctx, charges)
}

// AnswerRows implements bulk.Answerer.
func (s *Server) AnswerRows(ctx context.Context, job *event.BulkJob, rows []bulk.Row) ([]bulk.Answer, error) {
	if job.Operation == event.BulkDiscover {
		return s.discoverRows(ctx, job, rows)
	}
	e, err := s.bulkEnrichment(job.Operation, job.Fields)
	if err != nil {
		return nil, err
	}
	items := make([]item, len(rows))
	for i, row := range rows {
		if row.Detail != "" {
			items[i] = item{reference: &rows[i].Reference, invalid: invalidf("%s", row.Detail)}
			continue
		}
		parsed, err := e.parseItems([]jsontext.Value{row.Body})
		if err != nil {
			return nil, err
		}
		items[i] = parsed[0]
	}
	answered, err := s.answerItems(ctx, e, items, func(int) error { return nil })
	if isDamaged(err) && len(rows) > 1 {
		return s.answerSeparately(ctx, job, rows)
	}
	if isDamaged(err) {
		items[0] = item{reference: &rows[0].Reference, invalid: invalidf("data that this row needs is damaged, and " +
			"nothing was charged: the operator of this service has to repair it")}
		answered, err = s.answerItems(ctx, e, items, func(int) error { return nil })
	}
	if err != nil {
		return nil, err
	}
	answers := make([]bulk.Answer, len(rows))
	for i, a := range answered {
		answers[i] = bulk.Answer{
			Body: a.body, Identities: a.record.Identities, Identifiers: a.record.Identifiers, Groups: a.record.Groups,
		}
		if job.Counted && items[i].query != nil {
			answers[i].Requests = 1
		}
		if a.record.Found() {
			answers[i].Credits = job.Price
		}
	}
	return answers, nil
}

// answerSeparately answers rows one by one, so that those that need damaged data do not affect the others.
func (s *Server) answerSeparately(
	ctx context.Context, job *event.BulkJob, rows []bulk.Row,
) (answers []bulk.Answer, err error) {
	for i := range rows {
		one, err := s.AnswerRows(ctx, job, rows[i:i+1])
		if err != nil {
			return nil, err
		}
		answers = append(answers, one...)
	}
	return answers, nil
}

// bulkEnrichment returns the enrichment of a job, with the selected fields; nil selects all.
func (s *Server) bulkEnrichment(o event.BulkOperation, fields []string) (enrichment, error) {
	if o == event.BulkCompanyEnrich {
		return s.companyEnrichment(fields)
	}
	return s.personEnrichment(fields)
}

// maxDiscoveries is the number of rows of a chunk that are discovered at a time.
const maxDiscoveries = 16

// discoverRows answers rows of discovery.
func (s *Server) discoverRows(ctx context.Context, job *event.BulkJob, rows []bulk.Row) ([]bulk.Answer, error) {
	answers := make([]bulk.Answer, len(rows))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxDiscoveries)
	for i, row := range rows {
		g.Go(func() (err error) {
			answers[i], err = s.discoverRow(gctx, job, row)
			return err
		})
	}
	return answers, g.Wait()
}

// discoveredRow is the answer to a row of discovery.
type discoveredRow struct {
	Reference  string   `json:"reference"`
	Socials    []social `json:"socials,omitzero"`
	Degraded   []string `json:"degraded,omitempty"`
	MissReason string   `json:"miss_reason,omitempty"`
	Detail     string   `json:"detail,omitempty"`
}

func (s *Server) discoverRow(ctx context.Context, job *event.BulkJob, row bulk.Row) (bulk.Answer, error) {
	out := discoveredRow{Reference: row.Reference, Detail: row.Detail}
	var a bulk.Answer
	if out.Detail == "" {
		account, maxAge, err := s.parseDiscoverRow(row)
		if bad, ok := errors.AsType[*invalid](err); ok {
			out.Detail = bad.detail
		} else if err != nil {
			return a, err
		} else {
			found, _, err := s.discover(ctx, account, maxAge)
			if err != nil {
				return a, err
			}
			out.Socials, out.Degraded = s.socials(found), found.Degraded
			a.Identities, a.Accounts = identitiesOf(found.Socials), accountsOf(found)
			if found.Found() {
				a.Credits, a.Groups = job.Price, []string{"discovery"}
			} else {
				out.MissReason = reasonNotFound
			}
		}
	}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return a, fmt.Errorf("encode a discovered row: %w", err)
	}
	a.Body = body
	return a, nil
}

// parseDiscoverRow validates a row like the body of a call. Its reference is not part of that body.
func (s *Server) parseDiscoverRow(row bulk.Row) (account event.Account, maxAge time.Duration, err error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(row.Body, &members); err != nil {
		return account, 0, invalidf("the row is not a valid JSON object")
	}
	delete(members, "reference")
	for _, name := range []string{"dry_run", "max_credits"} {
		if _, given := members[name]; given {
			return account, 0, invalidf("%s is a parameter of the job, not of a row", name)
		}
	}
	text, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return account, 0, invalidf("the row is not a valid JSON object")
	}
	var body api.PersonDiscoverRequest
	if _, err := checkBody(text, &body); err != nil {
		return account, 0, err
	}
	return s.discoverQuery(&body)
}

// findBulk returns a job of the caller's organization, whose operation is in the scope of the key.
func (s *Server) findBulk(ctx context.Context, id string) (*bulk.Status, error) {
	x := exchangeOf(ctx)
	state, err := s.bulk.Status(ctx, s.organization(x), id)
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, &problem{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("this organization submitted no bulk job %s in the last %d days: use the job_id of its 202",
				quote(id), int(event.BulkRetention.Hours()/24)),
		}
	}
	if scope := bulkScope(state.Job.Operation); !s.cfg.Uncounted && !x.principal.Key.HasScope(scope) {
		return nil, x.lacksScope(scope)
	}
	return state, nil
}

// GetBulk is GET /v1/bulk/{job_id}.
func (s *Server) GetBulk(ctx context.Context, request api.GetBulkRequestObject) (api.GetBulkResponseObject, error) {
	state, err := s.findBulk(ctx, request.JobId)
	if err != nil {
		return nil, err
	}
	return newBulkResponse(http.StatusOK, state.Public())
}

// GetBulkResults is GET /v1/bulk/{job_id}/results.
func (s *Server) GetBulkResults(
	ctx context.Context, request api.GetBulkResultsRequestObject,
) (api.GetBulkResultsResponseObject, error) {
	state, err := s.findBulk(ctx, request.JobId)
	if err != nil {
		return nil, err
	}
	if state.Status == event.BulkQueued || state.Status == event.BulkRunning {
		return newBulkResponse(http.StatusAccepted, state.Public())
	}
	select {
	case s.downloads <- struct{}{}:
	default:
		return nil, &problem{
			status: http.StatusServiceUnavailable, retryAfter: retryAfter, cause: errors.New("too many downloads"),
			detail: fmt.Sprintf("%d results are being read: call again in %d seconds", maxDownloads, retryAfter),
		}
	}
	return bulkResults{server: s, ctx: ctx, state: state}, nil
}

// bulkResults is the response with the answers of a job.
type bulkResults struct {
	server *Server
	ctx    context.Context
	state  *bulk.Status
}

// VisitGetBulkResultsResponse implements api.GetBulkResultsResponseObject.
func (b bulkResults) VisitGetBulkResultsResponse(w http.ResponseWriter) error {
	defer func() { <-b.server.downloads }()
	out := &pacedWriter{
		to: w, control: http.NewResponseController(w), grace: b.server.cfg.ReadGrace, rate: b.server.cfg.MinReadRate,
	}
	job, kind := b.state.Job, "application/x-ndjson"
	writer := bulk.NewResultWriter(out, job.Operation, job.Fields)
	if len(job.Fields) > 0 {
		kind = "text/csv; charset=utf-8"
	}
	// The first answer is read before the status is sent.
	started := false
	start := func() error {
		if started {
			return nil
		}
		started = true
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-store")
		if asOf := b.state.AsOf; asOf.Unix() > 0 {
			w.Header()[dataAsOfHeader] = []string{dataAsOf(asOf, b.server.now())}
		}
		w.WriteHeader(http.StatusOK)
		return writer.Begin()
	}
	err := b.server.bulk.Results(b.ctx, b.state, func(_ int, row bulk.Row, a *bulk.Answer) error {
		body, err := b.server.shown(job, row, a)
		if err == nil {
			err = start()
		}
		if err != nil {
			return err
		}
		return writer.Write(body)
	})
	if err == nil {
		err = start()
	}
	if err == nil {
		err = writer.Flush()
	}
	switch {
	case err == nil:
		return nil
	case !started:
		return err
	}
	// A truncated response must not look complete.
	if out.failed == nil {
		b.server.logger.WarnContext(b.ctx, "bulk: results broken off", "job_id", job.JobID, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// shown returns the answer to a row, without a match if it was deleted or is about an erased person.
func (s *Server) shown(job *event.BulkJob, row bulk.Row, a *bulk.Answer) ([]byte, error) {
	if a != nil && (len(a.Identities)+len(a.Accounts) == 0 || !s.erased(idempotency.Answer{
		Identities: a.Identities, Identifiers: a.Identifiers, Accounts: a.Accounts, Body: a.Body, Endpoint: BulkPath,
	})) {
		return a.Body, nil
	}
	if job.Operation == event.BulkDiscover {
		return json.Marshal(discoveredRow{
			Reference: row.Reference, Socials: []social{}, MissReason: reasonNotFound,
		}, json.Deterministic(true))
	}
	miss := readstore.Record{}
	if job.Operation == event.BulkPersonEnrich {
		miss.Body = []byte(`{}`)
	}
	e, err := s.bulkEnrichment(job.Operation, nil)
	if err != nil {
		return nil, err
	}
	return e.render(item{reference: &row.Reference}, miss)
}

// pacedWriter writes a response of any size, and fails if its client reads a write slower than a rate, after a grace.
type pacedWriter struct {
	to      http.ResponseWriter
	control *http.ResponseController
	grace   time.Duration
	rate    int64 // bytes per second
	failed  error
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	due := p.grace + time.Duration(len(b))*time.Second/time.Duration(p.rate)
	// Writers in tests may not support deadlines.
	_ = p.control.SetWriteDeadline(time.Now().Add(due))
	n, err := p.to.Write(b)
	if err != nil {
		p.failed = err
	}
	return n, err
}
