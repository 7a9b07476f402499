package v1

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/platform/publicnet"
	"muster/platform/suggest"
	"muster/query-api/internal/api"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/metering"
	"muster/schemas/customfield"
	"muster/schemas/event"
	"muster/schemas/jsonname"
)

// ContextPath is the path of the context endpoint, also used in the ledger.
const ContextPath = "/v1/context"

// contextResponse is a response of the context endpoint.
type contextResponse struct {
	status      int
	body        answer
	degraded    string // stages, comma separated; empty: none
	replayed    bool   // the result of an earlier call with the Idempotency-Key
	undelivered func() // called if the response cannot be written
}

func (p contextResponse) write(w http.ResponseWriter) error {
	h := w.Header()
	if p.degraded != "" {
		h.Set("X-Degraded", p.degraded)
	}
	if p.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(p.body)))
	w.WriteHeader(p.status)
	_, err := w.Write(p.body)
	if err == nil {
		if err = http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	if err != nil && p.undelivered != nil {
		p.undelivered()
	}
	return nil
}

// VisitCreateContextResponse implements api.CreateContextResponseObject.
func (p contextResponse) VisitCreateContextResponse(w http.ResponseWriter) error { return p.write(w) }

// VisitGetContextResponse implements api.GetContextResponseObject.
func (p contextResponse) VisitGetContextResponse(w http.ResponseWriter) error { return p.write(w) }

// CreateContext is POST /v1/context.
func (s *Server) CreateContext(
	ctx context.Context, request api.CreateContextRequestObject,
) (api.CreateContextResponseObject, error) {
	x := exchangeOf(ctx)
	call := metering.FromContext(ctx)
	task, timeout, err := s.contextTask(x, request.Body)
	if err != nil {
		return nil, err
	}
	if err := checkMaxCredits(ctx, 1, request.Body.MaxCredits, ""); err != nil {
		return nil, err
	}
	if isTrue(request.Body.DryRun) {
		body, err := estimate(ctx, 1)
		return contextResponse{status: http.StatusOK, body: body}, err
	}
	work, err := call.ClaimWork(ctx, func(w metering.Work) (bool, error) {
		return s.contexts.CannotResume(ctx, task.Call.OrganizationID, w.ID)
	})
	switch {
	case err != nil:
		return nil, err
	case work != nil:
		return s.resume(ctx, call, work, task, timeout)
	}
	res, err := call.Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	res.Detach()
	task.Call.Price = call.UnitPrice()
	if err := call.BindWork(ctx, metering.Work{ID: x.id}); err != nil {
		res.Release()
		return nil, err
	}
	// Before the task is published: a charge must not be reserved again.
	if err := res.Prolong(ctx, event.ContextRetention); err != nil {
		res.Release()
		return nil, err
	}
	state, err := s.ask(ctx, call, task, timeout)
	switch {
	case errors.Is(err, contexts.ErrUnavailable):
		res.Release()
		return nil, err
	case errors.Is(err, contexts.ErrUncertain):
		res.Release() // if the task was published, it is charged nevertheless
		return nil, uncertain(task, err)
	case err != nil: // the client has left, the task continues
		return nil, err
	case state != nil:
		if err := s.settle(ctx, state); err != nil {
			return s.unsettled(ctx, state, err)
		}
		call.SetDeferredCharge(state.Credits())
		call.RecordSubjects(metering.Used{Identities: state.Identities})
		p, err := outcome(state)
		if err == nil {
			p.undelivered = func() { s.contexts.ReportUndelivered(state) }
		}
		return p, err
	}
	return s.notReady(task, timeout)
}

// ask publishes the task, and records under the Idempotency-Key that it is published.
func (s *Server) ask(
	ctx context.Context, call *metering.Call, task *event.ContextTask, timeout time.Duration,
) (*event.Context, error) {
	task.Call.RequestedAt = s.now().UTC()
	task.Call.RespondBy = task.Call.RequestedAt.Add(timeout)
	return s.contexts.Ask(ctx, task, func() {
		if err := call.BindWork(ctx, metering.Work{ID: task.Call.RequestID, Published: true}); err != nil {
			// A repeated call will publish the task again under the same ID.
			s.logger.LogAttrs(ctx, slog.LevelWarn, "context: publication not recorded for the Idempotency-Key",
				slog.String("request_id", task.Call.RequestID), slog.Any("error", err))
		}
	})
}

// resume answers a call whose Idempotency-Key is already bound to work. The work is charged once, as the call that
// started it. With a webhook_url the result is delivered to it and not returned here as well.
func (s *Server) resume(
	ctx context.Context, call *metering.Call, work *metering.Work, task *event.ContextTask, timeout time.Duration,
) (api.CreateContextResponseObject, error) {
	task.Call.RequestID = work.ID
	webhook := task.Call.WebhookURL != ""
	state, err := s.contexts.Get(ctx, task.Call.OrganizationID, work.ID)
	if err == nil && !work.Published && (state == nil || state.Status == event.ContextProcessing) {
		task.Call.Price = call.UnitPrice()
		if webhook {
			timeout = 0
		}
		if state, err = s.ask(ctx, call, task, timeout); state != nil && webhook {
			s.contexts.ReportUndelivered(state)
		}
	} else if err == nil && !webhook {
		state, err = s.contexts.Wait(ctx, task.Call.OrganizationID, work.ID, timeout)
	}
	switch {
	case errors.Is(err, contexts.ErrUncertain):
		return nil, uncertain(task, err)
	case err != nil:
		return nil, err
	case state == nil || webhook:
		p, err := s.notReady(task, timeout)
		if err == nil {
			call.MarkReplayed()
			p.replayed = true
		}
		return p, err
	}
	p, err := outcome(state)
	if err == nil {
		call.MarkReplayed()
		call.RecordSubjects(metering.Used{Identities: state.Identities})
		p.replayed = true
	}
	return p, err
}

// uncertain returns the response to a call whose task may have been published.
func uncertain(task *event.ContextTask, cause error) *problem {
	return &problem{
		status: http.StatusServiceUnavailable, retryAfter: retryAfter, cause: cause,
		detail: fmt.Sprintf("it is not known whether this call was accepted: call again in %d seconds with the same "+
			"Idempotency-Key; "+
			"if it was, GET %s/%s returns the profile when it is ready",
			retryAfter, ContextPath, task.Call.RequestID),
	}
}

// unsettled answers a call whose result could not be charged yet. The contexts consumer charges it later, so the result
// can be delivered or fetched.
func (s *Server) unsettled(ctx context.Context, state *event.Context, err error) (contextResponse, error) {
	s.logger.LogAttrs(ctx, slog.LevelWarn, "context: charge deferred",
		slog.String("request_id", state.Call.RequestID), slog.Any("error", err))
	s.contexts.ReportUndelivered(state)
	if state.Call.WebhookURL != "" {
		return accepted(state.Call.RequestID)
	}
	return contextResponse{}, &problem{
		status: http.StatusGatewayTimeout,
		detail: fmt.Sprintf("the result of the call is not available yet: fetch it with GET %s/%s", ContextPath,
			state.Call.RequestID),
	}
}

// notReady returns the response to a call without its result.
func (s *Server) notReady(task *event.ContextTask, timeout time.Duration) (contextResponse, error) {
	if task.Call.WebhookURL != "" {
		return accepted(task.Call.RequestID)
	}
	if s.contexts.IsStopping() {
		return contextResponse{}, &problem{
			status: http.StatusGatewayTimeout,
			detail: fmt.Sprintf("the profile is not ready, and this server is stopping: fetch it with GET %s/%s",
				ContextPath, task.Call.RequestID),
		}
	}
	return contextResponse{}, &problem{
		status: http.StatusGatewayTimeout,
		detail: fmt.Sprintf("the profile was not ready after %s seconds: fetch it with GET %s/%s, "+
			"or call with a webhook_url or a larger response_timeout_sec",
			strconv.FormatFloat(timeout.Seconds(), 'f', -1, 64), ContextPath, task.Call.RequestID),
	}
}

// settle charges a result, if the profile is complete and not empty (rulings.md, Accounts, limits and charges).
func (s *Server) settle(ctx context.Context, c *event.Context) error {
	if s.cfg.Uncounted {
		return nil
	}
	return SettleContext(context.WithoutCancel(ctx), s.meter, c)
}

// SettleContext charges the result of a context call, once per request ID.
func SettleContext(ctx context.Context, meter *metering.Meter, c *event.Context) error {
	charge := metering.DeferredCharge{
		RequestID: c.Call.RequestID, Organization: c.Call.OrganizationID, Key: c.Call.KeyID, Plan: c.Call.Plan,
		Method: http.MethodPost, Endpoint: ContextPath, At: c.Call.RequestedAt, Done: c.At, Credits: c.Credits(),
		Used: metering.Used{Identities: c.Identities},
	}
	if c.Status == event.ContextFailed {
		return meter.ReleaseHolds(ctx, charge, []string{charge.RequestID})
	}
	if charge.Credits > 0 {
		charge.Used.Groups = []string{"context"}
	}
	return meter.Charge(ctx, charge)
}

// GetContext is GET /v1/context/{request_id}.
func (s *Server) GetContext(
	ctx context.Context, request api.GetContextRequestObject,
) (api.GetContextResponseObject, error) {
	id := request.RequestId
	state, err := s.contexts.Get(ctx, s.organization(exchangeOf(ctx)), id)
	if err != nil {
		return nil, err
	}
	switch {
	case state == nil:
		return nil, &problem{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("this organization made no context call %s in the last %d hours: "+
				"use the request_id of its 202, or its X-Request-Id",
				quote(id), int(event.ContextRetention.Hours())),
		}
	case state.Status == event.ContextProcessing:
		return accepted(id)
	case state.Status == event.ContextFailed: // final: no Retry-After
		return nil, &problem{
			status: state.Failure.Status,
			detail: fmt.Sprintf("this context call has failed; a new call may succeed (request_id %s): %s", id,
				state.Failure.Detail),
		}
	}
	return outcome(state)
}

// outcome returns the response with the result of a call.
func outcome(c *event.Context) (contextResponse, error) {
	if c.Status == event.ContextFailed {
		return contextResponse{}, &problem{status: c.Failure.Status, detail: c.Failure.Detail, retryAfter: retryAfter}
	}
	return contextResponse{status: http.StatusOK, body: answer(c.Profile), degraded: strings.Join(c.Degraded, ",")}, nil
}

func accepted(id string) (contextResponse, error) {
	body, err := json.Marshal(api.ContextAccepted{
		RequestId: id, Status: api.ContextAcceptedStatus(event.ContextProcessing),
	}, json.Deterministic(true))
	if err != nil {
		return contextResponse{}, fmt.Errorf("encode context response: %w", err)
	}
	return contextResponse{status: http.StatusAccepted, body: body}, nil
}

// uncounted is the organization and key of calls without metering.
const uncounted = "uncounted"

func (s *Server) organization(x *exchange) string {
	if s.cfg.Uncounted {
		return uncounted
	}
	return x.principal.Organization.ID
}

// contextTask validates the request body and returns its task and timeout.
func (s *Server) contextTask(x *exchange, body *api.ContextRequest) (*event.ContextTask, time.Duration, error) {
	task := &event.ContextTask{
		Call: event.ContextCall{
			RequestID: x.id, OrganizationID: s.organization(x), KeyID: x.principal.Key.ID,
			Plan: x.principal.Organization.Plan,
		},
		Person: body.Person, Confidence: event.ContextConfidence,
	}
	if s.cfg.Uncounted {
		task.Call.KeyID = uncounted
	}
	switch kind := body.Person.Kind(); {
	case len(body.Person) == 0 || kind == 'n':
		return nil, 0, invalidf("person is missing: send text or an object about a person")
	case kind != '"' && kind != '{':
		return nil, 0, invalidf("person must be a string or an object, not %s", jsonname.OfKind(kind))
	}
	if err := event.CheckPerson(body.Person); err != nil {
		return nil, 0, invalidf("person %s", err)
	}
	if body.Schema != nil {
		if _, err := customfield.Parse("schema", *body.Schema); err != nil {
			return nil, 0, schemaProblem(err)
		}
		if body.Schema.Kind() != 'n' {
			task.Schema = *body.Schema
		}
	}
	if c := body.Confidence; c != nil {
		if math.IsNaN(*c) || *c < 0 || *c > 1 {
			return nil, 0, invalidf("confidence is %s: it must be between 0 and 1", number(*c))
		}
		task.Confidence = *c
	}
	timeout := event.ContextTimeout
	if t := body.ResponseTimeoutSec; t != nil {
		if math.IsNaN(*t) || *t < 0 || *t > event.MaxContextTimeout.Seconds() {
			return nil, 0, invalidf("response_timeout_sec is %s: it must be between 0 and %s",
				number(*t), number(event.MaxContextTimeout.Seconds()))
		}
		timeout = time.Duration(*t * float64(time.Second))
	}
	if u := body.WebhookUrl; u != nil {
		if err := s.checkWebhook("webhook_url", task.Call.OrganizationID, *u); err != nil {
			return nil, 0, err
		}
		task.Call.WebhookURL = *u
	}
	return task, timeout, nil
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// checkWebhook rejects addresses that webhook-sender would not send to. The sender checks again when it dials. field
// has the address, for errors.
func (s *Server) checkWebhook(field, organization, address string) error {
	if _, err := event.ParseEndpoint(organization, address); err != nil {
		return invalidf("%s %s", field, strings.TrimPrefix(err.Error(), "webhook address "))
	}
	u, err := url.Parse(address)
	if err != nil {
		return invalidf("%s is not a URL", field)
	}
	if strings.EqualFold(u.Scheme, "http") && len(s.cfg.WebhookAllow) == 0 {
		return invalidf("%s must begin with https://", field)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	// A host name is resolved and checked when it is dialed.
	if err != nil {
		if publicnet.IsPrivateName(u.Hostname()) && len(s.cfg.WebhookAllow) == 0 {
			return invalidf("%s has a name of this machine or of a private network: give an address that is "+
				"reachable from the internet", field)
		}
		if isNumber(u.Hostname()) {
			return invalidf("%s has a number as host: write an address as four numbers with dots, or give a name",
				field)
		}
		return nil
	}
	ip = ip.Unmap()
	for _, p := range s.cfg.WebhookAllow {
		if p.Contains(ip) {
			return nil
		}
	}
	network := "tcp4"
	if ip.Is6() {
		network = "tcp6"
	}
	if s.public.Safe(network, netip.AddrPortFrom(ip, 443).String(), nil) != nil {
		return invalidf("%s has an address that is not public: give one that is reachable from the internet",
			field)
	}
	if strings.EqualFold(u.Scheme, "http") {
		return invalidf("%s must begin with https://", field)
	}
	return nil
}

// isNumber reports whether a host is an IPv4 address in a non-standard form. No top-level domain is a number.
func isNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// schemaProblem returns the error for an invalid schema.
func schemaProblem(err error) error {
	var e *customfield.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Unknown != "" {
		return invalidf("%s has the unknown member %s: %s", e.Path, quote(e.Unknown),
			suggest.Hint(e.Unknown, e.Known, "Known are "+strings.Join(e.Known, ", ")))
	}
	return invalidf("%s", e.Error())
}
