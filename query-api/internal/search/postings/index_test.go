package postings_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	chclient "muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/platform/polltest"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
	"muster/schemas/readmodel"
)

// table is search_people with people whose headline is one word: a or b.
type table struct {
	t    *testing.T
	conn driver.Conn
	read atomic.Int64 // statements
	rows atomic.Int64
}

func newTable(t *testing.T) *table {
	t.Helper()
	conn, err := chclient.Open(t.Context(), chclient.Config{DSN: enginetest.DSN(t), MaxOpenConns: 12})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	files, err := readmodel.Migrations()
	require.NoError(t, err)
	migrations, err := chclient.LoadMigrations(files, readmodel.Layout{})
	require.NoError(t, err)
	_, err = chclient.Migrate(t.Context(), conn, migrations, chclient.MigrateConfig{})
	require.NoError(t, err)
	return &table{t: t, conn: conn}
}

// put writes versions of the people numbered from from to before to; word is an expression of number.
func (x *table) put(ctx context.Context, version, from, to int, word, deleted string) {
	x.t.Helper()
	require.NoError(
		x.t,
		x.conn.Exec(
			ctx,
			fmt.Sprintf(
				`INSERT INTO search_people (profile_hash, profile_id, version, content_hash, deleted,
				profile_headline_tokens, profile_connections)
		SELECT cityHash64(number), toString(number), %d, 0, %s, [%s], number FROM numbers(%d, %d)`,
				version,
				deleted,
				word,
				from,
				to-from,
			),
		),
	)
}

func (x *table) do(ctx context.Context, sql string) {
	x.t.Helper()
	require.NoError(x.t, x.conn.Exec(ctx, sql))
}

// query is a postings.Query.
func (x *table) query(ctx context.Context, _ string, s planner.Statement, scan func(driver.Rows) error) error {
	x.read.Add(1)
	ctx = clickhouse.Context(
		ctx,
		clickhouse.WithParameters(clickhouse.Parameters(s.Parameters)),
		clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1}),
	)
	rows, err := x.conn.Query(ctx, s.SQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		x.rows.Add(1)
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rowsOf runs a statement and passes its rows to scan.
func (x *table) rowsOf(
	ctx context.Context, s planner.Statement, through *replicated, scan func(driver.Rows) error,
) error {
	rows, err := x.conn.Query(ctx, s.SQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for through.Rows = rows; through.Next(); {
		if err := scan(through); err != nil {
			return err
		}
	}
	return rows.Err()
}

func newIndex(t *testing.T, cfg postings.Config, query postings.Query) *postings.Index {
	t.Helper()
	people := readmodel.PeopleCollection()
	cfg.Collection = &people
	x := postings.New(cfg, query)
	t.Cleanup(x.Close)
	return x
}

func headline(word string) algebra.Node {
	for _, f := range readmodel.SearchFields() {
		if f.Path == "profile.headline" {
			return algebra.Term{Field: algebra.Field{SearchField: f}, Text: word}
		}
	}
	return nil
}

// total returns how many people have a word, as of a snapshot.
func total(ctx context.Context, x *postings.Index, s *postings.Snapshot, word string) (int64, error) {
	a, err := x.Rank(ctx, s, &postings.Question{Node: headline(word), Stats: planner.NewStats(), Workers: 2})
	if err != nil {
		return 0, err
	}
	return a.Total, nil
}

func TestIndex_CountsEachPersonOnceWhilePartsChange(t *testing.T) {
	const people = 9000
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	db := newTable(t)
	ctx := t.Context()
	db.put(ctx, 1, 0, people, "'a'", "false")
	x := newIndex(t, postings.Config{}, db.query)
	writing, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	var compared atomic.Int64
	for range 4 {
		readers.Go(func() {
			for writing.Err() == nil {
				s, err := x.Latest(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				a, err := total(ctx, x, s, "a")
				var b int64
				if err == nil {
					b, err = total(ctx, x, s, "b")
				}
				if postings.Changed(err) {
					continue
				}
				if err != nil || a+b != people {
					t.Errorf("%d with a, %d with b, of %d: %v", a, b, people, err)
					return
				}
				compared.Add(1)
			}
		})
	}
	awaitComparison := func() {
		before := compared.Load()
		polltest.Until(t, time.Minute, func() bool { return t.Failed() || compared.Load() > before }, "compared")
	}
	awaitComparison()
	for i := range rounds {
		from := i * 997 % people
		db.put(ctx, 2+i, from, min(people, from+1500), fmt.Sprintf("if((number + %d) %% 3 = 0, 'a', 'b')", i), "false")
		if i%7 == 6 {
			db.do(ctx, "OPTIMIZE TABLE search_people FINAL")
		}
		awaitComparison()
	}
	stop()
	readers.Wait()
	require.Greater(t, compared.Load(), int64(rounds))
	var want uint64
	require.NoError(
		t,
		db.conn.QueryRow(ctx, "SELECT countIf(has(profile_headline_tokens, 'a')) FROM search_people FINAL").Scan(&want),
	)
	var got int64
	polltest.Until(t, time.Minute, func() bool { // merges may go on
		s, err := x.Latest(ctx)
		require.NoError(t, err)
		got, err = total(ctx, x, s, "a")
		return !postings.Changed(err) && err == nil
	}, "answered")
	require.EqualValues(t, want, got)
}

func TestIndex_ReadsEachPartOnce(t *testing.T) {
	db := newTable(t)
	ctx := t.Context()
	db.do(ctx, "SYSTEM STOP MERGES search_people")
	db.put(ctx, 1, 0, 5000, "if(number % 2 = 0, 'a', 'b')", "false")
	x := newIndex(t, postings.Config{}, db.query)
	ask := func(want int64) (rows int64) {
		t.Helper()
		before := db.rows.Load()
		s, err := x.Latest(ctx)
		require.NoError(t, err)
		require.Same(t, s, x.Current())
		got, err := total(ctx, x, s, "a")
		require.NoError(t, err)
		require.Equal(t, want, got)
		return db.rows.Load() - before
	}
	require.Greater(t, ask(2500), int64(5000))
	require.EqualValues(t, 1, ask(2500), "the list of parts alone")
	require.EqualValues(t, 1, ask(2500))
	db.put(ctx, 2, 0, 10, "'a'", "false")
	require.Less(t, ask(2505), int64(5000+100), "the identities of the large part, all of the small one")
	db.put(ctx, 3, 0, 10, "'a'", "true")
	require.Less(t, ask(2495), int64(100))
	db.do(ctx, "SYSTEM START MERGES search_people")
	db.do(ctx, "OPTIMIZE TABLE search_people FINAL")
	require.Greater(t, ask(2495), int64(5000))
	db.do(ctx, "TRUNCATE TABLE search_people")
	require.Zero(t, ask(0), "of an empty table")
}

func TestIndex_UnavailableIfHashesExceedMemory(t *testing.T) {
	db := newTable(t)
	db.put(t.Context(), 1, 0, 20_000, "'a'", "false")
	x := newIndex(t, postings.Config{MaxBytes: 20_000}, db.query)
	_, err := x.Latest(t.Context())
	var unavailable *postings.Unavailable
	require.ErrorAs(t, err, &unavailable)
	require.Contains(t, unavailable.Reason, "20000 people")
	require.Contains(t, unavailable.Reason, "--search-index-memory")
}

// A failed refresh keeps the parts that it has read.
func TestIndex_ReadsOnAfterCallTimesOut(t *testing.T) {
	db := newTable(t)
	ctx := t.Context()
	db.do(ctx, "SYSTEM STOP MERGES search_people")
	db.put(ctx, 1, 0, 3000, "'a'", "false")
	db.put(ctx, 1, 3000, 4000, "'b'", "false")
	read := make(map[string]int)
	var mu sync.Mutex
	release := make(chan struct{})
	var fail atomic.Bool
	fail.Store(true)
	x := newIndex(
		t,
		postings.Config{},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			if step == "people" {
				mu.Lock()
				read[fmt.Sprint(s.SQL, s.Parameters)]++
				n := len(read)
				mu.Unlock()
				if n == 1 {
					<-release
				}
				if n == 2 && fail.CompareAndSwap(true, false) {
					return context.DeadlineExceeded
				}
			}
			return db.query(ctx, step, s, scan)
		},
	)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := x.Latest(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(release)
	var s *postings.Snapshot
	polltest.Until(
		t,
		time.Minute,
		func() bool { s, err = x.Latest(ctx); return err == nil },
		"not read: %v",
		func() any { return err },
	)
	n, err := total(ctx, x, s, "b")
	require.NoError(t, err)
	require.EqualValues(t, 1000, n)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, read, 2)
	sum := 0
	for _, times := range read {
		sum += times
	}
	require.Equal(t, 3, sum, "only the failed part is read again")
}

// Parts disappear before they are read until one refresh finds all of them.
func TestIndex_RefreshesUntilPartsStay(t *testing.T) {
	db := newTable(t)
	ctx := t.Context()
	db.put(ctx, 1, 0, 1000, "'a'", "false")
	var changes atomic.Int64
	version := 1
	x := newIndex(
		t,
		postings.Config{},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			if err := db.query(ctx, step, s, scan); err != nil || step != "people" || changes.Load() == 0 {
				return err
			}
			changes.Add(-1)
			version++
			db.put(ctx, version, 0, 10, "'a'", "false")
			db.do(ctx, "OPTIMIZE TABLE search_people FINAL")
			return nil
		},
	)
	_, err := x.Latest(ctx)
	require.NoError(t, err)
	changes.Store(9)
	db.put(ctx, 2, 0, 10, "'a'", "false")
	var latest *postings.Snapshot
	polltest.Until(t, time.Minute, func() bool { latest, err = x.Latest(ctx); return err == nil }, "not read: %v",
		func() any { return err })
	require.Zero(t, changes.Load())
	n, err := total(ctx, x, latest, "a")
	require.NoError(t, err)
	require.EqualValues(t, 1000, n)
}

// Terms of replaced, deleted and hidden people remain in the index of a part. Only then it is read whether others have
// them.
func TestIndex_LivingTermsAreThoseOfVisiblePeople(t *testing.T) {
	db := newTable(t)
	ctx := t.Context()
	x := newIndex(t, postings.Config{}, db.query)
	living := func(hidden ...uint64) ([]string, bool) {
		var terms []string
		var before int64
		for {
			s, err := x.Latest(ctx)
			require.NoError(t, err)
			before = db.read.Load()
			terms, err = x.Living(ctx, s, headline("").(algebra.Term).Field, []string{"a", "b"}, hidden, false)
			if postings.Changed(err) {
				continue
			}
			require.NoError(t, err)
			return terms, db.read.Load() > before
		}
	}
	db.put(ctx, 1, 0, 100, "if(number < 10, 'a', 'b')", "false")
	terms, read := living()
	require.Equal(t, []string{"a", "b"}, terms)
	require.False(t, read, "all are visible")
	hashes := make([]uint64, 10)
	for i := range hashes {
		require.NoError(t, db.conn.QueryRow(ctx, fmt.Sprintf("SELECT cityHash64(%d)", i)).Scan(&hashes[i]))
	}
	terms, read = living(hashes[:9]...)
	require.Equal(t, []string{"a", "b"}, terms)
	require.True(t, read)
	terms, _ = living(hashes...)
	require.Equal(t, []string{"b"}, terms, "hidden")
	db.put(ctx, 2, 0, 10, "'b'", "false")
	terms, _ = living()
	require.Equal(t, []string{"b"}, terms, "replaced")
	db.do(ctx, "OPTIMIZE TABLE search_people FINAL")
	db.put(ctx, 3, 200, 300, "'a'", "false")
	db.do(ctx, "OPTIMIZE TABLE search_people FINAL")
	terms, read = living()
	require.Equal(t, []string{"a", "b"}, terms)
	require.False(t, read, "merged")
	db.do(ctx, "DELETE FROM search_people WHERE toUInt64(profile_id) >= 200")
	terms, _ = living()
	require.Equal(t, []string{"b"}, terms, "rows were deleted from the part")
}

func TestIndex_FinishesTimedOutLoadInBackground(t *testing.T) {
	const people = 1000
	db := newTable(t)
	db.put(t.Context(), 1, 0, people, "if(number % 2 = 0, 'a', 'b')", "false")
	ctx, cancel := context.WithCancel(t.Context())
	var waited, behind atomic.Int64
	x := newIndex(
		t,
		postings.Config{},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			switch {
			case step != "postings":
			case postings.IsBackground(ctx):
				behind.Add(1)
			case waited.Add(1) == 2:
				cancel()
				return ctx.Err()
			}
			return db.query(ctx, step, s, scan)
		},
	)
	s, err := x.Latest(ctx)
	require.NoError(t, err)
	words := []algebra.Node{headline("a"), headline("b")}
	for i := range 600 { // more than one statement reads
		words = append(words, headline(fmt.Sprint(i)))
	}
	either := &postings.Question{Node: algebra.Bool{Should: words, Minimum: 1}, Stats: planner.NewStats(), Workers: 1}
	_, err = x.Rank(ctx, s, either)
	require.ErrorIs(t, err, context.Canceled)
	polltest.Until(t, time.Minute, func() bool { return x.Bytes() > len(words)*384 }, "the rest is read")
	a, err := x.Rank(t.Context(), s, either)
	require.NoError(t, err)
	require.EqualValues(t, people, a.Total)
	require.EqualValues(t, 2, waited.Load())
	require.EqualValues(t, 1, behind.Load(), "one of the two was cached")
}

func TestIndex_WarmUpReadsPeopleAndForgetsMissingTable(t *testing.T) {
	db := newTable(t)
	var read atomic.Int64
	x := newIndex(
		t,
		postings.Config{},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			err := db.query(ctx, step, s, scan)
			read.Add(1)
			return err
		},
	)
	x.WarmUp(postings.Prefetch{})
	polltest.Until(t, time.Minute, func() bool { return read.Load() == 1 }, "lists the parts")
	db.put(t.Context(), 1, 0, 10, "'a'", "false")
	s, err := x.Latest(t.Context())
	require.NoError(t, err, "the missing table is not recorded")
	n, err := total(t.Context(), x, s, "a")
	require.NoError(t, err)
	require.EqualValues(t, 10, n)

	again := newIndex(t, postings.Config{}, db.query)
	again.WarmUp(postings.Prefetch{})
	polltest.Until(t, time.Minute, func() bool { return again.Current() != nil }, "the people are read")
}

// Statements that exceed a query's time read less at a time, so that repeated queries make progress.
func TestIndex_SplitsStatementsThatTimeOut(t *testing.T) {
	const leaves, leafTakes, patience = 16, 20 * time.Millisecond, 150 * time.Millisecond
	db := newTable(t)
	db.put(t.Context(), 1, 0, 1000, "concat('w', toString(number % 16))", "false")
	x := newIndex(
		t,
		postings.Config{},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			if postings.IsBackground(ctx) {
				return errors.New("not in this test")
			}
			if step == "postings" {
				select {
				case <-time.After(leafTakes * time.Duration(max(1, strings.Count(s.SQL, "(toUInt16(")))):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return db.query(ctx, step, s, scan)
		},
	)
	s, err := x.Latest(t.Context())
	require.NoError(t, err)
	q := algebra.Bool{Minimum: 1}
	for i := range leaves {
		q.Should = append(q.Should, headline("w"+strconv.Itoa(i)))
	}
	for turn := 1; ; turn++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		a, err := x.Rank(ctx, s, &postings.Question{Node: q, Stats: planner.NewStats(), Workers: 1})
		cancel()
		if err == nil {
			require.EqualValues(t, 1000, a.Total)
			break
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, turn, 100, "never answered")
	}
}

func TestIndex_PrefetchesLengthsOfLargeParts(t *testing.T) {
	const large = 100_000
	db := newTable(t)
	db.put(t.Context(), 1, 0, large, "'a'", "false")
	db.put(t.Context(), 1, large, large+10, "'b'", "false")
	var lengths, counted atomic.Int64
	x := newIndex(
		t,
		postings.Config{},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			if step == "lengths" {
				if !postings.IsBackground(ctx) {
					return errors.New("a search is waiting")
				}
				lengths.Add(1)
			}
			return db.query(ctx, step, s, scan)
		},
	)
	x.WarmUp(postings.Prefetch{Node: headline("a"), Then: func(ctx context.Context, s *postings.Snapshot) error {
		if !postings.IsBackground(ctx) || s == nil {
			return errors.New("a search is waiting")
		}
		counted.Add(1)
		return nil
	}})
	polltest.Until(t, time.Minute, func() bool { return counted.Load() == 1 }, "prefetched")
	require.EqualValues(t, 1, lengths.Load())
	require.Greater(t, x.Bytes(), large, "a byte for each")
	db.put(t.Context(), 1, large+10, large+20, "'b'", "false")
	_, err := x.Latest(t.Context())
	require.NoError(t, err)
	db.do(t.Context(), "OPTIMIZE TABLE search_people FINAL")
	polltest.Until(t, time.Minute, func() bool {
		_, err := x.Latest(t.Context())
		require.NoError(t, err)
		return counted.Load() == 2
	}, "merged parts are prefetched")
	require.EqualValues(t, 2, lengths.Load(), "small parts are not")
}

// replicated returns the rows of PartsStatement as replicas of a cluster do: those of a single server for each replica
// that responds, and a row without a table.
type replicated struct {
	driver.Rows
	numbers []uint32
	next    int
	ended   bool
}

func (r *replicated) Next() bool {
	if r.next++; len(r.numbers) == 0 || r.next < len(r.numbers) && r.next > 0 {
		return len(r.numbers) > 0
	}
	r.next = 0
	if r.ended {
		return false
	}
	r.ended = !r.Rows.Next()
	return true
}

func (r *replicated) Scan(dest ...any) error {
	if r.ended {
		*dest[0].(*string) = ""
	} else if err := r.Rows.Scan(dest...); err != nil {
		return err
	}
	*dest[4].(*uint32) = r.numbers[r.next]
	*dest[2].(*string) = fmt.Sprint(r.numbers[r.next], *dest[2].(*string))
	return nil
}

// replicatedTable is a table whose shard has the replicas 1 and 2, with the same parts.
type replicatedTable struct {
	*table
	mu      sync.Mutex
	listed  []uint32       // the replicas that respond to the list of parts
	refuses map[string]int // how many statements of a step fail because the replica cannot be reached
	read    map[uint32]int // statements
	shards  int
}

func newReplicatedTable(t *testing.T) *replicatedTable {
	return &replicatedTable{
		table: newTable(t), listed: []uint32{1, 2}, refuses: make(map[string]int), read: make(map[uint32]int), shards: 1,
	}
}

func (x *replicatedTable) answer(numbers ...uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.listed = numbers
}

// refuse makes statements of a step fail although the replica responds to the list of parts.
func (x *replicatedTable) refuse(step string, times int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuses[step] = times
}

func (x *replicatedTable) index() *postings.Index {
	return newIndex(x.t, postings.Config{
		Cluster: func(context.Context) (string, int, error) { return "c", x.shards, nil },
	}, x.query)
}

func (x *replicatedTable) query(
	ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error,
) error {
	x.mu.Lock()
	up := slices.Clone(x.listed)
	x.mu.Unlock()
	if step == "parts" {
		require.True(x.t, s.SkipUnavailable)
		require.Contains(x.t, s.SQL, "clusterAllReplicas('c', system.parts)")
		rows := &replicated{numbers: up, next: len(up)}
		people := readmodel.PeopleCollection()
		return x.rowsOf(ctx, planner.PartsStatement("").Of(&people), rows, scan)
	}
	require.True(x.t, s.OneReplica && !s.SkipUnavailable, s.SQL)
	for _, number := range []uint32{1, 2} {
		own := fmt.Sprintf("FROM clusterAllReplicas('c', currentDatabase(), search_people_local, deleted * 0 + %d) "+
			"WHERE deleted * 0 = 0 AND _part ", number-1)
		if !strings.Contains(s.SQL, own) {
			continue
		}
		x.mu.Lock()
		x.read[number]++
		x.refuses[step]--
		refused := x.refuses[step] >= 0
		x.mu.Unlock()
		if refused || !slices.Contains(up, number) {
			return fmt.Errorf("statement: %w", &clickhouse.Exception{Code: 279})
		}
		s.SQL = strings.ReplaceAll(s.SQL, own, "FROM search_people WHERE _part ")
		return x.table.query(ctx, step, s, scan)
	}
	return fmt.Errorf("statement names no replica: %s", s.SQL)
}

func TestIndex_ReadsOneReplicaOfAShard(t *testing.T) {
	db := newReplicatedTable(t)
	ctx := t.Context()
	db.put(ctx, 1, 0, 3000, "if(number % 2 = 0, 'a', 'b')", "false")
	x := db.index()
	s, err := x.Latest(ctx)
	require.NoError(t, err)
	n, err := total(ctx, x, s, "a")
	require.NoError(t, err)
	require.EqualValues(t, 1500, n)
	require.Zero(t, db.read[2])
	db.answer(2)
	_, err = total(ctx, x, s, "b")
	require.True(t, postings.Changed(err), "parts of the first replica remain: %v", err)
	s, err = x.Latest(ctx)
	require.NoError(t, err)
	n, err = total(ctx, x, s, "b")
	require.NoError(t, err)
	require.EqualValues(t, 1500, n)
	require.Positive(t, db.read[2])
	db.answer(1, 2)
	again, err := x.Latest(ctx)
	require.NoError(t, err)
	require.Equal(t, s.Number, again.Number, "keeps the replica that responds")

	db.answer()
	_, err = x.Latest(ctx)
	require.ErrorContains(t, err, "no replica of ClickHouse answers")
	db.answer(1, 2)
	db.shards = 2
	_, err = x.Latest(ctx)
	require.ErrorContains(t, err, "2 shards", "partial results are an error")
}

// A replica that responds again when the parts are listed must not leave empty lists in the cache.
func TestIndex_RereadsReplicaThatCouldNotBeReached(t *testing.T) {
	db := newReplicatedTable(t)
	ctx := t.Context()
	db.put(ctx, 1, 0, 3000, "if(number % 2 = 0, 'a', 'b')", "false")
	x := db.index()
	db.refuse("people", 2)
	s, err := x.Latest(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, db.read[1], "the people of the part")
	db.refuse("postings", 1)
	_, err = total(ctx, x, s, "a")
	require.True(t, postings.Changed(err), "%v", err)
	again, err := x.Latest(ctx)
	require.NoError(t, err)
	require.Equal(t, s.Number, again.Number, "nothing has changed")
	n, err := total(ctx, x, again, "a")
	require.NoError(t, err)
	require.EqualValues(t, 1500, n)
}

// The builders of 64 lists of 20,000 texts take 1.4 MB.
func TestIndex_BoundsMemoryOfLeavesReadTogether(t *testing.T) {
	const people, words, memory = 20_000, 64, 1 << 20
	db := newTable(t)
	db.put(t.Context(), 1, 0, people, "concat('w', toString(number % 64))", "false")
	var statements, read atomic.Int64
	word := regexp.MustCompile(`\bw\d+\b`)
	x := newIndex(t, postings.Config{MaxBytes: memory},
		func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
			if step == "postings" {
				named := make(map[string]bool)
				for _, value := range s.Parameters {
					for _, w := range word.FindAllString(value, -1) {
						named[w] = true
					}
				}
				if len(named)*people*9/8 > memory/4 {
					return fmt.Errorf("a statement reads %d leaves", len(named))
				}
				statements.Add(1)
				read.Add(int64(len(named)))
			}
			return db.query(ctx, step, s, scan)
		})
	s, err := x.Latest(t.Context())
	require.NoError(t, err)
	q := algebra.Bool{Minimum: 1}
	for i := range words {
		q.Should = append(q.Should, headline("w"+strconv.Itoa(i)))
	}
	a, err := x.Rank(t.Context(), s, &postings.Question{Node: q, Stats: planner.NewStats(), Workers: 1})
	require.NoError(t, err)
	require.EqualValues(t, people, a.Total)
	require.EqualValues(t, words, read.Load())
	require.GreaterOrEqual(t, statements.Load(), int64(6))
}
