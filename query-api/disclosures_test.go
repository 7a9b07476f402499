package queryapi_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Every kind of call states in the ledger whose records it returned, so that the receivers can be notified of erasures.
func TestUsageEvent_StatesReturnedPeople(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octavia", "2026-01-01"))
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p1","username":"lin","headline":"engineer","last_updated":"2026-01-01"}`)
	startWorker(f, found)
	startIdentifyWorker(f, func(event.DiscoveryTask) *event.Identification {
		return &event.Identification{Matches: []event.PersonMatch{{Confidence: 0.9, Accounts: []event.Social{{
			Account: event.Account{Platform: "network", Username: "lin"}, Identity: "p1", Confidence: 1,
		}}}}}
	})
	key, err := testSecret(t).Key(suppress.KeyName, suppress.KeySize)
	require.NoError(t, err)
	hashing, err := suppress.NewKey(key)
	require.NoError(t, err)
	key, err = testSecret(t).Key(event.DisclosureKeyName, event.DisclosureKeySize)
	require.NoError(t, err)
	sealing, err := event.NewDisclosureCipher(key)
	require.NoError(t, err)
	const octavia, lin = "codehost-person 12", "network-person p1"
	returned := func(requestID string) (people []event.Disclosure) {
		polltest.Until(t, waitTimeout, func() bool {
			there := false
			require.NoError(t, bus.Scan(t.Context(), f.bus, []string{event.TopicUsage}, func(m kafka.Message) error {
				var u event.Usage
				if err := json.Unmarshal(m.Value, &u); err != nil || u.RequestID != requestID {
					return err
				}
				there, people = true, nil
				for _, sealed := range u.Returned {
					d, err := sealing.Open(sealed)
					require.NoError(t, err)
					people = append(people, d)
				}
				return nil
			}))
			return there
		}, "usage event")
		return people
	}
	job := f.accepted(f.submit("operation=person_enrich", ndjsonType,
		"{\"codehost\":\"absent\"}\n{\"codehost\":\"octavia\"}\n", nil))
	search := `{"query":{"match":{"profile.headline":"engineer"}}}`
	items := `{"items":[{"codehost":"octavia"},{"network_username":"lin","websets":["network"]}]}`
	f.finished(job, event.BulkDone)
	id := func(r response) string {
		require.Equal(t, http.StatusOK, r.status, r.body)
		return r.header.Get("X-Request-Id")
	}
	first := f.do(http.MethodPost, enrichPath, `{"codehost":"octavia"}`, idempotent("k"))
	replayed := f.do(http.MethodPost, enrichPath, `{"codehost":"octavia"}`, idempotent("k"))
	require.Equal(t, "true", replayed.header.Get("Idempotent-Replayed"))
	for name, c := range map[string]struct {
		request string
		want    []string
	}{
		"enrich": {id(first), []string{octavia}}, "replayed": {id(replayed), []string{octavia}},
		"items":       {id(f.post(enrichPath, items)), []string{octavia, lin}},
		"webset":      {id(f.post(codehostPath, `{"codehost":["absent","octavia"]}`)), []string{octavia}},
		"search":      {id(f.post("/v1/person/search", search)), []string{lin}},
		"discover":    {id(f.post("/v1/person/discover", `{"codehost":"octavia"}`)), []string{lin}},
		"identify":    {id(f.post(identifyPath, `{"name":"Lin Abara"}`)), []string{lin}},
		"miss":        {id(f.post(enrichPath, `{"codehost":"absent"}`)), nil},
		"row":         {job + "-2", []string{octavia}},
		"row, a miss": {job + "-1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := returned(c.request)
			require.Len(t, got, len(c.want))
			for _, name := range c.want {
				d, ok := hashing.Record(name)
				require.True(t, ok)
				require.True(t, slices.Contains(got, d), name)
			}
		})
	}
}
