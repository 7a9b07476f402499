package queryapi_test

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// asOf returns the time and the lag in seconds of X-Data-As-Of.
func (r response) asOf() (time.Time, int) {
	r.t.Helper()
	m := regexp.MustCompile(`^(.*Z); lag=(\d+)$`).FindStringSubmatch(r.header.Get("X-Data-As-Of"))
	require.Len(r.t, m, 3, r.header.Get("X-Data-As-Of"))
	at, err := time.Parse(time.RFC3339, m[1])
	require.NoError(r.t, err)
	lag, err := strconv.Atoi(m[2])
	require.NoError(r.t, err)
	return at, lag
}

func TestDataAsOf_IsOnEveryDataResponse(t *testing.T) {
	f := start(t, nil)
	startWorker(f, found)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	polltest.Until(t, waitTimeout, func() bool {
		return f.get(networkPath+"?network=octavia").header.Get("X-Data-As-Of") != ""
	}, "watermark is unknown")
	for _, got := range []response{
		f.post(enrichPath, `{"codehost":"absent"}`), f.post(companyPath, `{"company_id":"absent"}`),
		f.post(enrichPath, `{"items":[{"codehost":"absent"}]}`),
		f.post(searchPath, `{"query":{"match_all":{}}}`), f.get(networkPath + "?network=octavia"),
		f.post(networkPath, `{"network":["octavia"]}`), f.get(codehostPath + "?codehost=absent"),
		f.post(codehostPath, `{"codehost":"absent"}`), f.post("/v1/person/discover", `{"codehost":"octa"}`),
		f.post("/v1/person/identify", `{"name":"Octavia Lin","dry_run":true}`),
	} {
		require.Equal(t, http.StatusOK, got.status, got.body)
		at, lag := got.asOf()
		require.WithinDuration(t, time.Now(), at, time.Minute)
		require.InDelta(t, time.Since(at).Seconds(), lag, 5)
	}
	for _, got := range []response{
		f.get("/v1/usage"), f.get(networkPath), f.post(searchPath+"/explain", `{"query":{"match_all":{}}}`),
	} {
		require.Empty(t, got.header.Get("X-Data-As-Of"))
	}
}

func TestDataAsOf_IsThatOfTheOldestWaitingRecord(t *testing.T) {
	const topic = "muster.record.network-person.v1"
	published := time.Now().Add(-time.Hour).Truncate(time.Second)
	var client *kafka.Client
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.WatermarkInterval = 10 * time.Millisecond
		require.NoError(t, bus.EnsureTopics(t.Context(), d.Bus, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
		client = &kafka.Client{Addr: kafka.TCP(d.Bus.Brokers...)}
		res, err := client.Produce(t.Context(), &kafka.ProduceRequest{
			Topic: topic, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Time: published, Value: kafka.NewBytes([]byte("x"))}),
		})
		require.NoError(t, err)
		require.NoError(t, res.Error)
	})
	call := func() response {
		t.Helper()
		return f.do(http.MethodPost, enrichPath, `{"codehost":"absent"}`, nil)
	}
	polltest.Until(t, waitTimeout, func() bool { return call().header.Get("X-Data-As-Of") != "" }, "watermark is unknown")
	stored := f.do(http.MethodPost, enrichPath, `{"codehost":"absent"}`, idempotent("k"))
	at, lag := stored.asOf()
	require.WithinDuration(t, published, at, 0)
	require.InDelta(t, 3600, lag, 60)

	// The projector commits it.
	polltest.Until(t, waitTimeout, func() bool {
		res, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: "muster.projector.records", GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Offset: 1}}},
		})
		return err == nil && res.Topics[topic][0].Error == nil
	}, "offset is not committed")
	polltest.Until(t, waitTimeout, func() bool {
		at, _ = call().asOf()
		return at.After(published)
	}, "watermark stays")
	require.WithinDuration(t, time.Now(), at, time.Minute)
	replayed := f.do(http.MethodPost, enrichPath, `{"codehost":"absent"}`, idempotent("k"))
	require.Equal(t, "true", replayed.header.Get("Idempotent-Replayed"))
	require.Equal(t, stored.header.Get("X-Data-As-Of"), replayed.header.Get("X-Data-As-Of"))
}

// Results of a job, which may be read days later, state the time of their answers.
func TestDataAsOf_OfResultsIsThatOfTheirAnswers(t *testing.T) {
	f := start(t, nil)
	polltest.Until(t, waitTimeout, func() bool {
		return f.get(networkPath+"?network=absent").header.Get("X-Data-As-Of") != ""
	}, "watermark is unknown")
	job := f.accepted(f.submit("operation=person_enrich", ndjsonType, `{"codehost":"absent"}`, nil))
	f.finished(job, event.BulkDone)
	done := time.Now()
	polltest.Until(t, waitTimeout, func() bool {
		at, lag := f.get("/v1/bulk/" + job + "/results").asOf()
		require.False(t, at.After(done))
		return lag >= 2
	}, "the lag does not grow")
}
