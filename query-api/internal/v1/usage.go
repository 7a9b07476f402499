package v1

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"muster/query-api/internal/api"
	"muster/schemas/event"
)

// GetUsage is GET /v1/usage.
func (s *Server) GetUsage(ctx context.Context, _ api.GetUsageRequestObject) (api.GetUsageResponseObject, error) {
	x := exchangeOf(ctx)
	organization := x.principal.Organization
	period := event.PeriodOf(s.now())
	totals, err := s.meter.Usage(ctx, organization.ID, period)
	if err != nil {
		return nil, err
	}
	begin, end, err := event.PeriodBounds(period)
	if err != nil {
		return nil, err
	}
	limits := organization.LimitsOf()
	count := func(used, limit int64) api.UsageCount {
		return api.UsageCount{Used: used, Limit: limit, Remaining: max(0, limit-used)}
	}
	out := api.Usage{
		OrganizationId: organization.ID, Plan: organization.Plan, RequestsPerMinute: limits.RequestsPerMinute,
		Period:   api.UsagePeriod{Name: period, Begin: begin, End: end},
		Requests: count(totals.Requests, limits.MonthlyRequests), Credits: count(totals.Credits, limits.Credits),
		Endpoints: make([]api.UsageLine, 0, len(totals.Lines)),
	}
	for _, l := range totals.Lines {
		line := api.UsageLine{Endpoint: l.Endpoint, Key: l.Key, Calls: l.Calls, Requests: l.Requests,
			Credits: l.Credits}
		if k, ok := s.accounts.Key(l.Key); ok && k.Name != "" {
			line.KeyName = &k.Name
		}
		out.Endpoints = append(out.Endpoints, line)
	}
	return encoded(out)
}

// VisitGetUsageResponse implements api.GetUsageResponseObject.
func (a answer) VisitGetUsageResponse(w http.ResponseWriter) error { return a.write(w) }

// GetUsageEvent is GET /v1/usage/{request_id}.
func (s *Server) GetUsageEvent(
	ctx context.Context, request api.GetUsageEventRequestObject,
) (api.GetUsageEventResponseObject, error) {
	id, err := uuid.Parse(request.RequestId)
	if err != nil || id.Version() != 7 {
		return nil, invalidf("request_id is not a request ID: give the X-Request-Id of a response")
	}
	sec, nsec := id.Time().UnixTime()
	u, err := s.store.Usage(ctx, exchangeOf(ctx).principal.Organization.ID, id.String(), time.Unix(sec, nsec))
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, &problem{
			status: http.StatusNotFound,
			detail: "no call of your organization with this request ID is in the ledger: it has calls that were " +
				"charged, could have been charged or were refused, a few seconds after their response",
		}
	}
	out := api.UsageEvent{
		RequestId: u.RequestID, At: u.At, Method: u.Method, Endpoint: u.Endpoint, Key: u.KeyID, Status: u.Status,
		Outcome: api.UsageEventOutcome(u.Outcome), Plan: u.Plan, Requests: u.Requests, Credits: u.Credits,
		DurationMs: float64(u.DurationMicros) / 1000,
	}
	if k, ok := s.accounts.Key(u.KeyID); ok && k.Name != "" {
		out.KeyName = &k.Name
	}
	return encoded(out)
}

// VisitGetUsageEventResponse implements api.GetUsageEventResponseObject.
func (a answer) VisitGetUsageEventResponse(w http.ResponseWriter) error { return a.write(w) }
