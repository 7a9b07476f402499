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

	"muster/platform/nearest"
	"muster/platform/publicnet"
	"muster/query-api/internal/api"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/metering"
	"muster/schemas/custom"
	"muster/schemas/event"
)

// ContextPath is the path of context calls, also in the ledger.
const ContextPath = "/v1/context"

// profiled is an answer of the context endpoint.
type profiled struct {
	status   int
	body     answer
	degraded string // stages, comma separated; empty: none
	replayed bool   // it is what another call under the Idempotency-Key has begun
	lost     func() // is called when the answer cannot be written
}

func (p profiled) write(w http.ResponseWriter) error {
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
	if err != nil && p.lost != nil {
		p.lost()
	}
	return nil
}

// VisitCreateContextResponse implements api.CreateContextResponseObject.
func (p profiled) VisitCreateContextResponse(w http.ResponseWriter) error { return p.write(w) }

// VisitGetContextResponse implements api.GetContextResponseObject.
func (p profiled) VisitGetContextResponse(w http.ResponseWriter) error { return p.write(w) }

// CreateContext is POST /v1/context.
func (s *Server) CreateContext(ctx context.Context, request api.CreateContextRequestObject) (api.CreateContextResponseObject, error) {
	x := exchangeOf(ctx)
	call := metering.CallOf(ctx)
	task, timeout, err := s.contextTask(x, request.Body)
	if err != nil {
		return nil, err
	}
	work, err := call.Begun(ctx, func(w metering.Work) (bool, error) {
		return s.contexts.Over(ctx, task.Call.OrganizationID, w.ID)
	})
	switch {
	case err != nil:
		return nil, err
	case work != nil:
		return s.goOn(ctx, call, work, task, timeout)
	}
	res, err := call.Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	res.Detach()
	task.Call.Price = call.UnitPrice()
	if err := call.Begins(ctx, metering.Work{ID: x.id}); err != nil {
		res.Release()
		return nil, err
	}
	// Before the task is there: what is charged already is not to be held anew.
	if err := res.Prolong(ctx, event.ContextKept); err != nil {
		res.Release()
		return nil, err
	}
	state, err := s.ask(ctx, call, task, timeout)
	switch {
	case errors.Is(err, contexts.ErrUnavailable):
		res.Release()
		return nil, err
	case errors.Is(err, contexts.ErrUnsure):
		res.Release() // if the task is worked on, it is charged all the same
		return nil, unsure(task, err)
	case err != nil: // the caller has left, the task goes on
		return nil, err
	case state != nil:
		if err := s.settle(ctx, state); err != nil {
			return s.unsettled(ctx, state, err)
		}
		call.Owes(state.Credits())
		call.Tells(metering.Used{Identities: state.Identities})
		p, err := outcome(state)
		if err == nil {
			p.lost = func() { s.contexts.Lost(state) }
		}
		return p, err
	}
	return s.notReady(task, timeout)
}

// ask has the task worked on, and notes under the Idempotency-Key that it is.
func (s *Server) ask(ctx context.Context, call *metering.Call, task *event.ContextTask, timeout time.Duration) (*event.Context, error) {
	task.Call.RequestedAt = s.now().UTC()
	task.Call.RespondBy = task.Call.RequestedAt.Add(timeout)
	return s.contexts.Ask(ctx, task, func() {
		if err := call.Begins(ctx, metering.Work{ID: task.Call.RequestID, Asked: true}); err != nil {
			// The task is asked for again, under the same id, if the call is sent again.
			s.logger.LogAttrs(ctx, slog.LevelWarn, "a context call is not kept for its Idempotency-Key as it is", slog.String("request_id", task.Call.RequestID), slog.Any("error", err))
		}
	})
}

// goOn answers a call whose Idempotency-Key is bound to work already. It is charged, if
// at all, when the work is done, as the call that has begun it. With a webhook_url the
// outcome is delivered, since that call has ended: it is not answered here as well.
func (s *Server) goOn(ctx context.Context, call *metering.Call, work *metering.Work, task *event.ContextTask, timeout time.Duration) (api.CreateContextResponseObject, error) {
	task.Call.RequestID = work.ID
	webhook := task.Call.WebhookURL != ""
	state, err := s.contexts.Get(ctx, task.Call.OrganizationID, work.ID)
	if err == nil && !work.Asked && (state == nil || state.Status == event.ContextProcessing) {
		task.Call.Price = call.UnitPrice()
		if webhook {
			timeout = 0
		}
		if state, err = s.ask(ctx, call, task, timeout); state != nil && webhook {
			s.contexts.Lost(state)
		}
	} else if err == nil && !webhook {
		state, err = s.contexts.Wait(ctx, task.Call.OrganizationID, work.ID, timeout)
	}
	switch {
	case errors.Is(err, contexts.ErrUnsure):
		return nil, unsure(task, err)
	case err != nil:
		return nil, err
	case state == nil || webhook:
		p, err := s.notReady(task, timeout)
		if err == nil {
			call.Replays()
			p.replayed = true
		}
		return p, err
	}
	p, err := outcome(state)
	if err == nil {
		call.Replays()
		call.Tells(metering.Used{Identities: state.Identities})
		p.replayed = true
	}
	return p, err
}

// unsure answers a call of which it is not known whether its task is worked on.
func unsure(task *event.ContextTask, cause error) *problem {
	return &problem{
		status: http.StatusServiceUnavailable, retryAfter: retryAfter, cause: cause,
		detail: fmt.Sprintf("it is not known whether this call was accepted: call again in %d seconds with the same Idempotency-Key; if it was, GET %s/%s has the profile once it is made",
			retryAfter, ContextPath, task.Call.RequestID),
	}
}

// unsettled answers a call whose outcome could not be charged yet. Contexts' consumer charges
// it when it can, so that the outcome is not refused: it is delivered, or fetched.
func (s *Server) unsettled(ctx context.Context, state *event.Context, err error) (profiled, error) {
	s.logger.LogAttrs(ctx, slog.LevelWarn, "a context profile is charged later", slog.String("request_id", state.Call.RequestID), slog.Any("error", err))
	s.contexts.Lost(state)
	if state.Call.WebhookURL != "" {
		return accepted(state.Call.RequestID)
	}
	return profiled{}, &problem{
		status: http.StatusGatewayTimeout,
		detail: fmt.Sprintf("what came of the call cannot be told at present: fetch it with GET %s/%s", ContextPath, state.Call.RequestID),
	}
}

// notReady answers a call without its outcome.
func (s *Server) notReady(task *event.ContextTask, timeout time.Duration) (profiled, error) {
	if task.Call.WebhookURL != "" {
		return accepted(task.Call.RequestID)
	}
	if s.contexts.Left() {
		return profiled{}, &problem{
			status: http.StatusGatewayTimeout,
			detail: fmt.Sprintf("the profile is not ready, and this server is stopping: fetch it with GET %s/%s", ContextPath, task.Call.RequestID),
		}
	}
	return profiled{}, &problem{
		status: http.StatusGatewayTimeout,
		detail: fmt.Sprintf("the profile was not ready after %s seconds: fetch it with GET %s/%s, or call with a webhook_url or a larger response_timeout_sec",
			strconv.FormatFloat(timeout.Seconds(), 'f', -1, 64), ContextPath, task.Call.RequestID),
	}
}

// settle charges an outcome (rulings.md, Accounts, limits and charges: when the
// profile is complete and not empty).
func (s *Server) settle(ctx context.Context, c *event.Context) error {
	if s.cfg.Uncounted {
		return nil
	}
	return SettleContext(context.WithoutCancel(ctx), s.meter, c)
}

// SettleContext charges the outcome of a context call, once for each request id.
func SettleContext(ctx context.Context, meter *metering.Meter, c *event.Context) error {
	owed := metering.Owed{
		RequestID: c.Call.RequestID, Organization: c.Call.OrganizationID, Key: c.Call.KeyID, Plan: c.Call.Plan,
		Method: http.MethodPost, Endpoint: ContextPath, At: c.Call.RequestedAt, Done: c.At, Credits: c.Credits(),
		Used: metering.Used{Identities: c.Identities},
	}
	if c.Status == event.ContextFailed {
		return meter.Forgive(ctx, owed)
	}
	if owed.Credits > 0 {
		owed.Used.Groups = []string{"context"}
	}
	return meter.Charge(ctx, owed)
}

// GetContext is GET /v1/context/{request_id}.
func (s *Server) GetContext(ctx context.Context, request api.GetContextRequestObject) (api.GetContextResponseObject, error) {
	id := request.RequestId
	state, err := s.contexts.Get(ctx, s.organization(exchangeOf(ctx)), id)
	if err != nil {
		return nil, err
	}
	switch {
	case state == nil:
		return nil, &problem{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("there is no context call %s of this organization in the last %d hours: use the request_id of its 202, or its X-Request-Id",
				quote(id), int(event.ContextKept.Hours())),
		}
	case state.Status == event.ContextProcessing:
		return accepted(id)
	case state.Status == event.ContextFailed: // which it stays: to ask for it again is of no use
		return nil, &problem{
			status: state.Failure.Status,
			detail: fmt.Sprintf("this context call has failed, and a new one may not (its request_id is %s): %s", id, state.Failure.Detail),
		}
	}
	return outcome(state)
}

// outcome answers what came of a call.
func outcome(c *event.Context) (profiled, error) {
	if c.Status == event.ContextFailed {
		return profiled{}, &problem{status: c.Failure.Status, detail: c.Failure.Detail, retryAfter: retryAfter}
	}
	return profiled{status: http.StatusOK, body: answer(c.Profile), degraded: strings.Join(c.Degraded, ",")}, nil
}

func accepted(id string) (profiled, error) {
	body, err := json.Marshal(api.ContextAccepted{RequestId: id, Status: api.ContextAcceptedStatus(event.ContextProcessing)}, json.Deterministic(true))
	if err != nil {
		return profiled{}, fmt.Errorf("write context: %w", err)
	}
	return profiled{status: http.StatusAccepted, body: body}, nil
}

// uncounted stands for organization and key where nobody is counted.
const uncounted = "uncounted"

func (s *Server) organization(x *exchange) string {
	if s.cfg.Uncounted {
		return uncounted
	}
	return x.principal.Organization.ID
}

// contextTask reads a call of the context endpoint.
func (s *Server) contextTask(x *exchange, body *api.ContextRequest) (*event.ContextTask, time.Duration, error) {
	task := &event.ContextTask{
		Call: event.ContextCall{
			RequestID: x.id, OrganizationID: s.organization(x), KeyID: x.principal.Key.ID, Plan: x.principal.Organization.Plan,
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
		return nil, 0, invalidf("person must be a string or an object, not %s", kindName(kind))
	}
	if err := event.CheckPerson(body.Person); err != nil {
		return nil, 0, invalidf("person %s", err)
	}
	if body.Schema != nil {
		if _, err := custom.Parse("schema", *body.Schema); err != nil {
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
			return nil, 0, invalidf("response_timeout_sec is %s: it must be between 0 and %s", number(*t), number(event.MaxContextTimeout.Seconds()))
		}
		timeout = time.Duration(*t * float64(time.Second))
	}
	if u := body.WebhookUrl; u != nil {
		if err := s.checkWebhook(task.Call.OrganizationID, *u); err != nil {
			return nil, 0, err
		}
		task.Call.WebhookURL = *u
	}
	return task, timeout, nil
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// checkWebhook refuses an address to which nothing would be sent. The sender
// checks again when it dials.
func (s *Server) checkWebhook(organization, address string) error {
	if _, err := event.ParseEndpoint(organization, address); err != nil {
		return invalidf("webhook_url %s", strings.TrimPrefix(err.Error(), "webhook address "))
	}
	u, err := url.Parse(address)
	if err != nil {
		return invalidf("webhook_url is not a URL")
	}
	if strings.EqualFold(u.Scheme, "http") && len(s.cfg.WebhookAllow) == 0 {
		return invalidf("webhook_url must begin with https://")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil { // a name: what it stands for is seen when it is dialled
		if publicnet.IsPrivateName(u.Hostname()) && len(s.cfg.WebhookAllow) == 0 {
			return invalidf("webhook_url has a name of this machine or of a private network: give an address that is reached from the internet")
		}
		if isNumber(u.Hostname()) {
			return invalidf("webhook_url has a number for a host: write an address as four numbers with dots, or give a name")
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
		return invalidf("webhook_url has an address that is not public: give one that is reached from the internet")
	}
	if strings.EqualFold(u.Scheme, "http") {
		return invalidf("webhook_url must begin with https://")
	}
	return nil
}

// isNumber reports whether a host is an IPv4 address in a form that only some programs read: no top-level domain is a
// number.
func isNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// schemaProblem words what is wrong with a schema.
func schemaProblem(err error) error {
	var e *custom.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Unknown != "" {
		return invalidf("%s has the unknown member %s: %s", e.Path, quote(e.Unknown), nearest.Hint(e.Unknown, e.Known, "Known are "+strings.Join(e.Known, ", ")))
	}
	return invalidf("%s", e.Error())
}
