package e2e_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
	"muster/query-api/client"
)

// bulkWorld ingests n accounts of the code host, user0, user1, ..., with an e-mail address each.
func bulkWorld(t *testing.T, p *platform, n int) {
	t.Helper()
	var people bytes.Buffer
	for i := range n {
		fmt.Fprintf(&people, `{"user_id":%d,"codehost_username":"user%d","full_name":"Person %d",`+
			`"emails":["user%d@people.example"],"bio":"writes software in place %d",`+
			`"last_updated":"2026-01-01"}`+"\n", i+1, i, i, i, i)
	}
	path := filepath.Join(t.TempDir(), "people.ndjson")
	require.NoError(t, os.WriteFile(path, people.Bytes(), 0o600))
	p.muster(t, "ingest", oracle.CodehostPerson, path)
	p.muster(t, "status", "--wait", "--timeout", "2m")
}

// bulkClient returns a client that survives restarts of the platform.
func bulkClient(t *testing.T, p *platform) *client.Client {
	t.Helper()
	api, err := client.New(p.BaseURL, p.APIKey, client.Options{Retries: 100, MaxWait: 2 * time.Second})
	require.NoError(t, err)
	return api
}

// A job runs while the engine and `muster up` are killed with SIGKILL. Afterwards every row has its answer, once and in
// order, and is charged once.
//
// MUSTER_E2E_BULK_ROWS is the number of rows (make test-bulk: 100,000).
func TestBulk_KillsLoseNoRowAndChargeNoneTwice(t *testing.T) {
	t.Parallel()
	rows := 20_000
	if testing.Short() {
		rows = 4000
	}
	rows = number(t, "MUSTER_E2E_BULK_ROWS", rows)
	const people = 500
	dataDir := newDataDir(t)
	ports := fixedPorts(t)
	p := start(t, dataDir, append(ports, "--no-sample")...)
	bulkWorld(t, p, people)
	api := bulkClient(t, p)

	// Every tenth row is unknown, every hundredth is invalid.
	var upload bytes.Buffer
	matches := int64(0)
	for i := range rows {
		switch {
		case i%100 == 50:
			fmt.Fprintf(&upload, "{\"reference\":\"r%d\",\"codehst\":\"user1\"}\n", i)
		case i%10 == 0:
			fmt.Fprintf(&upload, "{\"reference\":\"r%d\",\"codehost\":\"missing%d\"}\n", i, i)
		default:
			fmt.Fprintf(&upload, "{\"reference\":\"r%d\",\"email\":\"user%d@people.example\"}\n", i, i%people)
			matches++
		}
	}
	accepted, err := api.SubmitBulk(t.Context(), upload.Bytes(), client.BulkOptions{
		Operation: client.BulkOperationPersonEnrich,
	})
	require.NoError(t, err)
	id := accepted.Value.JobID

	for i, victim := range []string{"up", "engine", "up"} {
		eventually(t, 5*time.Minute, func() (bool, string) {
			job, err := api.GetBulk(t.Context(), id)
			require.NoError(t, err)
			return job.Value.Done > rows*(i+1)/5, fmt.Sprintf("the job has %d of %d rows", job.Value.Done, rows)
		})
		p = kill(t, p, victim, "a part of the job", ports)
	}
	job, err := api.WaitBulk(t.Context(), id, nil)
	require.NoError(t, err)
	require.Equal(t, client.BulkJobStatusDone, job.Value.Status, job.Value.Detail)
	require.Equal(t, rows, job.Value.Done)
	require.Equal(t, matches, job.Value.Credits)

	i := 0
	for result, err := range api.BulkResults(t.Context(), id) {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("r%d", i), result.Reference)
		switch {
		case i%100 == 50:
			require.Contains(t, result.Detail, "codehost")
		case i%10 == 0:
			require.Equal(t, "not_found", result.MissReason)
		default:
			require.Equal(t, fmt.Sprintf("user%d", i%people), result.Person.Codehost.CodehostUsername)
		}
		i++
	}
	require.Equal(t, rows, i, "rows with a result")

	used, err := api.GetUsage(t.Context())
	require.NoError(t, err)
	line := used.Value.Endpoints[slices.IndexFunc(used.Value.Endpoints, func(l client.UsageLine) bool {
		return l.Endpoint == "/v1/bulk"
	})]
	require.Equal(t, []int64{int64(rows), matches, int64(rows - rows/100)},
		[]int64{line.Calls, line.Credits, line.Requests}, "calls, credits and requests of the balance")
	p.muster(t, "status", "--wait", "--timeout", "2m")
	eventually(t, time.Minute, func() (bool, string) {
		got := p.sql(t, "SELECT count(), uniqExact(request_id), sum(credits), sum(requests), max(credits) "+
			"FROM usage_events FINAL WHERE endpoint = '/v1/bulk' AND outcome IN ('charged', 'free')")
		want := fmt.Sprintf("%d\t%d\t%d\t%d\t1", rows, rows, matches, int64(rows-rows/100))
		return got[0] == want, fmt.Sprintf("the ledger has %s and not %s", got[0], want)
	})
	p.stop(t)
}

// `muster enrich` adds columns to a CSV file, and continues the same job when it is repeated.
func TestEnrich_AddsColumnsToCSV(t *testing.T) {
	t.Parallel()
	p := start(t, newDataDir(t), "--no-sample")
	bulkWorld(t, p, 20)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	var file strings.Builder
	file.WriteString("\ufeffName,Work e-mail\r\n")
	for i := range 130 {
		fmt.Fprintf(&file, "\"Row, %d\",user%d@people.example\r\n", i, i)
	}
	file.WriteString("broken,not an address\r\nshort\r\n")
	require.NoError(t, os.WriteFile(in, []byte(file.String()), 0o600))
	args := []string{"enrich", in, "--column", "Work e-mail=email", "--fields", "codehost.full_name,codehost.user_id",
		"--output", out}
	for range 2 {
		r, err := muster(t.Context(), p.dataDir, args...)
		require.NoError(t, err)
		require.Equal(t, 1, r.status, r.errors)
		require.Contains(t, r.errors, "2 rows are invalid")
		require.Contains(t, r.errors, "enriching")
		raw, err := os.ReadFile(out)
		require.NoError(t, err)
		records, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, []string{"Name", "Work e-mail", "detail", "miss_reason", "codehost.full_name", "codehost.user_id"},
			records[0])
		require.Len(t, records, 133)
		require.Equal(t, []string{"Row, 7", "user7@people.example", "", "", "Person 7", "8"}, records[8])
		require.Equal(t, []string{"Row, 129", "user129@people.example", "", "not_found", "", ""}, records[130])
		require.Contains(t, records[131][2], "email")
		require.Equal(t, []string{"short", "",
			"no identifier is given: send at least one of codehost, network_username, email", "", "", ""}, records[132])
		used, err := bulkClient(t, p).GetUsage(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 20, used.Value.Credits.Used, "repeating it charges nothing")
	}
	for problem, args := range map[string][]string{
		`the file has no column "Email"`:        {in, "--column", "Email=email"},
		`"Name" is not a field`:                 {in, "--column", "Name"},
		"unknown operation":                     {in, "--column", "Name", "--operation", "person-enrich"},
		"no such file":                          {in + "x", "--column", "Name=email"},
		`required flag(s) "column" not set`:     {in},
		"MUSTER_API_KEY is empty":               {in, "--column", "Name=email", "--url", "http://127.0.0.1:1"},
		"max_credits is 5, and the call may co": {in, "--column", "Work e-mail=email", "--max-credits", "5"},
	} {
		r, err := muster(t.Context(), p.dataDir, append([]string{"enrich"}, args...)...)
		require.NoError(t, err)
		require.Equal(t, 2, r.status, "%s: %s", problem, r.errors)
		require.Contains(t, r.errors, problem)
	}
	p.stop(t)
}
