package readmodel

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/event"
)

// UsageTable is the read model of the ledger. UsageMonthly is a view of it: monthly usage by organization,
// key and endpoint.
const (
	UsageTable   = "usage_events"
	UsageMonthly = "usage_monthly"
)

// UsageBatch holds rows of the ledger for an insert. The zero value is empty.
type UsageBatch struct{ eventRows[usageRow] }

type usageRow struct {
	OrganizationID string    `ch:"organization_id"`
	Period         string    `ch:"period"`
	RequestID      string    `ch:"request_id"`
	KeyID          string    `ch:"key_id"`
	At             time.Time `ch:"at"`
	Method         string    `ch:"method"`
	Endpoint       string    `ch:"endpoint"`
	Status         uint16    `ch:"status"`
	Outcome        string    `ch:"outcome"`
	Plan           string    `ch:"plan"`
	Requests       int64     `ch:"requests"`
	Credits        int64     `ch:"credits"`
	DurationMicros int64     `ch:"duration_us"`
	Groups         []string  `ch:"groups"`
	Ver            uint8     `ch:"ver"`
	Position
}

// Add adds the row of an event.
func (b *UsageBatch) Add(u *event.Usage, at Position) {
	ver := uint8(2)
	if u.Outcome == event.OutcomeUnanswered {
		ver = 1
	}
	b.add(usageRow{
		OrganizationID: u.OrganizationID, Period: u.Period, RequestID: u.RequestID, KeyID: u.KeyID, At: u.At.UTC(),
		Method: u.Method, Endpoint: u.Endpoint, Status: uint16(max(0, min(u.Status, 999))), Outcome: string(u.Outcome),
		Plan: u.Plan, Requests: u.Requests, Credits: u.Credits, DurationMicros: u.DurationMicros,
		Groups: u.Groups, Ver: ver, Position: at,
	})
}

// InsertUsage writes a batch of the ledger. Like Insert it is idempotent for the same token and rows.
func InsertUsage(ctx context.Context, conn driver.Conn, token string, b *UsageBatch) error {
	return b.insert(ctx, conn, UsageTable, token)
}

// Parameters of the queries over the ledger.
const (
	ParameterPeriod       = "period"
	ParameterOrganization = "organization"
	ParameterNextPeriod   = "next_period"
	ParameterRequest      = "request" // a request ID
)

// UsageEventQuery returns the query for the event of a request in one of two periods, as [ScanUsageEvent] reads it.
func UsageEventQuery() string {
	return "SELECT key_id, at, period, method, endpoint, status, outcome, plan, requests, credits, duration_us FROM " +
		UsageTable + " WHERE organization_id = {" + ParameterOrganization + ":String} AND period IN ({" +
		ParameterPeriod + ":String}, {" + ParameterNextPeriod + ":String}) AND request_id = {" + ParameterRequest +
		":String} ORDER BY ver DESC LIMIT 1"
}

// ScanUsageEvent reads a row of UsageEventQuery.
func ScanUsageEvent(rows driver.Rows) (event.Usage, error) {
	var u event.Usage
	var status uint16
	var outcome string
	err := rows.Scan(&u.KeyID, &u.At, &u.Period, &u.Method, &u.Endpoint, &status, &outcome, &u.Plan, &u.Requests,
		&u.Credits, &u.DurationMicros)
	u.Status, u.Outcome = int(status), event.Outcome(outcome)
	return u, err
}

// UsageSum is a month's usage of one organization, key and endpoint.
type UsageSum struct {
	Organization string `ch:"organization_id"`
	Key          string `ch:"key_id"`
	Endpoint     string `ch:"endpoint"`
	// Calls is the number of answered calls.
	Calls    uint64    `ch:"calls"`
	Requests int64     `ch:"requests"`
	Credits  int64     `ch:"credits"`
	LastAt   time.Time `ch:"last_at"`
}

// OrganizationUsageQuery returns the query for the usage of one organization in a period.
func OrganizationUsageQuery() string {
	return "SELECT organization_id, key_id, endpoint, calls, requests, credits, last_at FROM " + UsageMonthly +
		" WHERE period = {" + ParameterPeriod + ":String} AND organization_id = {" + ParameterOrganization +
		":String} ORDER BY endpoint, key_id"
}

// LastUsedQuery returns the query for the last use of each key of an organization.
func LastUsedQuery() string {
	return "SELECT key_id, max(at) FROM " + UsageTable + " WHERE organization_id = {" + ParameterOrganization +
		":String} GROUP BY key_id"
}

// UsageOffsetsQuery returns the query for the offset after the last one with a row, by partition of the
// ledger's topic. The projector inserts a partition's events in order, so everything before is in the read
// model. The log must be the one that the rows were built from.
func UsageOffsetsQuery() string {
	return "SELECT partition, max(offset) + 1 FROM " + UsageTable + " GROUP BY partition"
}

// countsAsCall selects answered calls, and calls rejected for lack of credits that count as monthly requests.
const countsAsCall = " AND (outcome IN ('charged', 'free', 'failed') OR requests > 0)"

// UsageBalancesQuery returns the query for the usage that counts in a period, by organization, key and
// endpoint. It excludes the request ids in the column request_id of the external table without, unless
// without is empty.
func UsageBalancesQuery(without string) string {
	where := ""
	if without != "" {
		where = " AND request_id NOT IN (SELECT request_id FROM " + without + ")"
	}
	return "SELECT organization_id, key_id, endpoint, count(), sum(requests), sum(credits) FROM " + UsageTable +
		" FINAL WHERE period = {" + ParameterPeriod + ":String}" + countsAsCall + where +
		" GROUP BY organization_id, key_id, endpoint"
}

// UsageRowsQuery returns the query for a period of the ledger, each request once.
func UsageRowsQuery() string {
	return "SELECT request_id, organization_id, outcome, requests, credits FROM " + UsageTable +
		" FINAL WHERE period = {" + ParameterPeriod + ":String}"
}

// ParameterRequests is a list of request ids, written by FormatStrings.
const ParameterRequests = "requests"

// UsageRequestsQuery returns the query for the request ids of calls that the ledger has.
func UsageRequestsQuery() string {
	return "SELECT DISTINCT request_id FROM " + UsageTable + " WHERE organization_id = {" + ParameterOrganization +
		":String} AND period = {" + ParameterPeriod +
		":String} AND request_id IN {" + ParameterRequests + ":Array(String)}" + countsAsCall
}
