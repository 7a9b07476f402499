package projector_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// pair returns the version bump of a record, as published by ingest.
func pair(tb testing.TB, rec *record.Record) kafka.Message {
	tb.Helper()
	s := event.NewVersionBump(rec)
	value, err := json.Marshal(s)
	require.NoError(tb, err)
	return kafka.Message{Topic: event.TopicVersionBump, Key: []byte(s.MessageKey()), Value: value}
}

// A version bump applies to equal content only, whichever arrives first.
func TestProjector_VersionBumpAppliesToEqualContent(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	ann := func(id, version string) *record.Record { return person(t, id, version, `"username":"ann"`) }
	bob := func(id, version string) *record.Record { return person(t, id, version, `"username":"bob"`) }
	h.publish(
		message(ann("plain", "2024")),
		message(ann("seen", "2024")), pair(t, ann("seen", "2025-03")), pair(t, ann("seen", "2025-04")),
		pair(t, ann("pair first", "2025")), message(ann("pair first", "2024")),
		message(ann("older pair", "2024")), pair(t, ann("older pair", "2023")),
		message(bob("other content", "2024")), pair(t, ann("other content", "2025")),
		message(ann("withdrawn", "2024")), pair(t, ann("withdrawn", "2025")),
		message(person(t, "withdrawn", "2024-06", `"deleted":true`)),
		message(ann("changed", "2021")), pair(t, ann("changed", "2022")), message(bob("changed", "2023")),
		pair(t, bob("changed", "2024")),
		message(ann("changed back", "2021")), pair(t, bob("changed back", "2024")),
		pair(t, ann("changed back", "2022")),
		pair(t, ann("absent", "2024")),
	)
	h.caughtUp()
	check := func() {
		t.Helper()
		got := map[string]string{}
		for _, r := range h.networkPeople("plain", "seen", "pair first", "older pair", "other content", "withdrawn",
			"changed", "changed back", "absent") {
			got[r.ProfileID] = record.Version(r.Version).Time().Format("2006-01")
			if r.Deleted {
				got[r.ProfileID] = "withdrawn"
			}
		}
		require.Equal(t, map[string]string{
			"plain": "2024-01", "seen": "2025-04", "pair first": "2025-01", "older pair": "2024-01",
			"other content": "2024-01",
			"withdrawn":     "withdrawn", "changed": "2024-01", "changed back": "2022-01",
		}, got)
	}
	check()

	account := decode(t, record.KindCodehostPerson, `{"user_id":7,"codehost_username":"ann","last_updated":"2024"}`)
	company := decode(t, record.KindNetworkCompany, `{"company_id":"c","last_updated":"2024"}`)
	h.publish(message(account), message(company),
		pair(t, decode(t, record.KindCodehostPerson,
			`{"user_id":7,"codehost_username":"ann","last_updated":"2025-01"}`)),
		pair(t, decode(t, record.KindNetworkCompany, `{"company_id":"c","last_updated":"2025-02"}`)))
	h.caughtUp()
	require.Equal(t, "2025-01-01T00:00:00Z", record.Version(h.answers(7)[0].Version).String())
	c := readmodel.CompanyHash("c")
	companies := fresh(query(h.store, readmodel.CompaniesQuery(), (*readmodel.CompanyRow).ScanDest, c),
		readmodel.NewestCompanies)
	seen := query(h.store, readmodel.VersionBumpsQuery(), (*readmodel.VersionBumpRow).ScanDest, c)
	version := readmodel.NewestVersion(record.KindNetworkCompany, "c", companies[0].Version, companies[0].ContentHash, seen)
	require.Equal(t, "2025-02-01T00:00:00Z", record.Version(version).String())
	require.Empty(t, h.rejectedRecords())

	h.replay()
	check()

	bad := pair(t, account)
	bad.Key = []byte("codehost-person/8")
	h.publish(bad, kafka.Message{Topic: event.TopicVersionBump, Key: []byte("x"), Value: []byte(`{"kind":"cat"}`)},
		kafka.Message{Topic: event.TopicVersionBump, Key: []byte("x")},
		kafka.Message{Topic: event.TopicVersionBump, Key: []byte("codehost-person/x"),
			Value: []byte(`{"kind":"codehost-person","key":"x","version":"2024","hash":"1"}`)})
	h.caughtUp()
	codes := map[string]int{}
	for _, r := range h.rejectedRecords() {
		codes[r.Code]++
	}
	require.Equal(t, map[string]int{projector.CodeKeyMismatch: 1, projector.CodeBadPair: 2}, codes)
}
