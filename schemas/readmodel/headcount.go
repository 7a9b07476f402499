package readmodel

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// HeadcountTable has the number of people who worked at a company, by year, from their positions. The projector counts
// all companies in runs, of which each has a partition; of a company the row of the newest run counts.
const HeadcountTable = "company_headcounts"

// minHeadcount is the minimum number of people of a year that is shown (rulings.md, Batches).
const minHeadcount = 5

// HeadcountRow is the headcount of a company by year. People[i] are those of Years[i], on its last day, or on the day
// of the run.
type HeadcountRow struct {
	CompanyHash uint64
	CompanyID   string
	Run         uint64 // microseconds since 1970-01-01T00:00:00Z
	Sample      uint32 // people with a dated position at the company
	Years       []uint16
	People      []uint32
}

// ScanDest returns the scan destinations in the order of HeadcountsQuery's columns.
func (r *HeadcountRow) ScanDest() []any {
	return []any{&r.CompanyHash, &r.CompanyID, &r.Run, &r.Sample, &r.Years, &r.People}
}

// At returns when the people were counted.
func (r *HeadcountRow) At() time.Time { return time.UnixMicro(int64(r.Run)).UTC() } //nolint:gosec // a time

// HeadcountsQuery returns the query for headcounts by CompanyHash. Compare CompanyID: hashes may collide. Of several
// rows of a company, the one with the greatest Run counts.
func HeadcountsQuery() string {
	return `SELECT company_hash, company_id, run, sample, years, people
FROM ` + HeadcountTable + `
WHERE company_hash IN {keys:Array(UInt64)}`
}

// headcountStatement counts people of the last 60 years. A position counts if it names the company by its ID or by the
// URL of its page, has a start, and goes on or has an end. The companies of URLs are joined, because shards have other
// companies than people.
func headcountStatement(run uint64, today string) string {
	least := strconv.FormatInt(SearchMissing, 10)
	date := func(ms string) string { return "toDate32(fromUnixTimestamp64Milli(" + ms + ", 'UTC'))" }
	day := "toDate32('" + today + "')"
	return `INSERT INTO ` + HeadcountTable + ` (company_hash, company_id, run, sample, years, people)
SELECT xxHash64(concat('company.company_id\0', company)), company, ` + strconv.FormatUint(run, 10) + `, count(),
    arrayFilter((y, n) -> n >= ` + strconv.Itoa(minHeadcount) + `, (sumMap(worked, ones) AS counts).1, counts.2) AS shown,
    arrayFilter(n -> n >= ` + strconv.Itoa(minHeadcount) + `, counts.2)
FROM
(
    SELECT company, profile_hash, arrayDistinct(arrayFlatten(groupArray(spans))) AS worked,
        arrayMap(y -> toUInt32(1), worked) AS ones
    FROM
    (
        SELECT entry.profile_hash AS profile_hash,
            if(entry.company_id != '', entry.company_id, paged.company_id) AS company,
            greatest(toYear(entry.started), toYear(` + day + `) - 60) AS first_year,
            multiIf(entry.current = 1, toYear(` + day + `), entry.ended = makeDate32(toYear(entry.ended), 12, 31),
                toYear(entry.ended), toYear(entry.ended) - 1) AS last_year,
            arrayMap(y -> toUInt16(y), range(first_year, least(last_year, toYear(` + day + `)) + 1)) AS spans
        FROM
        (
            SELECT profile_hash, company_id, lowerUTF8(decodeURLComponent(extract(url, '/company/([^/?#]+)'))) AS slug,
                ` + date("start_ms") + ` AS started, ` + date("end_ms") + ` AS ended, current
            FROM search_people FINAL
            ARRAY JOIN experience_company_id AS company_id, experience_company_url AS url,
                experience_start_date AS start_ms, experience_end_date AS end_ms, experience_is_current AS current
            WHERE NOT deleted AND start_ms != ` + least + ` AND (current = 1 OR end_ms != ` + least + `)
                AND (company_id != '' OR url != '')
        ) AS entry
        GLOBAL ANY LEFT JOIN
        (
            SELECT slug_key, company_id FROM network_companies FINAL WHERE NOT deleted AND slug_key != ''
        ) AS paged ON paged.slug_key = entry.slug
        WHERE company != '' AND entry.started <= ` + day + `
    )
    GROUP BY company, profile_hash
)
GROUP BY company
HAVING notEmpty(shown)`
}

// headcountBytes is the memory above which the server groups people on disk.
const headcountBytes = 256 << 20

// HeadcountState says what a run counted.
type HeadcountState struct {
	At time.Time // when it began; zero: there is none
	// Source is the HeadcountSource that was counted, 0 if the run is not complete.
	Source uint64
}

// CountHeadcounts counts the people of all companies and writes them as a run, which is complete when it returns nil.
// Rows of an interrupted run are as right as those of a complete one.
func CountHeadcounts(ctx context.Context, conn driver.Conn, state HeadcountState) error {
	settings := longStatement()
	settings["max_threads"], settings["max_bytes_before_external_group_by"] = 1, headcountBytes
	settings["distributed_foreground_insert"] = 1
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	run := uint64(state.At.UnixMicro())
	if err := conn.Exec(ctx, headcountStatement(run, state.At.UTC().Format(time.DateOnly))); err != nil {
		return fmt.Errorf("count people by company: %w", err)
	}
	// A row without a company marks the run as complete.
	mark := fmt.Sprintf("INSERT INTO %s (company_hash, company_id, run) SELECT %d, '', %d",
		HeadcountTable, state.Source, run)
	if err := conn.Exec(ctx, mark); err != nil {
		return fmt.Errorf("complete the count of people by company: %w", err)
	}
	return nil
}

// DropHeadcounts deletes the runs before a time: companies that the last run did not find fall out.
func DropHeadcounts(ctx context.Context, conn driver.Conn, layout Layout, before time.Time) error {
	return dropRuns(ctx, conn, layout, HeadcountTable, uint64(before.UnixMicro()))
}

// HeadcountSource returns a checksum of the people and companies that headcounts are counted from, and the newest run.
func HeadcountSource(ctx context.Context, conn driver.Conn) (sum uint64, newest HeadcountState, err error) {
	var run uint64
	row := conn.QueryRow(ctx, `SELECT bitXor(
    (SELECT groupBitXor(cityHash64(profile_hash, ver)) FROM search_people),
    (SELECT groupBitXor(cityHash64(company_hash, ver)) FROM network_companies)),
    ((SELECT max((run, if(company_id = '', company_hash, 0))) FROM `+HeadcountTable+`) AS newest).1, newest.2`)
	if err := row.Scan(&sum, &run, &newest.Source); err != nil {
		return 0, HeadcountState{}, fmt.Errorf("read the state of headcounts: %w", err)
	}
	if run > 0 {
		newest.At = time.UnixMicro(int64(run))
	}
	return sum, newest, nil
}
