package erasure_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// A replay copies or inserts rows of a person while they are erased, so they enter the shadow table after the
// deletion. They are deleted before the request is reported as deleted; later ones are deleted once the table
// is live.
func TestEraser_DeletesRowsAddedByReplay(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	const ghost = `{"user_id":42,"codehost_username":"Ghost","last_updated":"2026"}`
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {ghost, `{"user_id":43,"codehost_username":"alive","last_updated":"2026"}`},
	})
	var rebuilds []readmodel.Rebuild
	fresh := readmodel.Names{}
	for _, table := range []string{"codehost_people", "lookups"} {
		all := readmodel.Models()
		r := readmodel.Rebuild{Model: all[slices.IndexFunc(all,
			func(m readmodel.Model) bool { return m.Table == table })], ID: "late"}
		var existing string
		require.NoError(t, h.Conn.QueryRow(t.Context(), "SELECT create_table_query FROM system.tables WHERE database "+
			"= currentDatabase() AND name = '"+table+"'").Scan(&existing))
		create, err := r.Create(existing)
		require.NoError(t, err)
		for _, statement := range create {
			require.NoError(t, h.Conn.Exec(t.Context(), statement))
		}
		rebuilds, fresh[table] = append(rebuilds, r), r.ShadowTable()
	}
	comeIn := func(token string) {
		rows := &readmodel.Batch{}
		require.NoError(
			t,
			readmodel.NewRenderer(identity.Default()).Rows(rows, projectortest.Decode(t, record.KindCodehostPerson,
				ghost), readmodel.Position{Topic: record.KindCodehostPerson.Topic()}),
		)
		_, err := readmodel.InsertInto(t.Context(), h.Conn, fresh, token, rows)
		require.NoError(t, err)
		require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people__new_late WHERE user_id = 42"))
		require.NotZero(t, h.Count("SELECT count() FROM lookups__new_late WHERE target = '42'"))
	}

	e := startHeldEraser(t, h, set)
	e.await(t, event.ErasureSuppressed)
	comeIn("late")
	e.goOn()
	e.await(t, event.ErasureDeleted)
	require.Zero(t, h.Count("SELECT count() FROM codehost_people__new_late WHERE user_id = 42"))
	require.Zero(t, h.Count("SELECT count() FROM lookups__new_late WHERE target = '42'"))

	comeIn("later")
	for _, r := range rebuilds {
		for _, statement := range append([]string{r.Exchange()}, r.Retire()...) {
			require.NoError(t, h.Conn.Exec(t.Context(), statement))
		}
	}
	projectortest.Eventually(t, func(context.Context) bool {
		return h.Count("SELECT count() FROM codehost_people WHERE user_id = 42") == 0 &&
			h.Count("SELECT count() FROM lookups WHERE target = '42'") == 0
	}, "the erased person is in the tables of the replay")
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people__old_late"), "other people are unaffected")
}
