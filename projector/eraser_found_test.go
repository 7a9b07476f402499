package projector_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// suppressedBy returns a set in which one identifier is suppressed.
func suppressedBy(t *testing.T, typ suppress.Type, standard string) *suppress.Set {
	t.Helper()
	set := suppress.NewSet(suppress.NoKey())
	entry, err := json.Marshal(suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026-11-21",
		Key: set.Key().ID()})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(typ, standard).String()), entry))
	set.Loaded()
	return set
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
	h := newHarness(t)
	set := suppressedBy(t, suppress.Email, "ada@example.com")
	insertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {
			`{"user_id":1,"codehost_username":"a","email":"Ada@example.com","emails":["b@example.com"],"last_updated":"2026"}`,
			`{"user_id":2,"codehost_username":"b","emails":["b@example.com"],"personal_email":"c@example.com","bio":"gmail","last_updated":"2026"}`,
		},
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"a","work_email":"ada@example.com","last_updated":"2026"}`,
			`{"profile_id":"p2","username":"b","contact":{"emails":[{"value":"ada@example.com"}]},"last_updated":"2026"}`,
			`{"profile_id":"p3","username":"c","emails":["b@example.com"],"work_email":"d@example.com","last_updated":"2026"}`,
		},
	})
	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM network_people"))
}

// The profile's text has no identifier of the erased person.
func TestEraser_FindsContextProfilesByRecord(t *testing.T) {
	h := newHarness(t)
	set := suppressedBy(t, suppress.Email, "ada@example.com")
	insertAll(t, h, "before", map[record.Kind][]string{
		record.KindNetworkPerson: {`{"profile_id":"p3","username":"ada","full_name":"Ada Lovelace","emails":["ada@example.com"],"last_updated":"2026"}`},
	})
	var contexts readmodel.ContextBatch
	require.NoError(t, contexts.Add(contextOf(t, "hers", `{"full_name":"Ada Lovelace","custom":{"about":"..."}}`,
		"network-person p3"), readmodel.Position{Topic: event.TopicContext}))
	require.NoError(t, contexts.Add(contextOf(t, "other", `{"full_name":"Bob"}`, "network-person p4"),
		readmodel.Position{Topic: event.TopicContext, Offset: 1}))
	require.NoError(t, readmodel.InsertContexts(t.Context(), h.conn, "c", &contexts))
	startEraser(t, h, set).await(t, event.ErasureDeleted)
	require.Zero(t, h.count("SELECT count() FROM network_people"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM contexts"))
}

// Events are read again, such as after resetting a group's offsets.
func TestProjector_OmitsEventsOfErasedPeople(t *testing.T) {
	h := newHarness(t)
	set := suppressed(t, "ghost")
	h.start(func(_ *projector.Config, d *projector.Deps) { d.Suppressed = set })
	publish := func(topic, key string, e any) {
		value, err := json.Marshal(e)
		require.NoError(t, err)
		h.publish(kafka.Message{Topic: topic, Key: []byte(key), Value: value})
	}
	publish(event.TopicContext, "a", contextOf(t, "late", `{"codehost":{"username":"ghost"}}`))
	publish(event.TopicContext, "a", contextOf(t, "other", `{"full_name":"Bob"}`))
	now := time.Now().UTC()
	attempt := &event.WebhookAttempt{
		DeliveryID: "d", Attempt: 1, EndpointID: "e", OrganizationID: "o", RequestID: "q", Status: event.WebhookDead,
		Address: "https://x.example/", At: now, CreatedAt: now,
		Response: `{"codehost_username":"ghost"}`,
	}
	publish(event.TopicWebhook, "e", attempt)
	eventually(t, func(context.Context) bool {
		return h.count("SELECT count() FROM contexts WHERE request_id = 'other'") == 1 &&
			h.count("SELECT count() FROM webhook_attempts") == 1
	}, "the events")
	require.Zero(t, h.count("SELECT count() FROM contexts WHERE request_id = 'late'"))
	require.Zero(t, h.count("SELECT count() FROM webhook_attempts WHERE response != ''"))
}

// It is neither published as rejected nor kept on its topic.
func TestProjector_OmitsErasedRecordWithOtherKey(t *testing.T) {
	h := newHarness(t)
	set := suppressed(t, "ghost")
	h.start(func(_ *projector.Config, d *projector.Deps) { d.Suppressed = set })
	topic := record.KindCodehostPerson.Topic()
	h.publish(kafka.Message{Topic: topic, Key: []byte("x"),
		Value: []byte(`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`)})
	h.publish(kafka.Message{Topic: topic, Key: []byte("77"),
		Value: []byte(`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`)})
	h.caughtUp()
	last := map[string]kafka.Message{}
	require.NoError(t, bus.Scan(t.Context(), h.kafka, []string{topic}, func(m kafka.Message) error {
		last[string(m.Key)] = m
		return nil
	}))
	require.Contains(t, last, "x")
	require.Nil(t, last["x"].Value, "a tombstone")
	require.NotNil(t, last["77"].Value, "the key is that of another account, whose newest record may stand before")
	require.Len(t, last, 2, "nothing is under no key")
	entries := 0
	require.NoError(t, bus.Scan(t.Context(), h.kafka, []string{event.TopicErasure}, func(kafka.Message) error {
		entries++
		return nil
	}))
	require.NotZero(t, entries, "their id is suppressed: an older version may have rows")
	require.Empty(t, h.rejectedRecords())
}

// The account owner and its other records are unaffected.
func TestProjector_OmitsCommitsOfErasedAuthors(t *testing.T) {
	h := newHarness(t)
	set := suppressedBy(t, suppress.Email, "ada@example.com")
	h.start(func(_ *projector.Config, d *projector.Deps) { d.Suppressed = set })
	commit := func(sha, author string) string {
		return `"sha":"` + sha + `","author_email":"` + author + `@example.com","author_date":"2026"}`
	}
	owner := `{"user_id":7,"codehost_username":"bob","last_updated":"2026"`
	h.publish(
		kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
			Value: []byte(owner + `,"commits":[{` + commit("a", "ada") + `,{` + commit("b", "bob") + `]}`)},
		message(decode(t, record.KindCodehostCommit, `{"user_id":7,`+commit("c", "Ada"))),
		message(decode(t, record.KindCodehostCommit, `{"user_id":7,`+commit("d", "bob"))),
		pair(t, decode(t, record.KindCodehostPerson, owner+`}`)),
	)
	buried := func() (keys []string) {
		require.NoError(t, bus.Scan(t.Context(), h.kafka, []string{record.KindCodehostPerson.Topic(),
			record.KindCodehostCommit.Topic(), event.TopicVersionBump}, func(m kafka.Message) error {
			if m.Value == nil {
				keys = append(keys, string(m.Key))
			}
			return nil
		}))
		return keys
	}
	h.caughtUp()
	first := buried()
	require.Equal(t, []string{"7/c"}, slices.Compact(slices.Clone(first)))                       // one per attempt
	h.publish(message(decode(t, record.KindCodehostCommit, `{"user_id":7,`+commit("e", "bob")))) // a separate batch
	h.caughtUp()
	require.EqualValues(t, 3, h.count("SELECT count() FROM codehost_commits"))
	require.EqualValues(t, 3, h.count("SELECT count() FROM codehost_commits WHERE sha IN ('b', 'd', 'e')"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM seen_versions"))
	require.Equal(t, first, buried(), "not by the second batch: later data may belong to a person whose erasure was "+
		"withdrawn")
}

// The clock of the request's writer is ahead of the eraser's.
func TestEraser_ToleratesRequestFromFuture(t *testing.T) {
	h := newHarness(t)
	set := suppressed(t, "ghost")
	insertAll(t, h, "before",
		map[record.Kind][]string{record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`}})
	request(t, h, "ahead", time.Now().Add(time.Hour))
	e := startEraser(t, h, set)
	e.await(t, event.ErasureDeleted)
	e.await(t, event.ErasureDeleted) // both requests
}

func TestProjector_DoesNotLogRejectedData(t *testing.T) {
	h := newHarness(t)
	require.NoError(t, h.conn.Exec(t.Context(), "ALTER TABLE network_people ADD CONSTRAINT no_ogres CHECK username "+
		"!= 'ogre' AND email_keys != ['x']"))
	var out bytes.Buffer
	stop := h.start(func(_ *projector.Config, d *projector.Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&out,
			nil))
	})
	h.publishRecords(decode(t, record.KindNetworkPerson,
		`{"profile_id":"p1","username":"ogre","emails":["shrek@swamp.example"],"last_updated":"2026"}`))
	h.caughtUp()
	stop()
	require.Contains(t, out.String(), "rejects a record")
	require.NotContains(t, out.String(), "shrek")
}

func TestProjector_RejectionOfErasedParentOmitsData(t *testing.T) {
	h := newHarness(t)
	require.NoError(t, h.conn.Exec(t.Context(), "ALTER TABLE codehost_people ADD CONSTRAINT no_ogres CHECK "+
		"codehost_username != 'ogre'"))
	h.publish(kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
		Value: []byte(`{"user_id":7,"codehost_username":"ogre","repos":[{"id":"no number"}],"last_updated":"2026"}`)})
	h.start(nil)
	h.caughtUp()
	require.Len(t, h.rejectedRecords(), 2)
}

// Accounts with mutual links are erased together, also from the topics. An account with a one-sided link
// stays.
func TestEraser_DeletesMutuallyLinkedAccounts(t *testing.T) {
	h := newHarness(t)
	set := suppressedBy(t, suppress.Email, "ada@example.com")
	link := func(network, codehost string) string {
		return `{"a":{"platform":"network","username":"` + network + `"},"b":{"platform":"codehost","username":"` +
			codehost + `"},"source":"s","observed_at":"2026"}`
	}
	insertAll(t, h, "before", map[record.Kind][]string{
		record.KindNetworkPerson: {`{"profile_id":"p1","username":"ada","emails":["ada@example.com"],"codehost_username":"adahub","last_updated":"2026"}`},
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
	h.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: record.KindAccountLink.Topic(),
		Err: kerr.InvalidRecord, Count: 1})
	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	buried := make(map[string][]string)
	topics := []string{event.TopicVersionBump}
	for _, d := range record.Definitions() {
		topics = append(topics, d.Topic)
	}
	require.NoError(t, bus.Scan(t.Context(), h.kafka, topics, func(m kafka.Message) error {
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
	require.Zero(t, h.count("SELECT count() FROM network_people"))
	require.Zero(t, h.count("SELECT count() FROM codehost_people WHERE user_id = 7"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM codehost_repos"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM codehost_commits"))
	require.Zero(t, h.count("SELECT count() FROM codehost_lists"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM account_links"))
}
