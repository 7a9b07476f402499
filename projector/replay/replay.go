package replay

import (
	"cmp"
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
	"muster/projector/answers"
	"muster/projector/linked"
	"muster/projector/migrations"
	"muster/projector/project"
	"muster/schemas/readmodel"
)

// groupPrefix is the prefix of a replay's consumer group; the replay's id follows.
const groupPrefix = "muster.replay."

// Config configures Tables. Only Projector.Kafka is required.
type Config struct {
	// Projector configures how topics are read; its Group is ignored.
	Projector project.Config
	// Tables are the tables to rebuild; default all of readmodel.Models.
	Tables []string
	// Restart discards the state of an unfinished replay instead of resuming it.
	Restart bool
	// SliceRows is the number of rows compared at a time; default 2,000,000. ClickHouse needs about 200 bytes
	// of memory for each.
	SliceRows uint64
	// FreezeTimeout bounds how long inserts into the live tables are paused while the last records are
	// replayed; default 30 s.
	FreezeTimeout time.Duration
}

// Deps are the dependencies of replays.
type Deps struct {
	project.Deps
	Progress Progress // nil: progress is not reported
}

// Progress displays the progress of long work.
type Progress interface {
	// Begin starts a step with a total, in arbitrary units.
	Begin(label string, total int64)
	// Set reports how much of the total is done.
	Set(done int64)
	// End ends the step.
	End()
}

func (d Deps) withDefaults() Deps {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Progress == nil {
		d.Progress = noProgress{}
	}
	return d
}

type noProgress struct{}

func (noProgress) Begin(string, int64) {}
func (noProgress) Set(int64)           {}
func (noProgress) End()                {}

// Rebuilt is the result of a replay for one table.
type Rebuilt struct {
	Table string `json:"table"`
	// Kept is the name of the retired table, which was live before.
	Kept string `json:"kept"`
	// Before and After are the numbers of identities, including deleted ones.
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	// FromLive is the number of rows copied from the live table, because it had a newer version or the only
	// one.
	FromLive uint64 `json:"from_live"`
	// Added and Newer are the numbers of identities that the live table lacked or had in an older version.
	Added uint64 `json:"added"`
	Newer uint64 `json:"newer"`
	// Partitions is the number of hash ranges compared by a checksum of identity and version; Equal is how
	// many did not change.
	Partitions int `json:"partitions"`
	Equal      int `json:"equal"`
}

// Report is the result of a replay.
type Report struct {
	ID            string        `json:"id"`
	Resumed       bool          `json:"resumed"` // an unfinished replay was resumed
	Tables        []Rebuilt     `json:"tables"`
	InsertsPaused time.Duration `json:"frozen"` // how long inserts into the live tables were paused
}

// Tables rebuilds read models from the topics in shadow tables and swaps them with the live ones, while the
// live projector and the API keep running:
//
//  1. It creates the shadow tables and reads the topics from their beginning to their end, in its own
//     consumer group.
//  2. It copies rows from the live table that the topics lack or have only in an older version: compaction
//     keeps the last offset of a key, not its newest version. The newer version wins.
//  3. It compares: no identity of the live table may be missing or older, except for records that the replay
//     has not reached yet.
//  4. It pauses inserts into the live tables (projectors wait as in an overload; reads continue), replays
//     the records published until then, and exchanges the tables. The batches that projectors held back go to
//     the new tables.
//  5. It requests builds of the answers that differ (Answers rebuilds all of them), and refreshes the linked accounts
//     of people.
//  6. The retired tables keep their rows under another name until DropRetired.
//
// No answer goes back to an older version and none is missing in the meantime. Calling it again resumes a
// replay that was killed. If it was killed in step 4, inserts stay paused until Tables or Abort is called. Rejected
// records are not published again.
func Tables(ctx context.Context, cfg Config, deps Deps) (Report, error) {
	if deps.Conn == nil || deps.Logger == nil {
		return Report{}, errors.New("replay: no connection to ClickHouse, or no logger")
	}
	cfg.SliceRows = cmp.Or(cfg.SliceRows, defaultSliceRows)
	cfg.FreezeTimeout = cmp.Or(cfg.FreezeTimeout, defaultFreezeTimeout)
	deps = deps.withDefaults()
	models, err := chooseModels(cfg.Tables)
	if err != nil {
		return Report{}, err
	}
	r := &replay{cfg: cfg, deps: deps, models: models}
	err = migrations.WithLock(ctx, deps.Conn, deps.Logger, func(ctx context.Context, layout readmodel.Layout) error {
		r.layout = layout
		return r.run(ctx)
	})
	if err != nil {
		return r.report, fmt.Errorf("replay: %w", err)
	}
	return r.report, nil
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
			return nil, fmt.Errorf("replay: unknown read model %q; the read models are %s", name,
				strings.Join(readmodel.Tables(), ", "))
		}
	}
	return chosen, nil
}

type replay struct {
	cfg    Config
	deps   Deps
	models []readmodel.Model
	layout readmodel.Layout
	tables []readmodel.Rebuild
	group  string
	topics []string
	report Report

	progress *progress
	stop     func() error // ends the projection and waits for it
}

func (r *replay) run(ctx context.Context) (err error) {
	if err := r.plan(ctx); err != nil {
		return err
	}
	if err := r.resumeInserts(ctx); err != nil {
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
	if err := r.copyNewerFromLive(ctx); err != nil {
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
		r.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "replay: done, but deleting its consumer group failed; it "+
			"expires with its offsets", slog.Any("error", err))
	}
	return nil
}

// touch requests builds of the answers that differ from the rows that are live now, and refreshes linked accounts.
func (r *replay) touch(ctx context.Context) (err error) {
	w := bus.NewWriter(r.cfg.Projector.Kafka, bus.WithWriterLogger(r.deps.Logger))
	defer func() { err = errors.Join(err, w.Close()) }()
	if _, err := answers.TouchDiffering(ctx, r.deps.Conn, w); err != nil {
		return fmt.Errorf("tables were exchanged, but requesting builds of differing answers failed; they are built "+
			"within an hour: %w", err)
	}
	announce := func(ctx context.Context, people []string) error { return linked.Announce(ctx, w, people) }
	if _, err := refreshLinked(ctx, r.deps, announce); err != nil {
		return fmt.Errorf("tables were exchanged, but refreshing linked accounts failed; run muster replay answers: %w",
			err)
	}
	return nil
}

// plan resumes an unfinished replay or begins a new one.
func (r *replay) plan(ctx context.Context) error {
	found, err := findRebuilds(ctx, r.deps.Conn, r.layout)
	if err != nil {
		return err
	}
	maps.DeleteFunc(found.open, func(_ string, tables []string) bool { // Answers starts over.
		return slices.Equal(tables, []string{readmodel.AnswersTable})
	})
	if len(found.open) > 1 {
		return fmt.Errorf("several unfinished replays exist (%s): abort them with muster replay --abort",
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
				return fmt.Errorf("an unfinished replay of %s exists: resume it with the same tables, or abort it "+
					"with muster replay --abort", strings.Join(open, ", "))
			}
		}
		if len(open) > 0 && len(open) == len(remaining) && !r.cfg.Restart {
			same, err := r.sameSchema(ctx, id, open)
			if err != nil {
				return err
			}
			if same {
				r.report.Resumed = true
				r.begin(id, remaining)
				return nil
			}
			r.deps.Logger.LogAttrs(ctx, slog.LevelInfo,
				"replay: live tables changed since the interrupted replay, starting over")
		}
		for _, table := range open {
			if err := r.exec(ctx, rebuildOf(r.layout, table, id).Drop(rebuildOf(r.layout, table,
				id).ShadowTable())...); err != nil {
				return err
			}
		}
		if err := bus.DeleteGroup(ctx, r.cfg.Projector.Kafka, groupPrefix+id); err != nil {
			return err
		}
	}
	var all []string
	for _, m := range r.models {
		all = append(all, m.Table)
	}
	r.begin(newID(r.deps.Now()), all)
	return nil
}

// newID returns the id of a replay that begins now.
func newID(now time.Time) string {
	return strings.Replace(strings.ToLower(now.UTC().Format("20060102T150405.000")), ".", "", 1)
}

// begin initializes the rebuild of tables under a replay id.
func (r *replay) begin(id string, tables []string) {
	r.report.ID, r.group = id, groupPrefix+id
	for _, table := range tables {
		t := rebuildOf(r.layout, table, id)
		r.tables = append(r.tables, t)
		r.topics = append(r.topics, t.Topics...)
	}
	slices.Sort(r.topics)
	r.topics = slices.Compact(r.topics)
}

// finishSwapped retires the tables that an interrupted replay had already exchanged, and returns the others.
func (r *replay) finishSwapped(ctx context.Context, id string, open []string, found rebuilds) ([]string, error) {
	var rest []string
	for _, table := range open {
		if !found.swapped(r.layout, table, id) {
			rest = append(rest, table)
			continue
		}
		t := rebuildOf(r.layout, table, id)
		if err := r.exec(ctx, append([]string{t.ResumeInserts(t.ShadowTable())}, t.Retire()...)...); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// rebuildOf returns the rebuild of a table. For a table that is not a model, such as one of an earlier
// release, it supports Drop only.
func rebuildOf(layout readmodel.Layout, table, id string) readmodel.Rebuild {
	all := readmodel.Models()
	i := slices.IndexFunc(all, func(m readmodel.Model) bool { return m.Table == table })
	if i < 0 {
		return readmodel.Rebuild{Model: readmodel.Model{Table: table, Key: []string{"tuple()"}}, Layout: layout, ID: id}
	}
	return readmodel.Rebuild{Model: all[i], Layout: layout, ID: id}
}

// rebuilds are the shadow and retired tables that exist.
type rebuilds struct {
	open map[string][]string // shadow tables by replay id
	// retired tables by replay id
	old      map[string][]string
	comments map[string]string // of every table
}

// swapped reports whether the live table is the one that the replay built.
func (f rebuilds) swapped(layout readmodel.Layout, table, id string) bool {
	return strings.Contains(f.comments[layout.Local(table)], rebuildOf(layout, table, id).Marker())
}

func findRebuilds(ctx context.Context, conn driver.Conn, layout readmodel.Layout) (found rebuilds, err error) {
	found = rebuilds{open: map[string][]string{}, old: map[string][]string{}, comments: map[string]string{}}
	var tables []struct {
		Name    string `ch:"name"`
		Comment string `ch:"comment"`
	}
	err = conn.Select(ctx, &tables,
		"SELECT name, comment FROM system.tables WHERE database = currentDatabase() ORDER BY name")
	if err != nil {
		return found, fmt.Errorf("list tables: %w", err)
	}
	for _, t := range tables {
		found.comments[t.Name] = t.Comment
		// On a cluster the distributed table may be missing, if its creation was interrupted.
		logical := t.Name
		if layout.Cluster != "" {
			logical = strings.TrimSuffix(t.Name, layout.Local(""))
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

// resumeInserts resumes inserts into the live tables.
func (r *replay) resumeInserts(ctx context.Context) error {
	for _, t := range r.tables {
		if err := r.exec(ctx, t.ResumeInserts(t.Table)); err != nil {
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

// createQuery returns the server's CREATE query of a table; on a cluster that of the local table.
func createQuery(
	ctx context.Context, conn driver.Conn, layout readmodel.Layout, table string,
) (query string, err error) {
	err = conn.QueryRow(ctx, "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND "+
		"name = $1", layout.Local(table)).Scan(&query)
	if err != nil {
		return "", fmt.Errorf("read the CREATE query of %s: %w", table, err)
	}
	return query, nil
}

// sameSchema reports whether the shadow tables of an interrupted replay have the schema of the live ones.
// Migrations change live tables only.
func (r *replay) sameSchema(ctx context.Context, id string, tables []string) (bool, error) {
	for _, table := range tables {
		t := rebuildOf(r.layout, table, id)
		live, err := r.createQuery(ctx, t.Table)
		if err != nil {
			return false, err
		}
		fresh, err := r.createQuery(ctx, t.ShadowTable())
		if errors.Is(err, sql.ErrNoRows) { // Exists on another node of the cluster only.
			return false, nil
		}
		if err != nil {
			return false, err
		}
		same, err := t.MatchesSchema(fresh, live)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// DropRetired drops the retired tables of replays and returns their names. Readers do not use them.
func DropRetired(ctx context.Context, conn driver.Conn, logger *slog.Logger) (dropped []string, err error) {
	err = migrations.WithLock(ctx, conn, logger, func(ctx context.Context, layout readmodel.Layout) error {
		found, err := findRebuilds(ctx, conn, layout)
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(found.old)) {
			for _, table := range found.old[id] {
				t := rebuildOf(layout, table, id)
				if err := execAll(ctx, conn, t.Drop(t.RetiredTable())...); err != nil {
					return err
				}
				dropped = append(dropped, t.RetiredTable())
			}
		}
		return nil
	})
	if err != nil {
		return dropped, fmt.Errorf("drop old tables: %w", err)
	}
	return dropped, nil
}

// Abort aborts an unfinished replay: it resumes inserts into the live tables and drops the shadow
// tables that are not live yet, and returns their names. Without an unfinished replay it does nothing.
func Abort(
	ctx context.Context, kafka bus.Config, conn driver.Conn, logger *slog.Logger,
) (dropped []string, err error) {
	err = migrations.WithLock(ctx, conn, logger, func(ctx context.Context, layout readmodel.Layout) error {
		found, err := findRebuilds(ctx, conn, layout)
		if err != nil {
			return err
		}
		for _, m := range readmodel.Models() {
			t := rebuildOf(layout, m.Table, "none")
			if _, exists := found.comments[layout.Local(m.Table)]; exists {
				if err := execAll(ctx, conn, t.ResumeInserts(t.Table)); err != nil {
					return err
				}
			}
		}
		for id, open := range found.open {
			r := &replay{layout: layout, deps: Deps{Deps: project.Deps{Conn: conn}}}
			if open, err = r.finishSwapped(ctx, id, open, found); err != nil {
				return err
			}
			for _, table := range open {
				t := rebuildOf(layout, table, id)
				if err := execAll(ctx, conn, t.Drop(t.ShadowTable())...); err != nil {
					return err
				}
				dropped = append(dropped, t.ShadowTable())
			}
			if err := bus.DeleteGroup(ctx, kafka, groupPrefix+id); err != nil {
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
