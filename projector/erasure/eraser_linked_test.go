package erasure_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/projector/erasure"
	"muster/projector/internal/projectortest"
	"muster/projector/linked"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Values of an erased account leave the person's search fields, and their former rows the table's files; the person's
// next account takes their place.
func TestEraser_RemovesLinkedAccounts(t *testing.T) {
	h := projectortest.New(t)
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	h.Start(func(_ *projector.Config, deps *project.Deps) { deps.Suppressed = set })
	account := func(id, version int, username, network string) *record.Record {
		raw, err := json.Marshal(map[string]any{"user_id": id, "codehost_username": username, "network_username": network,
			"last_updated": []string{"2024", "2025", "2026"}[version]}, json.Deterministic(true))
		require.NoError(t, err)
		return projectortest.Decode(t, record.KindCodehostPerson, string(raw))
	}
	h.PublishRecords(
		projectortest.Person(t, "p1", "2026", `"username":"ann"`), projectortest.Person(t, "p2", "2026", `"username":"bob"`),
		projectortest.Person(t, "p3", "2026", `"username":"cat","emails":["cat@example.com"]`),
		account(1, 0, "alive", "ann"), account(2, 2, "ghost", "ann"), account(3, 1, "spook", "bob"),
		account(4, 1, "kitty", "cat"),
	)
	h.CaughtUp()
	h.PublishRecords(projectortest.Decode(t, record.KindCodehostPerson,
		`{"user_id":3,"last_updated":"2026","codehost_username":"spook","network_username":"bob","followers":1}`))
	h.CaughtUp()
	const live = "SELECT count() FROM linked_accounts FINAL WHERE profile_id = "
	require.EqualValues(t, 1, h.Count(live+"'p1' AND codehost_username = 'ghost'"))
	require.EqualValues(t, 1, h.Count(live+"'p2' AND codehost_followers = 1"))
	require.EqualValues(t, 1, h.Count(live+"'p3' AND codehost_username = 'kitty'"))

	for typ, value := range map[suppress.Type]string{
		suppress.CodehostUsername: "ghost", suppress.UserID: "3", suppress.Email: "cat@example.com",
	} {
		entry, err := json.Marshal(suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026-11-21",
			Key: set.Key().ID()})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(typ, value).String()), entry))
	}
	e := startEraser(t, h, set)
	e.await(t, event.ErasureSuppressed)
	h.CaughtUp()
	require.EqualValues(t, 1, h.Count(live+"'p1' AND codehost_username = 'alive'"), "the next account")
	require.Zero(t, h.Count("SELECT count() FROM linked_accounts WHERE user_id IN (2, 3, 4) OR profile_id = 'p3'"),
		"former versions, too")
	require.Zero(t, h.Count(live+"'p2' AND user_id >= 0"))
	e.await(t, event.ErasureDeleted)
	require.Zero(t, h.Count("SELECT count() FROM system.parts WHERE database = currentDatabase() AND active AND "+
		"table = 'linked_accounts' AND has_lightweight_delete"), "the deleted rows are still in the parts")
}

// endedConn ends its process before the statement that deletes answers.
type endedConn struct {
	driver.Conn
	kill func()
}

func (c *endedConn) Exec(ctx context.Context, query string, args ...any) error {
	if strings.HasPrefix(query, "DELETE FROM "+readmodel.AnswersTable+" ") {
		c.kill()
		return ctx.Err()
	}
	return c.Conn.Exec(ctx, query, args...)
}

// The rows that say who was linked with an erased account are gone when the eraser is started again.
func TestEraser_TouchesLinkedPeopleAfterAKill(t *testing.T) {
	h := projectortest.New(t)
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	h.Insert("1", projectortest.Person(t, "p", "2026", `"username":"ann","codehost_username":"ghost"`),
		projectortest.AccountRecord(t, 7, "2026", "ghost"))
	r := linked.Refresher{Conn: h.Conn, Now: time.Now}
	_, err := r.Refresh(t.Context(), []string{"p"})
	require.NoError(t, err)
	require.EqualValues(t, 1, h.Count("SELECT count() FROM linked_accounts"))
	entry, err := json.Marshal(suppress.Entry{Type: suppress.CodehostUsername, Scope: suppress.All,
		RequestedAt: "2026-11-21", Key: set.Key().ID()})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.CodehostUsername, "ghost").String()), entry))

	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	defer kill()
	request(t, h, "r0", time.Now().Add(-time.Second))
	killed, err := erasure.New(erasure.Config{Kafka: h.Kafka}, erasure.Deps{
		Conn: &endedConn{h.Conn, kill}, Suppressed: set, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	require.NoError(t, err)
	require.NoError(t, killed.Run(ctx))
	require.Error(t, ctx.Err(), "it was not killed")
	require.Zero(t, h.Count("SELECT count() FROM linked_accounts"))

	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	h.StartLinked(h.Conn, set)
	h.LinkedCaughtUp()
	touches := h.Touches()
	i := slices.IndexFunc(touches, func(touch event.AnswerTask) bool { return touch.ID == "p" && touch.IndexOnly })
	require.NotEqual(t, -1, i, "the document of the person keeps the erased account: %v", touches)
}
