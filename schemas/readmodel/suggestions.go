package readmodel

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/place"
)

// SuggestionsTable has the values of search fields that at least three people have. The projector counts all of them
// in runs; readers use the newest complete one.
const SuggestionsTable = "suggestions"

// minSuggested is the minimum number of people who have a suggested value (rulings.md, Search).
const minSuggested = 3

// Identifies returns what the values of a field are if they name one person or organization, such as IDs; empty if they
// do not. They are neither aggregated nor suggested (rulings.md, Search).
func (f SearchField) Identifies() string {
	name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
	switch {
	case strings.HasSuffix(name, "_id"):
		return "IDs"
	case name == "first_name", name == "last_name", name == "full_name":
		return "names of people"
	case f.Path == "profile.name":
		return "names of companies"
	case strings.Contains(name, "email"):
		return "e-mail addresses"
	case strings.HasSuffix(name, "username"), strings.HasSuffix(name, "slug"):
		return "usernames"
	case strings.HasSuffix(name, "url"), name == "website", name == "domain":
		return "URLs"
	case name == "phone":
		return "phone numbers"
	}
	return ""
}

// SuggestedFields returns the fields whose values are suggested.
func SuggestedFields() []SearchField {
	return slices.DeleteFunc(SearchFields(), func(f SearchField) bool {
		return f.Type != SearchText || f.Identifies() != ""
	})
}

// SuggestionRun identifies a count of all values. Later runs are greater.
type SuggestionRun uint64

// runShift leaves room for random bits, so that runs of several replicas differ.
const runShift = 12

// NewSuggestionRun returns a run that began at a time, later than another one.
func NewSuggestionRun(began time.Time, after SuggestionRun) SuggestionRun {
	run := SuggestionRun(began.UnixMicro())<<runShift | SuggestionRun(rand.Uint64N(1<<runShift)) //nolint:gosec // no key
	return max(run, after+1)
}

// Began returns when the run began.
func (r SuggestionRun) Began() time.Time { return time.UnixMicro(int64(r >> runShift)) }

// SuggestionState is a complete run; the zero value stands for none.
type SuggestionState struct {
	Run SuggestionRun
	// Source is the SuggestionSource that was counted.
	Source uint64
}

// suggestionStates is the query for complete runs.
const suggestionStates = "SELECT run, people FROM " + SuggestionsTable + " WHERE field = ''"

// NewestSuggestions returns the newest complete run.
func NewestSuggestions(ctx context.Context, conn driver.Conn) (newest SuggestionState, err error) {
	err = readRows(ctx, conn, suggestionStates+" ORDER BY run DESC LIMIT 1", func(rows driver.Rows) error {
		return rows.Scan((*uint64)(&newest.Run), &newest.Source)
	})
	if err != nil {
		return newest, fmt.Errorf("read runs of suggestions: %w", err)
	}
	return newest, nil
}

// SuggestionSource returns a checksum of the people whose values are suggested. It changes with each inserted or
// deleted row.
func SuggestionSource(ctx context.Context, conn driver.Conn) (sum uint64, err error) {
	row := conn.QueryRow(ctx, "SELECT bitXor((SELECT groupBitXor(cityHash64(profile_hash, ver)) FROM search_people), "+
		"(SELECT groupBitXor(cityHash64(profile_id, ver)) FROM "+LinkedTable+"))")
	if err := row.Scan(&sum); err != nil {
		return 0, fmt.Errorf("read the state of people: %w", err)
	}
	return sum, nil
}

// suggestionRow is a row of suggestions.
type suggestionRow struct {
	Field  string `ch:"field"`
	Folded string `ch:"folded"`
	Value  string `ch:"value"`
	People uint64 `ch:"people"`
	Run    uint64 `ch:"run"`
}

const (
	// suggestionRows is the number of rows of one insert.
	suggestionRows = 50_000
	// suggestionBytes is the memory above which the server groups values on disk.
	suggestionBytes = 256 << 20
)

// CountSuggestions counts the values of all fields and writes them as a run, which is complete when it returns nil.
func CountSuggestions(ctx context.Context, conn driver.Conn, state SuggestionState) error {
	run := uint64(state.Run)
	w := suggestionWriter{conn: conn, token: "suggestions-" + strconv.FormatUint(run, 10)}
	counting := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_threads": 1, "max_bytes_before_external_group_by": suggestionBytes,
	}))
	for _, f := range SuggestedFields() {
		err := readRows(counting, conn, suggestionCounts(f), func(rows driver.Rows) error {
			r := suggestionRow{Field: f.Path, Run: run}
			if err := rows.Scan(&r.Value, &r.People); err != nil {
				return err
			}
			if !IsKeyword(r.Value) {
				return nil
			}
			r.Folded = place.FoldAccents(r.Value)
			return w.add(ctx, r)
		})
		if err != nil {
			return fmt.Errorf("count the values of %s: %w", f.Path, err)
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	w.rows.add(suggestionRow{People: state.Source, Run: run})
	return w.flush(ctx)
}

// suggestionCounts returns the query for the values of a field with the number of people who have them.
func suggestionCounts(f SearchField) string {
	value := f.Column
	if f.Nested != "" {
		value = "arrayJoin(arrayDistinct(" + value + "))"
	}
	from := "search_people FINAL WHERE NOT deleted"
	if f.Linked {
		from = LinkedTable + " FINAL WHERE (profile_hash, profile_id) GLOBAL IN " +
			"(SELECT profile_hash, profile_id FROM search_people FINAL WHERE NOT deleted)"
	}
	return "SELECT v, count() AS people FROM (SELECT " + value + " AS v FROM " + from + ") " +
		"WHERE v != '' GROUP BY v HAVING people >= " + strconv.Itoa(minSuggested)
}

// suggestionWriter inserts rows in groups.
type suggestionWriter struct {
	conn   driver.Conn
	token  string
	groups int
	rows   eventRows[suggestionRow]
}

func (w *suggestionWriter) add(ctx context.Context, r suggestionRow) error {
	w.rows.add(r)
	if w.rows.Len() < suggestionRows {
		return nil
	}
	return w.flush(ctx)
}

func (w *suggestionWriter) flush(ctx context.Context) error {
	w.groups++
	err := w.rows.insert(ctx, w.conn, SuggestionsTable, w.token+"-"+strconv.Itoa(w.groups))
	w.rows.rows = w.rows.rows[:0]
	return err
}

// DropSuggestions deletes the runs before one. Those of a replica that still writes them are deleted later.
func DropSuggestions(ctx context.Context, conn driver.Conn, layout Layout, before SuggestionRun) error {
	return dropRuns(ctx, conn, layout, SuggestionsTable, uint64(before))
}

// dropRuns drops the partitions of a table that have the runs before one.
func dropRuns(ctx context.Context, conn driver.Conn, layout Layout, table string, before uint64) error {
	var runs []uint64
	err := readRows(ctx, conn, "SELECT DISTINCT run FROM "+table+" WHERE run < "+strconv.FormatUint(before, 10),
		func(rows driver.Rows) error {
			var run uint64
			err := rows.Scan(&run)
			runs = append(runs, run)
			return err
		})
	if err != nil {
		return fmt.Errorf("list runs of %s: %w", table, err)
	}
	for _, run := range runs {
		if err := conn.Exec(ctx, "ALTER TABLE "+layout.Local(table)+layout.OnCluster()+" DROP PARTITION "+
			strconv.FormatUint(run, 10)); err != nil {
			return fmt.Errorf("drop old runs of %s: %w", table, err)
		}
	}
	return nil
}

// Suggestion is a value, and the number of people who have it.
type Suggestion struct {
	Value string `json:"value"`
	Count uint64 `json:"count"`
}

// Suggest returns up to limit values of a field that begin with a prefix, apart from case and accents: the most
// frequent first, then by value.
func Suggest(ctx context.Context, conn driver.Conn, field, prefix string, limit int) ([]Suggestion, error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		"field": field, "prefix": hex.EncodeToString([]byte(place.FoldAccents(prefix))),
	}), clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1, "wait_end_of_query": 1}))
	found := []Suggestion{}
	err := readRows(ctx, conn, "SELECT value, people FROM "+SuggestionsTable+" WHERE run = (SELECT max(run) FROM ("+
		suggestionStates+")) AND field = {field:String} AND startsWith(folded, unhex({prefix:String})) "+
		"ORDER BY people DESC, value LIMIT "+strconv.Itoa(limit), func(rows driver.Rows) error {
		var s Suggestion
		err := rows.Scan(&s.Value, &s.Count)
		found = append(found, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read suggestions: %w", err)
	}
	return found, nil
}
