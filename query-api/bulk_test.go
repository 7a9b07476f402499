package queryapi_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

const (
	ndjsonType = "application/x-ndjson"
	csvType    = "text/csv"
)

// submit submits a job and returns the response.
func (f *fixture) submit(query, kind, body string, header map[string]string) response {
	f.t.Helper()
	all := map[string]string{"Content-Type": kind}
	for name, value := range header {
		all[name] = value
	}
	return f.do(http.MethodPost, "/v1/bulk?"+query, body, all)
}

// accepted returns the job_id of a 202.
func (f *fixture) accepted(r response) string {
	f.t.Helper()
	require.Equal(f.t, http.StatusAccepted, r.status, r.body)
	var a struct {
		JobID string `json:"job_id"`
	}
	require.NoError(f.t, json.Unmarshal([]byte(r.body), &a))
	return a.JobID
}

// finished waits until a job has a status and returns it.
func (f *fixture) finished(id, status string) map[string]any {
	f.t.Helper()
	var job map[string]any
	polltest.Until(f.t, waitTimeout, func() bool {
		job = f.get("/v1/bulk/" + id).json()
		return job["status"] == status
	}, "the job is %v", func() any { return job })
	return job
}

// lines returns the NDJSON results of a job.
func (f *fixture) lines(id string) []map[string]any {
	f.t.Helper()
	got := f.get("/v1/bulk/" + id + "/results")
	require.Equal(f.t, http.StatusOK, got.status, got.body)
	require.Equal(f.t, ndjsonType, got.header.Get("Content-Type"))
	var out []map[string]any
	for line := range strings.Lines(got.body) {
		var v map[string]any
		require.NoError(f.t, json.Unmarshal([]byte(line), &v), line)
		out = append(out, v)
	}
	return out
}

// bulkPeople inserts n people of the code host: user0, user1, ...
func bulkPeople(f *fixture, n int) {
	f.t.Helper()
	people := make([]string, n)
	for i := range people {
		people[i] = codehostPerson(i+1, fmt.Sprintf("user%d", i), "2026-01-01",
			fmt.Sprintf(`"full_name":"Person %d","emails":["user%d@people.example"]`, i, i))
	}
	f.insert(record.KindCodehostPerson, people...)
}

func TestBulk_AnswersEachRowInOrderAndChargesMatches(t *testing.T) {
	f := start(t, nil)
	bulkPeople(f, 230)
	var body strings.Builder
	for i := range 250 {
		fmt.Fprintf(&body, "{\"reference\":\"r%d\",\"codehost\":\"user%d\"}\n", i, i)
	}
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, body.String(), nil))
	job := f.finished(id, event.BulkDone)
	require.EqualValues(t, 250, job["rows"])
	require.EqualValues(t, 250, job["done"])
	require.EqualValues(t, 230, job["credits"])
	f.spends(230)

	lines := f.lines(id)
	require.Len(t, lines, 250)
	for i, line := range lines {
		require.Equal(t, fmt.Sprintf("r%d", i), line["reference"])
		if i < 230 {
			person := line["person"].(map[string]any)["codehost"].(map[string]any)
			require.Equal(t, fmt.Sprintf("user%d", i), person["codehost_username"])
			continue
		}
		require.Equal(t, map[string]any{}, line["person"])
		require.Equal(t, "not_found", line["miss_reason"])
	}
	single := f.enrich(`{"codehost":"user7"}`)
	require.Equal(t, single["person"], lines[7]["person"], "a row is answered as a call is")

	usage := f.get("/v1/usage").json()
	require.EqualValues(t, 251, usage["requests"].(map[string]any)["used"], "each row counts as a request")
}

func TestBulk_InvalidRowIsAnErrorInItsPlace(t *testing.T) {
	f := start(t, nil)
	bulkPeople(f, 2)
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, strings.Join([]string{
		`{"codehost":"user0"}`, `{"reference":"a","codehst":"user1"}`, `not json`, `["user1"]`, `{"reference":7}`,
		`{"reference":"b"}`, "\xff\xfe", `{"codehost":"user0","codehost":"user1"}`, ``,
		`{"reference":"c","codehost":"user1","max_credits":1}`, `  {"reference":"d","codehost":"user1"}  `,
	}, "\n"), nil))
	job := f.finished(id, event.BulkDone)
	require.EqualValues(t, 10, job["rows"], "empty lines are not rows")
	require.EqualValues(t, 2, job["credits"])
	lines := f.lines(id)
	for i, want := range []struct{ reference, detail string }{
		{"1", ""}, {"a", `did you mean "codehost"`}, {"3", "not a valid JSON object"}, {"4", "not a JSON object"},
		{"5", "reference must be a string"}, {"b", "no identifier is given"}, {"7", "not valid UTF-8"},
		{"8", "not a valid JSON object"}, {"c", `unknown field "max_credits"`}, {"d", ""},
	} {
		require.Equal(t, want.reference, lines[i]["reference"])
		if want.detail == "" {
			require.NotContains(t, lines[i], "detail")
			continue
		}
		require.Contains(t, lines[i]["detail"], want.detail)
	}
	f.spends(2)
	require.EqualValues(t, 2, f.get("/v1/usage").json()["requests"].(map[string]any)["used"],
		"invalid rows do not count as requests")
}

func TestBulk_CSVInAndOut(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(1, "octavia", "2026-01-01",
		`"full_name":"=HYPERLINK(\"x\")","bio":"line one\nline two","emails":["o@people.example","p@people.example"],`+
			`"followers":12345678901234567`))
	query := "operation=person_enrich&fields=" + url.QueryEscape("codehost.full_name,codehost.bio,codehost.emails,"+
		"codehost.followers,codehost.codehost.user_id,codehost.repos.name,network")
	id := f.accepted(f.submit(query, "text/csv; charset=UTF-8", "\ufeffreference,email,websets\r\n"+
		"+1,o@people.example,codehost;network\r\n\"quoted \"\"one\"\"\",missing@people.example,codehost;network\r\n"+
		"short\r\n,not an address,\r\n,o@people.example,codehost\r\n", nil))
	require.EqualValues(t, 1, f.finished(id, event.BulkDone)["credits"])
	got := f.get("/v1/bulk/" + id + "/results")
	require.Equal(t, "text/csv; charset=utf-8", got.header.Get("Content-Type"))
	records, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	require.NoError(t, err, got.body)
	require.Equal(t, []string{"reference", "detail", "miss_reason", "codehost.full_name", "codehost.bio", "codehost.emails",
		"codehost.followers", "codehost.codehost.user_id", "codehost.repos.name", "network"}, records[0])
	require.Equal(t, []string{"'+1", "", "", `'=HYPERLINK("x")`, "line one\nline two", "o@people.example;p@people.example",
		"12345678901234567", "1", "", ""}, records[1])
	require.Equal(t, []string{`quoted "one"`, "", "not_found"}, records[2][:3])
	require.Equal(t, "3", records[3][0])
	require.Contains(t, records[3][1], "the row has 1 cells, and the header has 3")
	require.Contains(t, records[4][1], "email")
	require.Equal(t, "fields names network, which is not requested: add network to websets", records[5][1])
	require.Len(t, records, 6)
}

func TestBulk_RejectsUploadsAsAWhole(t *testing.T) {
	f := start(t, nil)
	rows := func(n int) string { return strings.Repeat("{\"codehost\":\"a\"}\n", n) }
	for name, c := range map[string]struct {
		query, kind, body string
		status            int
		detail            string
	}{
		"no operation":      {"", ndjsonType, rows(1), 400, `"operation" is missing`},
		"unknown operation": {"operation=enrich", ndjsonType, rows(1), 400, "unknown operation"},
		"unknown parameter": {"operation=discover&field=x", ndjsonType, rows(1), 400, `did you mean "fields"`},
		"no rows":           {"operation=discover", ndjsonType, " \n\n", 400, "no rows"},
		"no rows of CSV":    {"operation=discover", csvType, "network\n", 400, "no rows"},
		"empty CSV":         {"operation=discover", csvType, "", 400, "no rows"},
		"too many rows": {"operation=person_enrich", ndjsonType, rows(event.MaxBulkRows + 1),
			400, "more than 100000"},
		"row too large": {"operation=person_enrich", ndjsonType, rows(1) + strings.Repeat("x", 10<<10+1),
			400, "line 2: the row is larger than 10240 bytes"},
		"cell never ends": {"operation=person_enrich", csvType, "codehost\n\"" + strings.Repeat("x\n", 1<<20),
			400, "larger than 10240 bytes"},
		"quote in a cell": {"operation=person_enrich", csvType, "codehost\na\"b\n",
			400, "line 2: the CSV is malformed"},
		"unknown column":     {"operation=person_enrich", csvType, "codehst\na\n", 400, `did you mean "codehost"`},
		"repeated column":    {"operation=person_enrich", csvType, "email,email\na,b\n", 400, "appears twice"},
		"other operation":    {"operation=company_enrich", csvType, "codehost\na\n", 400, "unknown column"},
		"JSON":               {"operation=person_enrich", "application/json", "{}", 415, "NDJSON or CSV"},
		"compressed":         {"operation=person_enrich", ndjsonType, rows(1), 415, "Content-Encoding"},
		"unknown field path": {"operation=person_enrich&fields=name", ndjsonType, rows(1), 400, "there is no field"},
		"bad field path":     {"operation=company_enrich&fields=a..b", ndjsonType, rows(1), 400, "fields[0]"},
		"unknown social": {"operation=discover&fields=network.name", ndjsonType, rows(1),
			400, "there is no field"},
		"private webhook": {"operation=person_enrich&webhook_url=" + url.QueryEscape("https://127.0.0.1/"), ndjsonType,
			rows(1), 400, "webhook_url"},
		"costs too much": {"operation=person_enrich&max_credits=1", ndjsonType, rows(2),
			400, "max_credits is 1, and the call may cost 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			header := map[string]string{}
			if name == "compressed" {
				header["Content-Encoding"] = "gzip"
			}
			got := f.submit(c.query, c.kind, c.body, header)
			require.Equal(t, c.status, got.status, got.body)
			require.Contains(t, got.detail(), c.detail)
		})
	}
	require.Zero(t, f.credits())
}

// useSmallPlan makes further calls for an organization with few credits and monthly requests.
func (f *fixture) useSmallPlan(credits, requests int64) {
	f.t.Helper()
	limits := event.DefaultLimits()
	limits.Credits, limits.MonthlyRequests = credits, requests
	o, err := f.accounts.CreateOrganizationOn(f.t.Context(), "Small", queryapi.Plan{Name: "small", Limits: limits})
	require.NoError(f.t, err)
	f.organization = o
	f.useNewKey()
}

func TestBulk_ReservesAndReleasesCredits(t *testing.T) {
	f := start(t, nil)
	bulkPeople(f, 1)
	f.useSmallPlan(150, 1000)

	rows := func(n int) string { return strings.Repeat("{\"codehost\":\"user0\"}\n", n) }
	dry := f.submit("operation=person_enrich&dry_run=true", ndjsonType, rows(151), nil).json()
	require.EqualValues(t, 151, dry["max_credits"])
	got := f.submit("operation=person_enrich", ndjsonType, rows(151), nil)
	require.Equal(t, http.StatusTooManyRequests, got.status, got.body)
	require.Contains(t, got.detail(),
		"150 credits are held, and this call needs up to 151: reduce the rows to at most 150")
	got = f.submit("operation=person_enrich", ndjsonType, strings.Repeat("{}\n", 1001), nil)
	require.Equal(t, http.StatusTooManyRequests, got.status, got.body)

	misses := strings.Repeat("{\"codehost\":\"missing\"}\n", 149)
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, rows(1)+misses, nil))
	f.finished(id, event.BulkDone)
	f.spends(1)
	require.EqualValues(t, 149, f.get("/v1/usage").json()["credits"].(map[string]any)["remaining"],
		"what the misses did not use is released")
	id = f.accepted(f.submit("operation=person_enrich", ndjsonType, rows(149), nil))
	f.finished(id, event.BulkDone)
	f.spends(150)
}

func TestBulk_IdempotencyKeyStandsForTheUploadAndItsParameters(t *testing.T) {
	f := start(t, nil)
	bulkPeople(f, 1)
	key := idempotent("job")
	body := "{\"codehost\":\"user0\"}\n"
	first := f.submit("operation=person_enrich", ndjsonType, body, key)
	id := f.accepted(first)
	again := f.submit("operation=person_enrich", ndjsonType, body, key)
	require.Equal(t, id, f.accepted(again))
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	for _, other := range []response{
		f.submit("operation=person_enrich", ndjsonType, body+body, key),
		f.submit("operation=company_enrich", ndjsonType, body, key),
		f.submit("operation=person_enrich", csvType, "codehost\nuser0\n", key),
	} {
		require.Equal(t, http.StatusUnprocessableEntity, other.status, other.body)
	}
	f.finished(id, event.BulkDone)
	f.spends(1)
	require.NotEqual(t, id, f.accepted(f.submit("operation=person_enrich", ndjsonType, body, nil)), "without a key")
	f.spends(2)
}

// The submission was cut off after the job began: the repetition returns the same job, even if there are no credits for
// a second one, and nothing is held or charged twice.
func TestBulk_RepeatedSubmissionOfARunningJobReservesNothing(t *testing.T) {
	f := start(t, nil)
	bulkPeople(f, 1)
	f.useSmallPlan(3, 5)
	admin := &kafka.Client{Addr: kafka.TCP(f.bus.Brokers...), Timeout: waitTimeout, Transport: &kafka.Transport{}}
	res, err := admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{event.TopicBulkJobTask}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[event.TopicBulkJobTask])

	body := strings.Repeat("{\"codehost\":\"user0\"}\n", 3)
	key := idempotent("job")
	first := f.submit("operation=person_enrich", ndjsonType, body, key)
	require.Equal(t, http.StatusServiceUnavailable, first.status, first.body)
	require.Contains(t, first.detail(), "it is not known whether this job was accepted")
	held := f.submit("operation=person_enrich", ndjsonType, "{\"codehost\":\"user0\"}\n", nil)
	require.Equal(t, http.StatusTooManyRequests, held.status, "all credits are held")

	require.NoError(t, bus.EnsureTopics(t.Context(), f.bus, []bus.Topic{{Name: event.TopicBulkJobTask, Partitions: 1}}))
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, body, key))
	require.Contains(t, first.detail(), id)
	f.finished(id, event.BulkDone)
	f.spends(3)
	require.Equal(t, http.StatusTooManyRequests,
		f.submit("operation=person_enrich", ndjsonType, body, nil).status, "a new job")
}

func TestBulk_NeedsTheScopeOfItsOperation(t *testing.T) {
	f := start(t, nil)
	all := f.key
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, "{}\n", nil))
	f.key = f.newKey(queryapi.KeyOptions{Name: "discover", Scopes: []string{event.ScopeDiscover}})
	waitForStatus(t, http.StatusForbidden, func() response { return f.get("/v1/bulk/" + id) })
	require.Contains(t, f.get("/v1/bulk/"+id+"/results").detail(), "lacks the scope enrich")
	got := f.submit("operation=company_enrich", ndjsonType, "{}\n", nil)
	require.Equal(t, http.StatusForbidden, got.status)
	require.Contains(t, got.detail(), "lacks the scope enrich")
	require.Equal(t, http.StatusBadRequest, f.submit("operation=other", ndjsonType, "{}\n", nil).status)

	other, err := f.accounts.CreateOrganization(t.Context(), "Other", "development")
	require.NoError(t, err)
	f.organization = other
	f.key = f.newKey(queryapi.KeyOptions{Name: "other"})
	waitForStatus(t, http.StatusNotFound, func() response { return f.get("/v1/bulk/" + id) })
	f.key = all
	require.Equal(t, http.StatusNotFound, f.get("/v1/bulk/unknown").status)
	require.Equal(t, http.StatusNotFound, f.get("/v1/bulk/unknown/results").status)
	require.Equal(t, http.StatusNotFound, f.get("/v1/bulk/a.b%20c").status)
	f.finished(id, event.BulkDone)
}
