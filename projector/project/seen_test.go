package project_test

import (
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// A version bump applies to equal content only, whichever arrives first.
func TestProjector_VersionBumpAppliesToEqualContent(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	ann := func(id, version string) *record.Record {
		return projectortest.Person(t, id, version, `"username":"ann"`)
	}
	bob := func(id, version string) *record.Record {
		return projectortest.Person(t, id, version, `"username":"bob"`)
	}
	h.Publish(
		projectortest.Message(ann("plain", "2024")),
		projectortest.Message(
			ann("seen", "2024"),
		),
		projectortest.Pair(t, ann("seen", "2025-03")),
		projectortest.Pair(t, ann("seen", "2025-04")),
		projectortest.Pair(t, ann("pair first", "2025")),
		projectortest.Message(ann("pair first", "2024")),
		projectortest.Message(ann("older pair", "2024")),
		projectortest.Pair(t, ann("older pair", "2023")),
		projectortest.Message(bob("other content", "2024")),
		projectortest.Pair(t, ann("other content", "2025")),
		projectortest.Message(ann("withdrawn", "2024")),
		projectortest.Pair(t, ann("withdrawn", "2025")),
		projectortest.Message(projectortest.Person(t, "withdrawn", "2024-06", `"deleted":true`)),
		projectortest.Message(
			ann("changed", "2021"),
		),
		projectortest.Pair(t, ann("changed", "2022")),
		projectortest.Message(bob("changed", "2023")),
		projectortest.Pair(t, bob("changed", "2024")),
		projectortest.Message(ann("changed back", "2021")),
		projectortest.Pair(t, bob("changed back", "2024")),
		projectortest.Pair(t, ann("changed back", "2022")),
		projectortest.Pair(t, ann("absent", "2024")),
	)
	h.CaughtUp()
	check := func() {
		t.Helper()
		got := map[string]string{}
		for _, r := range h.NetworkPeople("plain", "seen", "pair first", "older pair", "other content", "withdrawn",
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

	account := projectortest.Decode(
		t,
		record.KindCodehostPerson,
		`{"user_id":7,"codehost_username":"ann","last_updated":"2024"}`,
	)
	company := projectortest.Decode(t, record.KindNetworkCompany, `{"company_id":"c","last_updated":"2024"}`)
	h.Publish(
		projectortest.Message(account),
		projectortest.Message(company),
		projectortest.Pair(t, projectortest.Decode(t, record.KindCodehostPerson,
			`{"user_id":7,"codehost_username":"ann","last_updated":"2025-01"}`)),
		projectortest.Pair(
			t,
			projectortest.Decode(t, record.KindNetworkCompany, `{"company_id":"c","last_updated":"2025-02"}`),
		),
	)
	h.CaughtUp()
	require.Equal(t, "2025-01-01T00:00:00Z", record.Version(h.Answers(7)[0].Version).String())
	c := readmodel.CompanyHash("c")
	companies := projectortest.Fresh(
		projectortest.Query(h.Store, readmodel.CompaniesQuery(), (*readmodel.CompanyRow).ScanDest, c),
		readmodel.NewestCompanies,
	)
	seen := projectortest.Query(h.Store, readmodel.VersionBumpsQuery(), (*readmodel.VersionBumpRow).ScanDest, c)
	version := readmodel.NewestVersion(
		record.KindNetworkCompany,
		"c",
		companies[0].Version,
		companies[0].ContentHash,
		seen,
	)
	require.Equal(t, "2025-02-01T00:00:00Z", record.Version(version).String())
	require.Empty(t, h.RejectedRecords())

	h.Replay()
	check()

	bad := projectortest.Pair(t, account)
	bad.Key = []byte("codehost-person/8")
	h.Publish(bad, kafka.Message{Topic: event.TopicVersionBump, Key: []byte("x"), Value: []byte(`{"kind":"cat"}`)},
		kafka.Message{Topic: event.TopicVersionBump, Key: []byte("x")},
		kafka.Message{Topic: event.TopicVersionBump, Key: []byte("codehost-person/x"),
			Value: []byte(`{"kind":"codehost-person","key":"x","version":"2024","hash":"1"}`)})
	h.CaughtUp()
	codes := map[string]int{}
	for _, r := range h.RejectedRecords() {
		codes[r.Code]++
	}
	require.Equal(t, map[string]int{project.CodeKeyMismatch: 1, project.CodeBadPair: 2}, codes)
}

// The documents of people show the version, those of companies do not.
func TestProjector_TouchesDocumentsOfVersionBumps(t *testing.T) {
	for _, touched := range []bool{false, true} {
		h := projectortest.New(t)
		h.Start(func(cfg *projector.Config, _ *project.Deps) { cfg.TouchDocuments = touched })
		person := func(version string) *record.Record {
			return projectortest.Person(t, "p", version, `"username":"ann"`)
		}
		company := func(version string) *record.Record {
			return projectortest.Decode(t, record.KindNetworkCompany, `{"company_id":"c","last_updated":"`+version+`"}`)
		}
		h.PublishRecords(person("2024"), company("2024"))
		h.CaughtUp()
		before := h.Touches()
		h.Publish(projectortest.Pair(t, person("2026")), projectortest.Pair(t, company("2026")),
			projectortest.Pair(t, projectortest.AccountRecord(t, 7, "2026", "ada")))
		h.CaughtUp()
		want := before
		if touched {
			want = append(want, event.AnswerTask{
				Kind: record.KindNetworkPerson, ID: "p", Version: int64(person("2026").Version), IndexOnly: true,
				Bump: true,
			})
		}
		require.Equal(t, want, h.Touches())
	}
}
