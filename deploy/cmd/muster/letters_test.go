package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

// cli runs command lines against a broker.
type cli struct {
	t   *testing.T
	env map[string]string
}

// run returns the output of a command line, and requires its exit status.
func (c cli) run(status int, args ...string) (out, errors string) {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	got := run(args, streams{in: strings.NewReader(""), out: &stdout, err: &stderr},
		func(name string) string { return c.env[name] })
	require.Equal(c.t, status, got, "%s\n%s%s", strings.Join(args, " "), stdout.String(), stderr.String())
	return stdout.String(), stderr.String()
}

func parsed[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

func TestRejected_HidesContentOfErasedPeople(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{
		"KAFKA_BROKERS": brokertest.Start(t).Addrs()[0], "MUSTER_DATA_DIR": filepath.Join(dir, "data"),
		"MUSTER_SECRET_KEY": strings.Repeat("erased people stay out ", 3),
	}}
	people := filepath.Join(dir, "people.ndjson")
	require.NoError(t, os.WriteFile(people, []byte(`
{"profile_id":"1","last_updated":"soon","username":"Ada-L","secret":"hers"}
{"profile_id":"2","last_updated":"soon","username":"bob","emails":["bob@example.com"],"secret":"his"}
{"profile_id":"3","last_updated":"soon","emails":["Ada@example.com"],"secret":"alsohers",
`), 0o600))
	c.run(1, "ingest", "network-person", people)
	shown := func() string {
		out, _ := c.run(0, "rejected", "list", "--json")
		var ids []string
		for _, l := range parsed[[]deadLetterJSON](t, out) {
			ids = append(ids, l.ID)
		}
		require.Len(t, ids, 3)
		out, _ = c.run(0, append([]string{"rejected", "show"}, ids...)...)
		lines, _ := c.run(0, "rejected", "export")
		return out + lines
	}
	before := shown()
	require.Contains(t, before, "hers")
	require.Contains(t, before, "alsohers")
	c.run(0, "erase", "--timeout", "0", "network_username=ada-l", "email=ada@example.com")
	after := shown()
	require.NotContains(t, after, "hers")
	require.NotContains(t, strings.ToLower(after), "ada@")
	require.Contains(t, after, "his")
	require.Contains(t, after, `"erased": true`)
}

// The delivery names the person in its body, or in the identities of its source records.
func TestDead_HidesWebhooksOfErasedPeople(t *testing.T) {
	broker := brokertest.Start(t).Addrs()[0]
	c := cli{t: t, env: map[string]string{
		"KAFKA_BROKERS": broker, "MUSTER_DATA_DIR": t.TempDir(),
		"MUSTER_SECRET_KEY": strings.Repeat("erased people stay out ", 3),
	}}
	cfg := bus.Config{Brokers: []string{broker}}
	dead := event.DeadLetterTopic("webhook-sender", "deliver").Name
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: dead, Partitions: 1}}))
	w := bus.NewWriter(cfg)
	defer func() { require.NoError(t, w.Close()) }()
	at := time.Now().UTC()
	for i, task := range []event.WebhookTask{
		{Body: []byte(`{"mail":"ada@example.com","secret":"hers"}`)},
		{Body: []byte(`{"secret":"alsohers"}`), Identities: []string{"network-person 7"}},
		{Body: []byte(`{"secret":"his"}`), Identities: []string{"network-person 8"}},
	} {
		task.DeliveryID, task.OrganizationID, task.URL, task.CreatedAt = "req_"+strconv.Itoa(i), "org", "https://h/", at
		task.RequestID = task.DeliveryID
		key, _, value, err := task.Message()
		require.NoError(t, err)
		m := kafka.Message{Topic: dead, Key: []byte(key), Value: value}
		d := event.DeadLetter{
			Service:      "webhook-sender",
			Handler:      "deliver",
			Topic:        event.TopicWebhookTask,
			Code:         "exhausted",
			Attempts:     10,
			FirstFailure: at,
			LastFailure:  at,
		}
		d.Set(func(name, value string) { m.Headers = append(m.Headers, kafka.Header{Key: name, Value: []byte(value)}) })
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
	}
	erased := func() []bool {
		out, _ := c.run(0, "dlq", "list", "--json")
		var ids []string
		for _, l := range parsed[[]deadLetterJSON](t, out) {
			ids = append(ids, l.ID)
		}
		require.Len(t, ids, 3)
		var all []bool
		for _, id := range ids {
			out, _ = c.run(0, "dlq", "show", id)
			l := parsed[deadLetterJSON](t, out)
			require.NotEqual(t, l.Erased, len(l.Record) > 0, out)
			all = append(all, l.Erased)
		}
		return all
	}
	require.Equal(t, []bool{false, false, false}, erased())
	c.run(0, "erase", "--timeout", "0", "email=ada@example.com", "profile_id=7")
	require.Equal(t, []bool{true, true, false}, erased())
}

func TestEraseWithdraw_LogsIdentifiersLikeRequests(t *testing.T) {
	c := newCLI(t)
	c.run(0, "erase", "--timeout", "0", "user_id=1")
	c.run(0, "erase", "withdraw", "user_id=1", "--requested-by", "Dana", "--reference", "case 18")
	var last event.Erasure
	cfg := bus.Config{Brokers: []string{c.env["KAFKA_BROKERS"]}}
	require.NoError(t, bus.Scan(t.Context(), cfg, []string{event.TopicErasureRequest}, func(m kafka.Message) error {
		last = event.Erasure{}
		return json.Unmarshal(m.Value, &last)
	}))
	require.Equal(t, event.ErasureWithdrawn, last.Action)
	require.Equal(t, []string{"Dana", "case 18"}, []string{last.By, last.Note})
}

// The cause is a mistyped identifier, or a request that is dated in the future.
func TestEraseWithdraw_ReportsUnknownIdentifiers(t *testing.T) {
	c := newCLI(t)
	c.run(0, "erase", "--timeout", "0", "user_id=1", "--json")
	requests := stored(t, c, event.TopicErasureRequest)
	_, errors := c.run(1, "erase", "withdraw", "email=missing@nowhere.example", "user_id=10")
	require.Contains(t, errors, "none of these identifiers is suppressed")
	require.Equal(t, requests, stored(t, c, event.TopicErasureRequest))
	out, _ := c.run(0, "erase", "withdraw", "user_id=1", "user_id=10")
	require.Contains(t, out, "1 of 2 identifiers are no longer suppressed")
	c.run(1, "erase", "withdraw", "user_id=1")

	out, _ = c.run(0, "erase", "--timeout", "0", "user_id=2", "--requested-at", "2126-06-01", "--json")
	request := parsed[[]event.Erasure](t, out)[0].RequestID
	_, errors = c.run(1, "erase", "withdraw", "user_id=2")
	require.Contains(t, errors, "1 identifiers are still suppressed")
	c.run(0, "erase", "withdraw", request)
	_, errors = c.run(1, "erase", "--timeout", "0", "user_id=2")
	require.Contains(t, errors, "1 identifiers are not suppressed: they were withdrawn at")
	c.run(0, "erase", "--timeout", "0", "user_id=2", "--requested-at", "2126-06-02")
}

func TestRejected_FixedRecordsAreRefreshedAndResubmitted(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{
		"KAFKA_BROKERS": brokertest.Start(t).Addrs()[0], "MUSTER_DATA_DIR": filepath.Join(dir, "data"),
		"MUSTER_SECRET_KEY": strings.Repeat("s", 64),
	}}
	people := filepath.Join(dir, "people.ndjson")
	const good = `{"profile_id":"1","last_updated":"2026-01-01","username":"one"}` + "\n"
	const bad = `{"profile_id":"2","last_updated":"soon","username":"two","secret":"hush"}` + "\n"
	require.NoError(t, os.WriteFile(people, []byte(good+bad), 0o600))

	out, _ := c.run(1, "ingest", "network-person", people, "--dry-run")
	require.Contains(t, out, "people.ndjson:2: network-person bad_date: last_updated must be")
	require.Contains(t, out, "nothing was published")
	require.NotContains(t, out, "hush")
	require.Contains(t, out, "secret", "a field that the schema does not have is listed also if its record is rejected")
	foreign := filepath.Join(dir, "foreign.ndjson")
	require.NoError(t,
		os.WriteFile(foreign,
			[]byte(`{"profile_id":"3","last_updated":"2026","username":"three",`+
				`"experience":[{"company_name":"hush"}]}`), 0o600))
	out, _ = c.run(0, "ingest", "network-person", foreign, "--dry-run")
	require.Regexp(t,
		`network-person +experience\[\]\.company_name +1 +\S*foreign\.ndjson:1 +experience\[\]\.company\.name\n`, out)
	require.NotContains(t, out, "hush")
	out, _ = c.run(0, "ingest", "network-person", foreign, "--dry-run", "--json")
	require.Contains(t, out, `"path": "experience[].company_name"`)
	cut := filepath.Join(dir, "cut.ndjson")
	require.NoError(t, os.WriteFile(cut, []byte("{\n"), 0o600))
	out, _ = c.run(1, "ingest", "network-person", cut, "--dry-run")
	require.Contains(t, out, "syntax: ends too early")
	_, errors := c.run(2, "backup", "verify", people)
	require.Contains(t, errors, "not a backup of `muster backup create`")
	_, errors = c.run(1, "ingest", "network-person", people)
	_, hint, ok := strings.Cut(errors, "1 record was rejected; see `muster ")
	require.True(t, ok, errors)
	hint, _, ok = strings.Cut(hint, "`")
	require.True(t, ok, errors)
	out, _ = c.run(0, strings.Fields(hint)...)
	require.Contains(t, out, "people.ndjson:2")
	_, errors = c.run(2, "rejected", "list", "--kind", "bogus")
	require.Contains(t, errors, `unknown kind "bogus"; the kinds are account-link`)
	_, errors = c.run(2, "ingest", "network-person")
	require.Contains(t, errors, "only received 1; usage: muster ingest KIND FILE...")
	out, _ = c.run(0, "rejected", "list", "--reason", "bad_date", "--since", "1h")
	require.Contains(t, out, "people.ndjson:2")
	require.NotContains(t, out, "hush", "no content in lists")
	out, _ = c.run(0, "rejected", "list", "--json")
	letters := parsed[[]deadLetterJSON](t, out)
	require.Len(t, letters, 1)
	require.NotContains(t, out, "hush")
	id := letters[0].ID
	out, _ = c.run(0, "rejected", "show", id)
	require.Contains(t, out, "hush")
	out, _ = c.run(2, "rejected", "show", "9-9")
	require.Empty(t, out)
	out, _ = c.run(0, "rejected", "list", "--summary", "--json")
	require.Equal(t, []letterCount{{"network-person", "bad_date", 1}}, parsed[[]letterCount](t, out))

	mend := filepath.Join(dir, "mend.ndjson")
	c.run(0, "rejected", "export", "--kind", "network-person", "--out", mend)
	raw, err := os.ReadFile(mend)
	require.NoError(t, err)
	require.Equal(t, bad, string(raw))
	info, err := os.Stat(mend)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	c.run(2, "rejected", "export", "--out", mend)
	out, _ = c.run(0, "rejected", "export", "--letters", id)
	require.Equal(t, "bad_date", parsed[deadLetterJSON](t, out).Code)
	require.NoError(t, os.WriteFile(mend, []byte(strings.Replace(bad, "soon", "2026-02", 1)), 0o600))
	out, _ = c.run(0, "ingest", "network-person", mend, "--json")
	require.Contains(t, out, `"published": 1`)

	// With a mapping that creates a record from it, nothing remains.
	mapping := filepath.Join(dir, "mine.jq")
	require.NoError(t,
		os.WriteFile(mapping, []byte(`{kind: "network-person", record: (.last_updated = "2026-03")}`), 0o600))
	_, errors = c.run(2, "rejected", "resubmit")
	require.Contains(t, errors, "--all")
	out, errors = c.run(1, "rejected", "resubmit", "9-99999", "9-99999")
	require.Contains(t, out, "0 selected, 0 resubmitted")
	require.Contains(t, errors, "1 not found")
	_, errors = c.run(1, "rejected", "resubmit", "--all", "--kind", "network-person", "--json")
	require.Contains(t, errors, "1 records rejected again")
	out, _ = c.run(0, "rejected", "resubmit", "--all", "--map", mapping)
	require.Contains(t, out, "1 selected, 1 resubmitted")
	out, _ = c.run(0, "rejected", "resubmit", "--all")
	require.Contains(t, out, "0 selected, 0 resubmitted")
	out, _ = c.run(0, "rejected", "list", "--resubmitted")
	require.Contains(t, out, "(resubmitted 20")

	out, _ = c.run(0, "ingest", "runs", "--json")
	runs := parsed[[]runView](t, out)
	require.Len(t, runs, 2, "runs, without the dry run")
	require.Equal(t, "done", runs[1].State)
	require.Equal(t, int64(1), runs[1].Counts["rejected"])
	c.run(0, "ingest", "runs", "--delete", runs[1].ID)
	out, _ = c.run(0, "ingest", "runs")
	require.NotContains(t, out, runs[1].ID)
	_, errors = c.run(2, "ingest", "--resume")
	require.Contains(t, errors, "no stopped run")
	for _, flag := range []string{"--again", "--restart", "--dry-run", "--map=" + mapping, "--format=csv"} {
		_, errors = c.run(2, "ingest", "--resume", flag)
		require.Contains(t, errors, "--resume cannot be combined with", flag)
	}

	out, _ = c.run(0, "dlq", "list", "--json")
	require.Equal(t, "[]\n", out)
	c.run(1, "dlq", "resubmit", "webhook-sender.deliver:0-7")
	_, errors = c.run(2, "dlq", "list", "--since", "yesterday")
	require.Contains(t, errors, `--since: invalid time "yesterday"`)
}

func TestIngestRuns_RejectsZeroLimit(t *testing.T) {
	c := newCLI(t)
	people := filepath.Join(t.TempDir(), "people.ndjson")
	require.NoError(t,
		os.WriteFile(people, []byte(`{"profile_id":"1","last_updated":"2026-01-01","username":"one"}`+"\n"), 0o600))
	c.run(0, "ingest", "network-person", people)
	_, errors := c.run(2, "ingest", "runs", "--limit", "-1")
	require.Contains(t, errors, "--limit must be at least 1")
	c.run(0, "ingest", "runs", "--limit", "1")
}
