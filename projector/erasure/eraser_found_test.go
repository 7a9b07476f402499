package erasure_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// A killed eraser may leave answers that contain deleted commits. The next one rebuilds them before it
// reports the request as suppressed.
func TestEraser_RebuildsAnswersAfterKill(t *testing.T) {
	h := projectortest.New(t)
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":7,"codehost_username":"bob","last_updated":"2026"}`},
		record.KindCodehostCommit: {
			`{"user_id":7,"sha":"a","message":"hers","author_email":"ada@example.com","author_date":"2026"}`,
			`{"user_id":7,"sha":"b","message":"his","author_email":"bob@example.com","author_date":"2026"}`,
		},
	})
	require.NoError(t, h.Conn.Exec(t.Context(), "DELETE FROM codehost_commits WHERE sha = 'a'"))
	require.EqualValues(t, 2, h.Answers(7)[0].Commits)
	startEraser(
		t,
		h,
		projectortest.SuppressedBy(t, suppress.Email, "ada@example.com"),
	).await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.Answers(7)[0].Commits)
	require.Zero(t, h.Count("SELECT count() FROM codehost_answers WHERE position(content, 'hers') > 0"))
}

// A build that began before the sweep may end after the eraser's: its touch is newer, so it wins.
func TestEraser_RebuildsAnswersOfLateBuilds(t *testing.T) {
	h := projectortest.New(t)
	const hers = `{"user_id":7,"sha":"a","message":"hers","author_email":"ada@example.com","author_date":"2026"}`
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":7,"codehost_username":"bob","last_updated":"2026"}`},
		record.KindCodehostCommit: {hers,
			`{"user_id":7,"sha":"b","message":"his","author_email":"bob@example.com","author_date":"2026"}`},
	})
	e := startHeldEraser(t, h, projectortest.SuppressedBy(t, suppress.Email, "ada@example.com"))
	e.await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.Answers(7)[0].Commits)
	projectortest.InsertAll(t, h, "late", map[record.Kind][]string{record.KindCodehostCommit: {hers}})
	require.EqualValues(t, 2, h.Answers(7)[0].Commits)
	require.NoError(t, h.Conn.Exec(t.Context(), "DELETE FROM codehost_commits WHERE sha = 'a'"))
	e.goOn()
	e.await(t, event.ErasureDeleted)
	require.EqualValues(t, 1, h.Answers(7)[0].Commits)
	require.Zero(t, h.Count("SELECT count() FROM codehost_answers WHERE position(content, 'hers') > 0"))
}

// A hint under a username of an erased account says whom the account named.
func TestEraser_DeletesHintsOfErasedAccounts(t *testing.T) {
	h := projectortest.New(t)
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindNetworkPerson: {`{"profile_id":"p1","username":"ada-net","last_updated":"2026"}`},
	})
	projectortest.InsertAll(t, h, "naming", map[record.Kind][]string{
		record.KindCodehostPerson: {
			`{"user_id":1,"codehost_username":"ada0","network_username":"ada-net","last_updated":"2025"}`,
			`{"user_id":1,"codehost_username":"ada","network_username":"ada-net","emails":["ada@example.com"],` +
				`"last_updated":"2026"}`,
			`{"user_id":2,"codehost_username":"ada0","network_username":"ada-net","last_updated":"2026"}`,
		},
		record.KindAccountLink: {`{"a":{"platform":"codehost","username":"ada"},` +
			`"b":{"platform":"network","username":"ada-net"},"source":"s","observed_at":"2026"}`},
	})
	const hints = "SELECT count() FROM lookups FINAL WHERE type = 'hint.network' AND value = 'ada-net' AND " +
		"target = 'p1'"
	require.EqualValues(t, 4, h.Count(hints))
	set := projectortest.SuppressedBy(t, suppress.Email, "ada@example.com")
	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.Count(hints))
	require.EqualValues(t, 1, h.Count(hints+" AND source = 'ada0 2'"))
}

func contextOf(t *testing.T, id, profile string, identities ...string) *event.Context {
	t.Helper()
	now := time.Now().UTC()
	return &event.Context{
		Call:   event.ContextCall{RequestID: id, OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now},
		Status: event.ContextComplete, At: now,
		Profile: jsontext.Value(profile), Identities: identities,
	}
}

// Unmapped addresses have no column.
func TestEraser_FindsAddressesInUnknownFields(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.SuppressedBy(t, suppress.Email, "ada@example.com")
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {
			`{"user_id":1,"codehost_username":"a","email":"Ada@example.com","emails":["b@example.com"],` +
				`"last_updated":"2026"}`,
			`{"user_id":2,"codehost_username":"b","emails":["b@example.com"],"personal_email":"c@example.com",` +
				`"bio":"gmail","last_updated":"2026"}`,
		},
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"a","work_email":"ada@example.com","last_updated":"2026"}`,
			`{"profile_id":"p2","username":"b","contact":{"emails":[{"value":"ada@example.com"}]},` +
				`"last_updated":"2026"}`,
			`{"profile_id":"p3","username":"c","emails":["b@example.com"],"work_email":"d@example.com",` +
				`"last_updated":"2026"}`,
		},
	})
	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM network_people"))
}

// The profile's text has no identifier of the erased person.
func TestEraser_FindsContextProfilesByRecord(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.SuppressedBy(t, suppress.Email, "ada@example.com")
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p3","username":"ada","full_name":"Ada Lovelace","emails":["ada@example.com"],` +
				`"last_updated":"2026"}`,
		},
	})
	var contexts readmodel.ContextBatch
	require.NoError(t, contexts.Add(contextOf(t, "hers", `{"full_name":"Ada Lovelace","custom":{"about":"..."}}`,
		"network-person p3"), readmodel.Position{Topic: event.TopicContext}))
	require.NoError(t, contexts.Add(contextOf(t, "other", `{"full_name":"Bob"}`, "network-person p4"),
		readmodel.Position{Topic: event.TopicContext, Offset: 1}))
	require.NoError(t, readmodel.InsertContexts(t.Context(), h.Conn, "c", &contexts))
	startEraser(t, h, set).await(t, event.ErasureDeleted)
	require.Zero(t, h.Count("SELECT count() FROM network_people"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM contexts"))
}

// The clock of the request's writer is ahead of the eraser's.
func TestEraser_ToleratesRequestFromFuture(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	projectortest.InsertAll(
		t,
		h,
		"before",
		map[record.Kind][]string{
			record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`},
		},
	)
	request(t, h, "ahead", time.Now().Add(time.Hour))
	e := startEraser(t, h, set)
	e.await(t, event.ErasureDeleted)
	e.await(t, event.ErasureDeleted) // both requests
}

// Accounts with mutual links are erased together, also from the topics. An account with a one-sided link
// stays.
func TestEraser_DeletesMutuallyLinkedAccounts(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.SuppressedBy(t, suppress.Email, "ada@example.com")
	link := func(network, codehost string) string {
		return `{"a":{"platform":"network","username":"` + network + `"},"b":{"platform":"codehost","username":"` +
			codehost + `"},"source":"s","observed_at":"2026"}`
	}
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"ada","emails":["ada@example.com"],"codehost_username":"adahub",` +
				`"last_updated":"2026"}`,
		},
		record.KindCodehostPerson: {
			`{"user_id":7,"codehost_username":"adahub","network_username":"ada","last_updated":"2026"}`,
			`{"user_id":8,"codehost_username":"claims","network_username":"ada","last_updated":"2026"}`,
		},
		record.KindAccountLink: {link("bob", "adahub"), link("bob", "bobhub")},
		record.KindCodehostRepo: {`{"user_id":7,"id":1,"name":"x","updated_at":"2026"}`,
			`{"user_id":8,"id":1,"name":"x","updated_at":"2026"}`},
		record.KindCodehostCommit: {
			`{"user_id":7,"sha":"a","author_date":"2026"}`, `{"user_id":8,"sha":"a","author_date":"2026"}`,
			`{"user_id":8,"sha":"b","author_email":"ada@example.com","author_date":"2026"}`,
		},
		record.KindCodehostList: {`{"user_id":7,"list":"repos","items":["1"],"last_updated":"2026"}`},
	})
	// The row of a link stays if its tombstone is rejected, so that it is found again.
	h.Broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: record.KindAccountLink.Topic(),
		Err: kerr.InvalidRecord, Count: 1})
	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	buried := make(map[string][]string)
	topics := []string{event.TopicVersionBump}
	for _, d := range record.Definitions() {
		topics = append(topics, d.Topic)
	}
	require.NoError(t, bus.Scan(t.Context(), h.Kafka, topics, func(m kafka.Message) error {
		require.Nil(t, m.Value)
		if !slices.Contains(buried[m.Topic], string(m.Key)) { // one per attempt
			buried[m.Topic] = append(buried[m.Topic], string(m.Key))
		}
		return nil
	}))
	for topic, keys := range map[string][]string{
		event.TopicVersionBump: {
			event.VersionBump{Kind: record.KindNetworkPerson, Key: "p1"}.MessageKey(),
			event.VersionBump{Kind: record.KindCodehostPerson, Key: "7"}.MessageKey(),
		},
		record.KindNetworkPerson.Topic():  {"p1"},
		record.KindCodehostPerson.Topic(): {"7"},
		record.KindCodehostRepo.Topic():   {"7/1"},
		record.KindCodehostCommit.Topic(): {"7/a", "8/b"},
		record.KindCodehostList.Topic():   {"7/repos"},
		record.KindAccountLink.Topic():    {"codehost:adahub|network:bob|s"},
	} {
		require.ElementsMatch(t, keys, buried[topic], topic)
		delete(buried, topic)
	}
	require.Empty(t, buried)
	require.Zero(t, h.Count("SELECT count() FROM network_people"))
	require.Zero(t, h.Count("SELECT count() FROM codehost_people WHERE user_id = 7"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_repos"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_commits"))
	require.Zero(t, h.Count("SELECT count() FROM codehost_lists"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM account_links"))
}
