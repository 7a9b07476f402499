package queryapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// rowsOf returns so many rows of the people of bulkPeople, in turn.
func rowsOf(rows, people int) string {
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "{\"reference\":\"r%d\",\"codehost\":\"user%d\"}\n", i, i%people)
	}
	return b.String()
}

// requireAllRows checks that the results have every row once, in order.
func (f *fixture) requireAllRows(id string, rows, people int) {
	f.t.Helper()
	lines := f.lines(id)
	require.Len(f.t, lines, rows)
	for i, line := range lines {
		require.Equal(f.t, fmt.Sprintf("r%d", i), line["reference"])
		person := line["person"].(map[string]any)["codehost"].(map[string]any)
		require.Equal(f.t, fmt.Sprintf("user%d", i%people), person["codehost_username"])
	}
}

func TestBulk_ErasedPersonIsAbsentFromResults(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	bulkPeople(f, 3)
	f.insert(record.KindCodehostPerson, codehostPerson(9, "team", "2026-01-01",
		`"commits":[{"sha":"ab12","author_date":"2026-02-03","author_email":"user1@people.example","message":"more"}]`))
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, rowsOf(3, 3)+`{"codehost":"team"}`, nil))
	f.finished(id, event.BulkDone)
	require.Contains(t, f.get("/v1/bulk/"+id+"/results").body, "user1@people.example")

	erase(t, set, suppress.Email, "user1@people.example")
	lines := f.lines(id)
	for i, found := range []bool{true, false, true, false} {
		require.Equal(t, found, lines[i]["miss_reason"] == nil, "row %d: %v", i, lines[i])
	}
	require.Equal(t, map[string]any{"reference": "r1", "websets_matched": []any{}, "person": map[string]any{},
		"miss_reason": "not_found"}, lines[1], "like a person who was never known")
	require.NotContains(t, f.get("/v1/bulk/"+id+"/results").body, "user1")

	// The eraser finds the rows by the hashes in them, and deletes them.
	var content, subjects string
	require.NoError(t, f.conn.QueryRow(t.Context(), "SELECT sealed, subjects FROM bulk_rows "+
		"WHERE kind = 'answer' AND number = 1").Scan(&content, &subjects))
	require.True(t, set.Stored([]byte(subjects)))
	require.NotContains(t, content, "user1", "content is encrypted")
	require.NoError(t, f.conn.Exec(t.Context(), "DELETE FROM bulk_rows WHERE kind = 'answer' AND number = 1"))
	require.Equal(t, lines, f.lines(id))
	require.EqualValues(t, 4, f.get("/v1/bulk/" + id).json()["done"])
}

func TestBulk_FinishedJobIsDeliveredOnce(t *testing.T) {
	f := start(t, nil)
	w := startContextWorker(f, func(event.ContextTask) *event.Context { return nil })
	bulkPeople(f, 1)
	address := "https://hooks.example.org/muster?token=x"
	id := f.accepted(f.submit("operation=person_enrich&webhook_url="+url.QueryEscape(address), ndjsonType, rowsOf(2, 1),
		nil))
	task := w.delivery(id)
	require.Equal(t, address, task.URL)
	require.Equal(t, f.organization.ID, task.OrganizationID)
	job := f.get("/v1/bulk/" + id).json()
	require.Equal(t, event.BulkDone, job["status"])
	want, err := json.Marshal(job, json.Deterministic(true))
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(task.Body))
}

func TestBulk_DiscoversRows(t *testing.T) {
	f := start(t, nil)
	startWorker(f, func(task event.DiscoveryTask) *event.Discovery {
		if task.Input.Username == "missing" {
			return &event.Discovery{Socials: []event.Social{{Account: task.Input, Confidence: 1}}}
		}
		return found(task)
	})
	body := "{\"reference\":\"a\",\"codehost\":\"juno\"}\n{\"codehost\":\"missing\"}\n" +
		"{\"codehost\":\"x\",\"network\":\"y\"}\n" +
		"{\"codehost\":\"juno\",\"dry_run\":true}\n"
	id := f.accepted(f.submit("operation=discover", ndjsonType, body, nil))
	require.EqualValues(t, 1, f.finished(id, event.BulkDone)["credits"])
	lines := f.lines(id)
	single := f.post("/v1/person/discover", `{"codehost":"juno"}`).json()
	require.Equal(t, single["socials"], lines[0]["socials"])
	require.Equal(t, "a", lines[0]["reference"])
	require.Equal(t, "not_found", lines[1]["miss_reason"])
	require.Contains(t, lines[2]["detail"], "2 identifiers are given")
	require.Contains(t, lines[3]["detail"], "dry_run is a parameter of the job")
	f.spends(2)

	id = f.accepted(f.submit("operation=discover&fields=network.username,network.confidence,codehost.link", csvType,
		"codehost,max_age_days\njuno,0\njuno,soon\n", nil))
	f.finished(id, event.BulkDone)
	got := f.get("/v1/bulk/" + id + "/results").body
	require.Contains(t, got, "reference,detail,miss_reason,network.username,network.confidence,codehost.link\n1,,,")
	require.Contains(t, got, "max_age_days must be an integer")
}

func TestBulk_EnrichesCompanies(t *testing.T) {
	f := start(t, nil)
	examplePeople(f)
	id := f.accepted(f.submit("operation=company_enrich&fields=profile.name,company_id", csvType,
		"company_id,network_slug,website\nc_71,,\n,missing,https://missing.example\n", nil))
	require.EqualValues(t, 1, f.finished(id, event.BulkDone)["credits"])
	lines := strings.Split(f.get("/v1/bulk/"+id+"/results").body, "\n")
	require.Equal(t, "2,,not_found,,", lines[2])
	require.True(t, strings.HasPrefix(lines[1], "1,,,") && strings.HasSuffix(lines[1], ",c_71"), lines[1])
}

func TestBulk_DeactivatedOrganizationsJobFails(t *testing.T) {
	var blocked atomic.Bool
	blocked.Store(true)
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		d.ClickHouse = &answerGate{Conn: d.ClickHouse, blocked: &blocked}
	})
	bulkPeople(f, 1)
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, rowsOf(250, 1), nil))
	_, err := f.accounts.SetActive(t.Context(), f.organization.ID, false)
	require.NoError(t, err)
	waitForStatus(t, http.StatusForbidden, func() response { return f.get("/v1/usage") })
	polltest.Until(t, waitTimeout, func() bool {
		var failed uint64
		require.NoError(t, f.conn.QueryRow(t.Context(),
			"SELECT count() FROM bulk_rows WHERE kind = 'job' AND number = 1").Scan(&failed))
		return failed > 0
	}, "the job has not failed")
	blocked.Store(false)
	_, err = f.accounts.SetActive(t.Context(), f.organization.ID, true)
	require.NoError(t, err)
	waitForStatus(t, http.StatusOK, func() response { return f.get("/v1/usage") })
	job := f.finished(id, event.BulkFailed)
	require.Equal(t, "the organization was deactivated", job["detail"])
	usage := f.get("/v1/usage").json()["credits"].(map[string]any)
	require.Zero(t, usage["used"])
	require.Less(t, len(f.lines(id)), 250, "what was answered is returned")
	// Its credits are free again.
	limit := int64(usage["limit"].(float64))
	dry := f.submit("operation=person_enrich&dry_run=true", ndjsonType, rowsOf(1, 1), nil).json()
	require.EqualValues(t, limit, dry["credits_remaining"])
}

// answerGate fails reads of answers while it is blocked.
type answerGate struct {
	driver.Conn
	blocked *atomic.Bool
}

func (g *answerGate) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if g.blocked.Load() && strings.Contains(query, "codehost_answers") {
		return nil, errors.New("the connection broke")
	}
	return g.Conn.Query(ctx, query, args...)
}

// Processes end in the middle of a job, one after the other. Their successors continue it.
func TestBulk_SuccessorsFinishTheJobOfStoppedProcesses(t *testing.T) {
	rows := 3000
	if testing.Short() {
		rows = 1200
	}
	const people = 40
	var cfg queryapi.Config
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) { cfg, deps = *c, *d })
	bulkPeople(f, people)
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = 1_000_000, 1_000_000 })
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, rowsOf(rows, people), nil))
	for stop := range 3 {
		polltest.Until(t, waitTimeout, func() bool {
			return f.get("/v1/bulk/" + id).json()["done"].(float64) >= float64(rows*stop/4+1)
		}, "the job makes no progress")
		f.stop()
		deps.Registerer = nil
		next, err := queryapi.New(t.Context(), cfg, deps)
		require.NoError(t, err)
		f.service = next
		f.stop = run(t, next)
	}
	f.finished(id, event.BulkDone)
	f.requireAllRows(id, rows, people)
	f.spends(int64(rows))
	charged := make(map[string]int64)
	for _, u := range f.ledger() {
		if u.Endpoint == "/v1/bulk" {
			charged[u.RequestID] = u.Credits
		}
	}
	require.Len(t, charged, rows, "each row has a usage id of its own")
	for usage, credits := range charged {
		require.EqualValues(t, 1, credits, usage)
	}
}

// A task that comes again, as after the death of a process between an answer and its charge, charges nothing twice.
func TestBulk_RepeatedChunkIsChargedOnce(t *testing.T) {
	f := start(t, nil)
	bulkPeople(f, 3)
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, rowsOf(120, 3), nil))
	f.finished(id, event.BulkDone)
	f.spends(120)
	before := len(f.ledger())
	writer := bus.NewWriter(f.bus)
	t.Cleanup(func() { require.NoError(t, writer.Close()) })
	for range 2 {
		for chunk := range 2 {
			task, err := json.Marshal(event.BulkChunkTask{JobID: id, At: time.Now(), Chunk: chunk})
			require.NoError(t, err)
			require.NoError(t, bus.WriteAll(t.Context(), writer, []kafka.Message{
				{Topic: event.TopicBulkChunkTask, Key: fmt.Append(nil, id, chunk), Value: task},
				{Topic: event.TopicBulkJobTask, Key: []byte(id), Value: task},
				{Topic: event.TopicBulkChunkTask, Value: []byte("not a task")},
			}))
		}
	}
	other := f.accepted(f.submit("operation=person_enrich", ndjsonType, rowsOf(800, 3), nil))
	f.finished(other, event.BulkDone) // its chunks are behind the repeated ones in every partition
	f.spends(920)
	require.Len(t, f.ledger(), before+800)
	f.requireAllRows(id, 120, 3)
}
