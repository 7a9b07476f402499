package projectortest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector/migrations"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// InsertAll writes records as one batch.
func InsertAll(t *testing.T, h *Harness, token string, raws map[record.Kind][]string) {
	t.Helper()
	var recs []*record.Record
	for kind, list := range raws {
		for _, raw := range list {
			recs = append(recs, Decode(t, kind, raw))
		}
	}
	(&Store{TB: t, Conn: h.Conn}).Insert(token, recs...)
}

// Store is a migrated database.
type Store struct {
	TB   testing.TB
	Conn driver.Conn
}

// OpenStore returns an empty migrated database.
func OpenStore(tb testing.TB) *Store {
	tb.Helper()
	conn, err := chplatform.Open(tb.Context(), chplatform.Config{DSN: enginetest.Tables(tb, Migrate)})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return &Store{TB: tb, Conn: conn}
}

// Migrate creates the tables of a database.
func Migrate(ctx context.Context, dsn string) error {
	conn, err := chplatform.Open(ctx, chplatform.Config{DSN: dsn})
	if err != nil {
		return err
	}
	_, err = migrations.Apply(ctx, conn, readmodel.Layout{}, chplatform.MigrateConfig{})
	return errors.Join(err, conn.Close())
}

// Insert writes records as one batch and builds the answers of their accounts, without a projector.
func (s *Store) Insert(token string, recs ...*record.Record) {
	s.TB.Helper()
	r, b := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for i, rec := range recs {
		require.NoError(s.TB, r.Rows(b, rec, readmodel.Position{Topic: rec.Kind.Topic(), Offset: int64(i)}))
	}
	require.NoError(s.TB, readmodel.Insert(s.TB.Context(), s.Conn, token, b))
	touched := map[int64]int64{}
	b.TouchedAccounts(touched)
	var touches []readmodel.Touch
	for id := range touched {
		touches = append(touches, readmodel.Touch{UserID: id, Offset: time.Now().UnixNano()})
	}
	require.NoError(s.TB, readmodel.BuildAnswers(s.TB.Context(), s.Conn, readmodel.Builds{}, touches))
}

// Query runs a statement of readers with the given keys.
func Query[R any, K int64 | uint64](s *Store, sql string, dest func(*R) []any, keys ...K) []R {
	s.TB.Helper()
	ctx := clickhouse.Context(s.TB.Context(),
		clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: readmodel.FormatKeys(keys)}))
	rows, err := s.Conn.Query(ctx, sql)
	require.NoError(s.TB, err)
	var out []R
	for rows.Next() {
		var r R
		require.NoError(s.TB, rows.Scan(dest(&r)...))
		out = append(out, r)
	}
	require.NoError(s.TB, rows.Err())
	require.NoError(s.TB, rows.Close())
	return out
}

// Fresh keeps the newest rows, as readers do.
func Fresh[R any](rows []R, freshen func([]*R) []*R) []R {
	all := make([]*R, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	var out []R
	for _, r := range freshen(all) {
		out = append(out, *r)
	}
	return out
}

// Lookup returns the lookups of one value.
func (s *Store) Lookup(t readmodel.LookupType, value string) []readmodel.LookupRow {
	rows := s.Lookups(readmodel.KeyHash(t, value))[readmodel.KeyHash(t, value)]
	return slices.DeleteFunc(rows, func(r readmodel.LookupRow) bool { return r.Type != string(t) || r.Value != value })
}

// Lookups returns lookups by the hash of their value.
func (s *Store) Lookups(keys ...uint64) map[uint64][]readmodel.LookupRow {
	found, err := readmodel.ReadLookups(func(query string, scan func(driver.Rows) error) error {
		ctx := clickhouse.Context(s.TB.Context(),
			clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: readmodel.FormatKeys(keys)}))
		return chplatform.ReadRows(ctx, s.Conn, query, scan)
	})
	require.NoError(s.TB, err)
	return found
}

// NetworkPeople returns the newest rows of network people.
func (s *Store) NetworkPeople(ids ...string) []readmodel.NetworkPersonRow {
	keys := make([]uint64, len(ids))
	for i, id := range ids {
		keys[i] = readmodel.ProfileHash(id)
	}
	rows := Fresh(Query(s, readmodel.NetworkPeopleQuery(), (*readmodel.NetworkPersonRow).ScanDest, keys...),
		readmodel.NewestNetworkPeople)
	seen := Query(s, readmodel.VersionBumpsQuery(), (*readmodel.VersionBumpRow).ScanDest, keys...)
	for i, r := range rows {
		if !r.Deleted {
			rows[i].Version = readmodel.NewestVersion(record.KindNetworkPerson, r.ProfileID, r.Version,
				r.ContentHash, seen)
		}
	}
	return rows
}

// Answers returns the answers of accounts, in no order.
func (s *Store) Answers(ids ...int64) []readmodel.AnswerRow {
	newest := map[int64]readmodel.AnswerRow{}
	for _, r := range Query(s, readmodel.AnswersQuery(), (*readmodel.AnswerRow).ScanDest, ids...) {
		if other, have := newest[r.UserID]; !have || r.Newer(&other) {
			newest[r.UserID] = r
		}
	}
	seen := Query(s, readmodel.VersionBumpsQuery(), (*readmodel.VersionBumpRow).ScanDest, ids...)
	var out []readmodel.AnswerRow
	for _, r := range newest {
		r.Version = readmodel.NewestVersion(record.KindCodehostPerson, strconv.FormatInt(r.UserID, 10), r.Version,
			r.ContentHash, seen)
		out = append(out, r)
	}
	return out
}

// Entries returns the fields of the entries of an account's list, without braces.
func (s *Store) Entries(list string, shape readmodel.Shape, row readmodel.AnswerRow) []string {
	s.TB.Helper()
	var lists map[string]jsontext.Value
	require.NoError(s.TB, json.Unmarshal(append(row.AppendEntries([]byte{'{'}, shape), '}'), &lists))
	if lists[list] == nil {
		return nil
	}
	var entries []jsontext.Value
	require.NoError(s.TB, json.Unmarshal(lists[list], &entries))
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = strings.Trim(string(e), "{}")
	}
	return out
}

// Account returns the account of an answer as an object.
func Account(row readmodel.AnswerRow, shape readmodel.Shape) string {
	return string(append(row.AppendAccount([]byte{'{'}, shape), '}'))
}

// Count returns the number that a statement selects.
func (s *Store) Count(sql string) uint64 {
	s.TB.Helper()
	var n uint64
	require.NoError(s.TB, s.Conn.QueryRow(s.TB.Context(), sql).Scan(&n), sql)
	return n
}

// Eventually polls until check is satisfied.
func Eventually(tb testing.TB, check func(ctx context.Context) bool, what string) {
	tb.Helper()
	require.Eventually(tb, func() bool { return check(tb.Context()) }, 2*time.Minute, 20*time.Millisecond, what)
}
