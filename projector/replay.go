package projector

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// ReplayGroup begins the name of a replay's consumer group; its id ends it.
const ReplayGroup = "muster.replay."

// ReplayConfig configures a Replay. Only Projector.Kafka is required.
type ReplayConfig struct {
	// Projector says how the topics are read; its Group is not used.
	Projector Config
	// Tables to rebuild; default: all of readmodel.Models.
	Tables []string
	// Restart throws away what an unfinished replay has done; without it the
	// replay goes on.
	Restart bool
	// SliceRows is how many rows are compared at a time, in ClickHouse's memory
	// (about 200 bytes each); default 2,000,000.
	SliceRows uint64
	// FreezeTimeout bounds how long inserts into the live tables may pause while
	// the last records are replayed; default 30 s.
	FreezeTimeout time.Duration
}

// ReplayDeps are what a Replay works with; those of a Projector, and Progress.
type ReplayDeps struct {
	Deps
	Progress Progress // nil: none is shown
}

// Progress shows how long work goes on.
type Progress interface {
	// Begin starts a piece of work with a total, in units that mean nothing to
	// the one who looks.
	Begin(label string, total int64)
	// Set tells how much of it is done.
	Set(done int64)
	// End ends it.
	End()
}

type noProgress struct{}

func (noProgress) Begin(string, int64) {}
func (noProgress) Set(int64)           {}
func (noProgress) End()                {}

// Rebuilt says what a replay made of a table.
type Rebuilt struct {
	Table string `json:"table"`
	// Kept is the name of the table that was live before.
	Kept string `json:"kept"`
	// Before and After are numbers of identities, withdrawn ones included.
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	// FromLive were taken over from the live table, whose version was newer or
	// the only one.
	FromLive uint64 `json:"from_live"`
	// Added and Newer were missing, or older, in the live table.
	Added uint64 `json:"added"`
	Newer uint64 `json:"newer"`
	// Partitions of the identities were compared by a checksum of identity and
	// version; Equal had the same before and after.
	Partitions int `json:"partitions"`
	Equal      int `json:"equal"`
}

// ReplayReport is what a replay did.
type ReplayReport struct {
	ID      string        `json:"id"`
	Resumed bool          `json:"resumed"` // an earlier, unfinished one was continued
	Tables  []Rebuilt     `json:"tables"`
	Frozen  time.Duration `json:"frozen"` // how long inserts into the live tables paused
}

// Replay rebuilds read models from the topics in tables beside the live ones and
// puts them in their place, while the live projector and the API go on:
//
//  1. It makes the fresh tables and reads the topics into them from their
//     beginning, as a consumer group of its own, up to their end.
//  2. What the live table has and the topics have no more, or only older
//     (compaction keeps the last offset of a key, not its newest version), is
//     copied from it: the newer of topic and live table wins.
//  3. It compares: no identity of the live table may be missing or older, but for
//     records that the replay has not reached yet.
//  4. It stops inserts into the live tables, which projectors wait out as they do
//     an overload while reads go on, replays what was published until then, so
//     that the fresh tables hold all that the live ones do, and exchanges them.
//     The batches that projectors held back go to the new tables.
//  5. It has answers built that differ (ReplayAnswers builds all of them).
//  6. The tables that were live keep their rows under another name until DropOld.
//
// No answer goes back to an older version meanwhile, and none is missing. A replay
// that was killed goes on where it was when it is called again; until then nothing
// but inserts can be stopped (when it died in step 4), and calling it again, or
// AbortReplay, starts them. Rejected records are not published again.
func Replay(ctx context.Context, cfg ReplayConfig, deps ReplayDeps) (ReplayReport, error) {
	if deps.Conn == nil || deps.Logger == nil {
		return ReplayReport{}, errors.New("replay: no connection to ClickHouse, or no logger")
	}
	setDefault(&cfg.SliceRows, 2_000_000)
	setDefault(&cfg.FreezeTimeout, 30*time.Second)
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Progress == nil {
		deps.Progress = noProgress{}
	}
	models, err := chooseModels(cfg.Tables)
	if err != nil {
		return ReplayReport{}, err
	}
	r := &replay{cfg: cfg, deps: deps, models: models}
	err = exclusively(ctx, deps.Conn, deps.Logger, func(ctx context.Context, layout readmodel.Layout) error {
		r.layout = layout
		return r.run(ctx)
	})
	if err != nil {
		return r.report, fmt.Errorf("replay: %w", err)
	}
	return r.report, nil
}

// exclusively works while no other replay runs and nobody migrates, with the layout that
// the tables have. It waits as long as a holder that was killed is taken for alive.
func exclusively(ctx context.Context, conn driver.Conn, logger *slog.Logger, work func(context.Context, readmodel.Layout) error) error {
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil {
		return err
	}
	cfg := recorded(layout, clickhouse.MigrateConfig{WaitForOther: 45 * time.Second, Logger: logger})
	return clickhouse.Exclusively(ctx, conn, cfg, func(ctx context.Context) error { return work(ctx, layout) })
}

func chooseModels(tables []string) ([]readmodel.Model, error) {
	all := readmodel.Models()
	if len(tables) == 0 {
		return all, nil
	}
	var chosen []readmodel.Model
	for _, m := range all {
		if slices.Contains(tables, m.Table) {
			chosen = append(chosen, m)
		}
	}
	for _, name := range tables {
		if !slices.ContainsFunc(all, func(m readmodel.Model) bool { return m.Table == name }) {
			return nil, fmt.Errorf("replay: there is no read model %q; the read models are %s", name, strings.Join(readmodel.Tables(), ", "))
		}
	}
	return chosen, nil
}

type replay struct {
	cfg    ReplayConfig
	deps   ReplayDeps
	models []readmodel.Model
	layout readmodel.Layout
	tables []readmodel.Rebuild
	group  string
	topics []string
	report ReplayReport

	projector *Projector
	stop      func() error // ends the projector and waits for it
}

func (r *replay) run(ctx context.Context) (err error) {
	if err := r.plan(ctx); err != nil {
		return err
	}
	if err := r.thaw(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		if err := r.create(ctx, t); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.start(ctx, cancel); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	if err := r.keepNewer(ctx); err != nil {
		return err
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	if err := r.swap(ctx); err != nil {
		return err
	}
	if err := r.touch(ctx); err != nil {
		return err
	}
	if err := bus.DeleteGroup(ctx, r.cfg.Projector.Kafka, r.group); err != nil {
		r.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "the replay is done; its consumer group stays until its offsets expire", slog.Any("error", err))
	}
	return nil
}

// touch has answers built that differ from the rows that are live now.
func (r *replay) touch(ctx context.Context) (err error) {
	w := bus.NewWriter(r.cfg.Projector.Kafka, bus.WithWriterLogger(r.deps.Logger))
	defer func() { err = errors.Join(err, w.Close()) }()
	if _, err := touchDiffering(ctx, r.deps.Conn, w); err != nil {
		return fmt.Errorf("the tables are exchanged; the answers that differ are built within an hour: %w", err)
	}
	return nil
}

// plan finds an unfinished replay to go on with, or begins one.
func (r *replay) plan(ctx context.Context) error {
	found, err := findRebuilds(ctx, r.deps.Conn, r.layout)
	if err != nil {
		return err
	}
	maps.DeleteFunc(found.open, func(_ string, tables []string) bool { // ReplayAnswers begins anew
		return slices.Equal(tables, []string{readmodel.AnswersTable})
	})
	if len(found.open) > 1 {
		return fmt.Errorf("there are several unfinished replays (%s): give them up with AbortReplay (muster replay --abort)",
			strings.Join(slices.Sorted(maps.Keys(found.open)), ", "))
	}
	for id, open := range found.open {
		if open, err = r.finishSwapped(ctx, id, open, found); err != nil {
			return err
		}
		var remaining []string
		for _, m := range r.models {
			if !found.swapped(r.layout, m.Table, id) {
				remaining = append(remaining, m.Table)
			}
		}
		for _, table := range open {
			if !slices.Contains(remaining, table) {
				return fmt.Errorf("an unfinished replay of %s exists: finish it with the same tables, or give it up (muster replay --abort)", strings.Join(open, ", "))
			}
		}
		if len(open) > 0 && len(open) == len(remaining) && !r.cfg.Restart {
			same, err := r.madeAlike(ctx, id, open)
			if err != nil {
				return err
			}
			if same {
				r.report.Resumed = true
				r.begin(id, remaining)
				return nil
			}
			r.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "the tables have been changed since the replay was cut short, by a migration perhaps: it begins anew")
		}
		for _, table := range open {
			if err := r.exec(ctx, rebuildOf(r.layout, table, id).Drop(rebuildOf(r.layout, table, id).Fresh())...); err != nil {
				return err
			}
		}
		if err := bus.DeleteGroup(ctx, r.cfg.Projector.Kafka, ReplayGroup+id); err != nil {
			return err
		}
	}
	var all []string
	for _, m := range r.models {
		all = append(all, m.Table)
	}
	r.begin(strings.Replace(strings.ToLower(r.deps.Now().UTC().Format("20060102T150405.000")), ".", "", 1), all)
	return nil
}

// begin sets out to rebuild tables under an id.
func (r *replay) begin(id string, tables []string) {
	r.report.ID, r.group = id, ReplayGroup+id
	for _, table := range tables {
		t := rebuildOf(r.layout, table, id)
		r.tables = append(r.tables, t)
		r.topics = append(r.topics, t.Topics...)
	}
	slices.Sort(r.topics)
	r.topics = slices.Compact(r.topics)
}

// finishSwapped renames what a replay that died had exchanged already, and returns
// the tables that are not exchanged.
func (r *replay) finishSwapped(ctx context.Context, id string, open []string, found rebuilds) ([]string, error) {
	var rest []string
	for _, table := range open {
		if !found.swapped(r.layout, table, id) {
			rest = append(rest, table)
			continue
		}
		t := rebuildOf(r.layout, table, id)
		if err := r.exec(ctx, append([]string{t.Thaw(t.Fresh())}, t.Keep()...)...); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// rebuildOf is the rebuild of a table; a table that is no model, of an earlier
// release perhaps, can still be dropped.
func rebuildOf(layout readmodel.Layout, table, id string) readmodel.Rebuild {
	all := readmodel.Models()
	i := slices.IndexFunc(all, func(m readmodel.Model) bool { return m.Table == table })
	if i < 0 {
		return readmodel.Rebuild{Model: readmodel.Model{Table: table, Key: []string{"tuple()"}}, Layout: layout, ID: id}
	}
	return readmodel.Rebuild{Model: all[i], Layout: layout, ID: id}
}

// rebuilds are the tables that replays left.
type rebuilds struct {
	open     map[string][]string // table names by id
	old      map[string][]string
	comments map[string]string // of every table
}

// swapped says that the live table is the one that the replay made.
func (f rebuilds) swapped(layout readmodel.Layout, table, id string) bool {
	return strings.Contains(f.comments[layout.Local(table)], rebuildOf(layout, table, id).Marker())
}

func findRebuilds(ctx context.Context, conn driver.Conn, layout readmodel.Layout) (found rebuilds, err error) {
	found = rebuilds{open: map[string][]string{}, old: map[string][]string{}, comments: map[string]string{}}
	rows, err := conn.Query(ctx, "SELECT name, comment FROM system.tables WHERE database = currentDatabase() ORDER BY name")
	if err != nil {
		return found, fmt.Errorf("read the tables: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name, comment string
		if err := rows.Scan(&name, &comment); err != nil {
			return found, fmt.Errorf("read the tables: %w", err)
		}
		found.comments[name] = comment
		// Of a cluster's two tables the Distributed one may be missing: its making was interrupted.
		logical := name
		if layout.Cluster != "" {
			logical = strings.TrimSuffix(name, layout.Local(""))
		}
		table, id, old, ok := readmodel.ParseRebuilt(logical)
		if !ok {
			continue
		}
		to := found.open
		if old {
			to = found.old
		}
		if !slices.Contains(to[id], table) {
			to[id] = append(to[id], table)
		}
	}
	if err := rows.Err(); err != nil {
		return found, fmt.Errorf("read the tables: %w", err)
	}
	return found, nil
}

func (r *replay) exec(ctx context.Context, statements ...string) error {
	return execAll(ctx, r.deps.Conn, statements...)
}

func execAll(ctx context.Context, conn driver.Conn, statements ...string) error {
	for _, s := range statements {
		if err := conn.Exec(ctx, s); err != nil {
			first, _, _ := strings.Cut(s, "(")
			return fmt.Errorf("%s: %w", strings.TrimSpace(first), err)
		}
	}
	return nil
}

// thaw lets projectors insert again.
func (r *replay) thaw(ctx context.Context) error {
	for _, t := range r.tables {
		if err := r.exec(ctx, t.Thaw(t.Table)); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) create(ctx context.Context, t readmodel.Rebuild) error {
	existing, err := r.createQuery(ctx, t.Table)
	if err != nil {
		return err
	}
	statements, err := t.Create(existing)
	if err != nil {
		return err
	}
	return r.exec(ctx, statements...)
}

func (r *replay) createQuery(ctx context.Context, table string) (string, error) {
	return createQuery(ctx, r.deps.Conn, r.layout, table)
}

// createQuery is the query by which the server would make a table, the local one on a cluster.
func createQuery(ctx context.Context, conn driver.Conn, layout readmodel.Layout, table string) (query string, err error) {
	err = conn.QueryRow(ctx, "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = $1", layout.Local(table)).Scan(&query)
	if err != nil {
		return "", fmt.Errorf("read how %s was made: %w", table, err)
	}
	return query, nil
}

// madeAlike reports whether the fresh tables of a replay that was cut short are such as it would
// make now: a migration knows the live ones only.
func (r *replay) madeAlike(ctx context.Context, id string, tables []string) (bool, error) {
	for _, table := range tables {
		t := rebuildOf(r.layout, table, id)
		live, err := r.createQuery(ctx, t.Table)
		if err != nil {
			return false, err
		}
		fresh, err := r.createQuery(ctx, t.Fresh())
		if errors.Is(err, sql.ErrNoRows) { // on another node of a cluster only
			return false, nil
		}
		if err != nil {
			return false, err
		}
		same, err := t.MadeFrom(fresh, live)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// DropOld removes the tables that were live before a replay, and returns their
// names. Readers do not use them.
func DropOld(ctx context.Context, conn driver.Conn, logger *slog.Logger) (dropped []string, err error) {
	err = exclusively(ctx, conn, logger, func(ctx context.Context, layout readmodel.Layout) error {
		found, err := findRebuilds(ctx, conn, layout)
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(found.old)) {
			for _, table := range found.old[id] {
				t := rebuildOf(layout, table, id)
				if err := execAll(ctx, conn, t.Drop(t.Kept())...); err != nil {
					return err
				}
				dropped = append(dropped, t.Kept())
			}
		}
		return nil
	})
	if err != nil {
		return dropped, fmt.Errorf("drop old tables: %w", err)
	}
	return dropped, nil
}

// AbortReplay gives an unfinished replay up: inserts into the live tables go on,
// and the fresh tables that are not live yet are removed; it returns their names.
// Without an unfinished replay it does nothing.
func AbortReplay(ctx context.Context, kafka bus.Config, conn driver.Conn, logger *slog.Logger) (dropped []string, err error) {
	err = exclusively(ctx, conn, logger, func(ctx context.Context, layout readmodel.Layout) error {
		found, err := findRebuilds(ctx, conn, layout)
		if err != nil {
			return err
		}
		for _, m := range readmodel.Models() {
			t := rebuildOf(layout, m.Table, "none")
			if _, exists := found.comments[layout.Local(m.Table)]; exists {
				if err := execAll(ctx, conn, t.Thaw(t.Table)); err != nil {
					return err
				}
			}
		}
		for id, open := range found.open {
			r := &replay{layout: layout, deps: ReplayDeps{Deps: Deps{Conn: conn}}}
			if open, err = r.finishSwapped(ctx, id, open, found); err != nil {
				return err
			}
			for _, table := range open {
				t := rebuildOf(layout, table, id)
				if err := execAll(ctx, conn, t.Drop(t.Fresh())...); err != nil {
					return err
				}
				dropped = append(dropped, t.Fresh())
			}
			if err := bus.DeleteGroup(ctx, kafka, ReplayGroup+id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return dropped, fmt.Errorf("abort replay: %w", err)
	}
	return dropped, nil
}
