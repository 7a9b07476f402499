package queryapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Once a replica has said so, the topic has every call that it answered before.
func TestFlushUsage(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(7, "octa", "2026-01-01"))
	published := func() (ids []string) {
		_, err := bus.Read(t.Context(), f.bus, event.TopicUsage, nil, func(m kafka.Message) error {
			var u event.Usage
			if err := json.Unmarshal(m.Value, &u); err != nil {
				return err
			}
			ids = append(ids, u.RequestID)
			return nil
		})
		require.NoError(t, err)
		return ids
	}
	var want []string
	for range 3 {
		for range 5 {
			want = append(want, f.post(enrichPath, `{"codehost":"octa"}`).header.Get("X-Request-Id"))
		}
		rec := httptest.NewRecorder()
		f.service.FlushUsage(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, queryapi.FlushUsagePath, nil))
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.JSONEq(t, `{"alone":true,"pending":0}`, rec.Body.String())
		require.ElementsMatch(t, want, published())
	}
}
