package queryapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

func TestFlushUsage_TopicHasEveryAnsweredCall(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(7, "octa", "2026-01-01"))
	var want []string
	for range 3 {
		for range 5 {
			want = append(want, f.post(enrichPath, `{"codehost":"octa"}`).header.Get("X-Request-Id"))
		}
		var published []string
		for _, u := range f.ledger() {
			published = append(published, u.RequestID)
		}
		require.ElementsMatch(t, want, published)
	}
}

// ledger flushes the replica, and returns the events on the topic.
func (f *fixture) ledger() (events []event.Usage) {
	f.t.Helper()
	rec := httptest.NewRecorder()
	f.service.FlushUsage(rec,
		httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, queryapi.FlushUsagePath, nil))
	require.Equal(f.t, http.StatusOK, rec.Code, rec.Body)
	require.JSONEq(f.t, `{"alone":true,"pending":0}`, rec.Body.String())
	return f.published()
}

// published returns the events on the ledger topic.
func (f *fixture) published() (events []event.Usage) {
	f.t.Helper()
	_, err := bus.Read(f.t.Context(), f.bus, event.TopicUsage, nil, func(m kafka.Message) error {
		var u event.Usage
		if err := json.Unmarshal(m.Value, &u); err != nil {
			return err
		}
		events = append(events, u)
		return nil
	})
	require.NoError(f.t, err)
	return events
}

func TestLedger_NamesRepeatedAddonOnce(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octa", "2026-01-01"))
	list := strings.Repeat(`"personal_email","codehost",`, 36_000)
	require.Equal(t, 1, charged(t, f.post(networkPath,
		`{"network":"octavia","addons":[`+strings.TrimSuffix(list, ",")+`]}`)))
	require.Equal(t, 1, charged(t, f.post(networkPath,
		`{"network":["octavia","missing"],"addons":["codehost","codehost"]}`)))
	require.Equal(t, 1, charged(t, f.get(codehostPath+"?codehost=octa")))
	require.Equal(t, "{}", f.get(codehostPath+"?codehost=missing").body)
	var groups [][]string
	for _, u := range f.ledger() {
		groups = append(groups, u.Groups)
	}
	require.Equal(t, [][]string{{"network", "codehost", "personal_email"}, {"network", "codehost"}, {"codehost"}, nil},
		groups, "those of the records that were returned")
}
