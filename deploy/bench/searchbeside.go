package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	queryapi "muster/query-api"
	"muster/query-api/opensearchtest"
	"muster/schemas/readmodel"
)

// openSearchHeap is OpenSearch's heap in MiB: the resident memory allowed for the engine and the API (the bars in
// benchmarks.md).
const openSearchHeap = 700

// openSearchIndex is the name of the index.
const openSearchIndex = "people"

// searchTimes are the durations of a query in one of the two systems.
type searchTimes struct {
	total int64
	cold  time.Duration
	// p50 and p99 with 1 caller and with 8.
	p50, p99 [2]time.Duration
}

// measureSearch runs each query on muster and on OpenSearch, which has the same documents: once after both were started
// with a cold page cache, then repeatedly, with one and with eight callers, alternating.
func measureSearch(ctx context.Context, b *bench, out io.Writer) (err error) {
	node, err := b.startOpenSearch(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if node != nil {
			err = errors.Join(err, node.Close())
		}
	}()
	if err := b.indexOpenSearch(ctx, node, out); err != nil {
		return err
	}
	if err := b.mergePeople(ctx, out); err != nil {
		return err
	}
	if err := b.searchBytes(ctx, node, out); err != nil {
		return err
	}
	// Cold: restart both, and drop their files from the page cache.
	if err := errors.Join(node.Close(), b.close()); err != nil {
		return err
	}
	b.conn, b.process = nil, nil
	if err := evict(b.data); err != nil {
		return err
	}
	if node, err = b.startOpenSearch(ctx); err != nil {
		return err
	}
	if err := b.up(ctx); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	var times [][2]searchTimes
	cfg := queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, SearchTimeout: 50 * time.Second}
	err = b.serving(ctx, cfg, func(base string) (err error) {
		if times, err = b.compareSearches(ctx, b.musterSearch(base), openSearchSearch(node), node, out); err != nil {
			return err
		}
		return b.compareFacets(ctx, b.musterSearch(base), openSearchSearch(node), out)
	})
	if err != nil {
		return err
	}
	// The effect of caches.
	cfg.SearchDocuments = -1
	return b.serving(ctx, cfg, func(base string) error {
		return b.compareLess(ctx, "every document read from the table", b.musterSearch(base), times, out)
	})
}

// compareLess runs each query with one caller of an API with fewer caches, and prints the ratio to OpenSearch's times.
func (b *bench) compareLess(ctx context.Context, what string, ours *searchable, beside [][2]searchTimes,
	out io.Writer) error {
	length := b.searchLength()
	p50, p99 := 0.0, 0.0
	for i, q := range searches() {
		if _, err := ours.many(ctx, q.body, 1, length/5); err != nil { // warms up
			return fmt.Errorf("%s: %w", q.name, err)
		}
		calls, err := ours.many(ctx, q.body, 1, length)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		p50 += math.Log(ratio(quantile(calls, 0.5), beside[i][1].p50[0]))
		p99 += math.Log(ratio(quantile(calls, 0.99), beside[i][1].p99[0]))
	}
	n := float64(len(beside))
	fmt.Fprintf(out, "  1 caller, %s: p50 %.2f, p99 %.2f of OpenSearch's\n", what, math.Exp(p50/n), math.Exp(p99/n))
	return nil
}

// searchLength returns the duration per query, system and number of callers: a twentieth of a measurement.
func (b *bench) searchLength() time.Duration { return time.Duration(b.seconds) * time.Second / 20 }

// startOpenSearch starts OpenSearch and waits for the index of an earlier run.
func (b *bench) startOpenSearch(ctx context.Context) (*opensearchtest.Node, error) {
	dir := filepath.Join(b.data, "opensearch")
	node, err := opensearchtest.Start(ctx, opensearchtest.Options{Heap: openSearchHeap, Dir: dir})
	if err != nil || !exists(filepath.Join(dir, openSearchDone)) {
		return node, err
	}
	if err := node.Do(ctx, http.MethodGet, "/_cluster/health/"+openSearchIndex+"?wait_for_status=green&timeout=60s",
		nil, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("open the index: %w", err), node.Close())
	}
	return node, nil
}

// openSearchDone is the name of the file that marks a complete index.
const openSearchDone = "indexed"

// indexOpenSearch indexes the documents in OpenSearch, unless an earlier run has.
func (b *bench) indexOpenSearch(ctx context.Context, node *opensearchtest.Node, out io.Writer) error {
	done := filepath.Join(b.data, "opensearch", openSearchDone)
	if exists(done) {
		return nil
	}
	began := time.Now()
	// All settings but one shard, exact totals and best_compression are OpenSearch's defaults.
	if err := node.Make(ctx, openSearchIndex,
		map[string]any{"codec": "best_compression", "queries.cache.enabled": true}); err != nil {
		return err
	}
	rows, err := b.conn.Query(ctx,
		`SELECT concat('{', members, if(members = '', '', ','), '"updated_at":"', updated_at, '"}')
		FROM (SELECT `+readmodel.Members(readmodel.ShapeEnrich)+` AS members, updated_at FROM network_people FINAL
			WHERE NOT deleted)`)
	if err != nil {
		return fmt.Errorf("read the documents: %w", err)
	}
	defer func() { _ = rows.Close() }() // already read
	var batch [][]byte
	people := 0
	for more := true; more; {
		if more = rows.Next(); more {
			var document string
			if err := rows.Scan(&document); err != nil {
				return fmt.Errorf("read the documents: %w", err)
			}
			batch = append(batch, []byte(document))
		}
		if len(batch) >= 2000 || !more {
			if err := node.Add(ctx, openSearchIndex, batch); err != nil {
				return err
			}
			people += len(batch)
			batch = batch[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the documents: %w", err)
	}
	if err := node.Merge(ctx, openSearchIndex); err != nil {
		return err
	}
	fmt.Fprintf(out, "  OpenSearch has indexed and merged %d people in %.0f s\n", people, time.Since(began).Seconds())
	return os.WriteFile(done, nil, 0o600)
}

// mergePeople merges the people into one part, like OpenSearch's single segment. The engine does that by itself five
// minutes after the last insert.
func (b *bench) mergePeople(ctx context.Context, out io.Writer) error {
	began := time.Now()
	if err := b.conn.Exec(ctx,
		"OPTIMIZE TABLE search_people FINAL SETTINGS optimize_skip_merged_partitions = 1"); err != nil {
		return fmt.Errorf("merge the people: %w", err)
	}
	fmt.Fprintf(out, "  the people's parts merged to one in %.0f s\n", time.Since(began).Seconds())
	return nil
}

// searchBytes compares the disk usage of search.
func (b *bench) searchBytes(ctx context.Context, node *opensearchtest.Node, out io.Writer) error {
	counts, err := readmodel.Counts(ctx, b.conn)
	if err != nil {
		return err
	}
	var ours int64
	for _, c := range counts {
		if c.Table == "search_people" || c.Table == "network_people" || c.Table == "seen_versions" {
			fmt.Fprintf(out, "  %-16s %9d rows, %3d parts, %8.1f MB\n", c.Table, c.Rows, c.Parts, float64(c.Bytes)/1e6)
			ours += int64(c.Bytes)
		}
	}
	var stats struct {
		All struct {
			Primaries struct {
				Store struct {
					Size int64 `json:"size_in_bytes"`
				} `json:"store"`
			} `json:"primaries"`
		} `json:"_all"`
	}
	if err := node.Do(ctx, http.MethodGet, "/"+openSearchIndex+"/_stats/store", nil, &stats); err != nil {
		return err
	}
	theirs := stats.All.Primaries.Store.Size
	fmt.Fprintf(out,
		"  disk: %.1f MB in all tables that search reads, whole, %.1f MB in OpenSearch's index: %.2f (bar: 0.33)\n",
		float64(ours)/1e6, float64(theirs)/1e6, float64(ours)/float64(theirs))
	return nil
}

// musterSearch returns the search of the API.
func (b *bench) musterSearch(base string) *searchable {
	return &searchable{
		client: benchClient(), url: base + "/v1/person/search",
		header: http.Header{"Authorization": {"Bearer " + b.in.APIKey}, "Content-Type": {"application/json"}},
		body:   func(query string) string { return query },
		total: func(answer []byte) (int64, error) {
			var a struct {
				Total int64 `json:"total"`
			}
			err := json.Unmarshal(answer, &a)
			return a.Total, err
		},
	}
}

// openSearchSearch returns OpenSearch's search, with an exact total.
func openSearchSearch(node *opensearchtest.Node) *searchable {
	return &searchable{
		client: benchClient(), url: node.URL() + "/" + openSearchIndex + "/_search?request_cache=false",
		header: http.Header{"Content-Type": {"application/json"}},
		body:   func(query string) string { return `{"track_total_hits":true,` + query[1:] },
		total: func(answer []byte) (int64, error) {
			var a struct {
				Hits struct {
					Total struct {
						Value int64 `json:"value"`
					} `json:"total"`
				} `json:"hits"`
			}
			err := json.Unmarshal(answer, &a, jsontext.AllowDuplicateNames(true))
			return a.Hits.Total.Value, err
		},
	}
}

func benchClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true},
		Timeout: time.Minute}
}

// compareSearches prints a line for each query, and the bars.
func (b *bench) compareSearches(ctx context.Context, ours, theirs *searchable, node *opensearchtest.Node,
	out io.Writer) ([][2]searchTimes, error) {
	times, err := b.compareQueries(ctx, ours, theirs, out)
	if err != nil {
		return nil, err
	}
	for c, callers := range []string{"1 caller", "8 callers"} {
		fmt.Fprintf(out, "  geometric mean of %d queries to OpenSearch's, %s: p50 %.2f (bar: 1), p99 %.2f (bar: 1.5)\n",
			len(times), callers,
			meanRatio(times, func(t searchTimes) time.Duration { return t.p50[c] }),
			meanRatio(times, func(t searchTimes) time.Duration { return t.p99[c] }))
	}
	fmt.Fprintf(out, "  cold: %.2f\n", meanRatio(times, func(t searchTimes) time.Duration { return t.cold }))
	var slower []string
	for i, t := range times {
		if a, o := t[0].p50[0], t[1].p50[0]; a > max(3*o, 20*time.Millisecond) {
			slower = append(slower, fmt.Sprintf("%s (%.1f times, %.0f ms)", searches()[i].name, ratio(a, o), ms(a)))
		}
	}
	slices.Sort(slower)
	fmt.Fprintf(out, "  above 3 times OpenSearch's p50 and 20 ms (bar: none): %d %v\n", len(slower), slower)
	wide, err := compareFirst(ctx, "texts over all fields", wideSearches(), ours, theirs, out,
		func(s *searchable, body string) ([]time.Duration, error) {
			return s.many(ctx, body, 1, 2*b.searchLength())
		})
	if err != nil {
		return nil, err
	}
	cold := medians(slices.Concat(times, wide), func(t searchTimes) time.Duration { return t.cold })
	fmt.Fprintf(out, "  first calls of all %d queries, median: %.0f ms, OpenSearch's %.0f ms: %.2f times (bar: 1.2)\n",
		len(times)+len(wide), ms(cold[0]), ms(cold[1]), ratio(cold[0], cold[1]))
	return times, b.searchIndexMemory(node, out)
}

// meanRatio returns the geometric mean of our durations to theirs.
func meanRatio(times [][2]searchTimes, of func(t searchTimes) time.Duration) float64 {
	sum := 0.0
	for _, t := range times {
		sum += math.Log(ratio(of(t[0]), of(t[1])))
	}
	return math.Exp(sum / float64(len(times)))
}

// compareQueries prints a line for each query.
func (b *bench) compareQueries(ctx context.Context, ours, theirs *searchable, out io.Writer) ([][2]searchTimes, error) {
	list := searches()
	times := make([][2]searchTimes, len(list))
	for i, q := range list {
		for k, s := range []*searchable{ours, theirs} {
			var err error
			if times[i][k].total, times[i][k].cold, err = s.ask(ctx, q.body); err != nil {
				return nil, fmt.Errorf("%s: %w", q.name, err)
			}
		}
	}
	length := b.searchLength()
	fmt.Fprintf(out, "  %-38s %8s | %24s %17s | %24s %17s | %s\n", "ms, muster | OpenSearch", "total",
		"cold, 1 caller p50, p99", "8 callers", "cold, 1 caller p50, p99", "8 callers",
		"p50 and p99 to theirs, 1 caller, 8")
	for i, q := range list {
		for c, callers := range []int{1, 8} {
			for k, s := range []*searchable{ours, theirs} {
				if _, err := s.many(ctx, q.body, callers, length/5); err != nil { // warms up
					return nil, fmt.Errorf("%s: %w", q.name, err)
				}
				calls, err := s.many(ctx, q.body, callers, length)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", q.name, err)
				}
				times[i][k].p50[c], times[i][k].p99[c] = quantile(calls, 0.5), quantile(calls, 0.99)
			}
		}
		a, o := times[i][0], times[i][1]
		note := ""
		if a.total != o.total {
			note = fmt.Sprintf("  OpenSearch's total is %d", o.total)
		}
		line := func(t searchTimes) string {
			return fmt.Sprintf("%8.1f %7.1f %7.1f %8.1f %8.1f", ms(t.cold), ms(t.p50[0]), ms(t.p99[0]), ms(t.p50[1]),
				ms(t.p99[1]))
		}
		fmt.Fprintf(out, "  %-38s %8d | %42s | %42s | %5.2f %5.2f  %5.2f %5.2f%s\n", q.name, a.total, line(a), line(o),
			ratio(a.p50[0], o.p50[0]), ratio(a.p99[0], o.p99[0]), ratio(a.p50[1], o.p50[1]),
			ratio(a.p99[1], o.p99[1]), note)
	}
	return times, nil
}

// compareFacets prints a line for each view of /explore: its facets, counted by both systems.
func (b *bench) compareFacets(ctx context.Context, ours, theirs *searchable, out io.Writer) error {
	// A key may send 60 such searches a minute.
	times, err := compareFirst(ctx, "facets of a view", facetSearches(), ours, theirs, out,
		func(s *searchable, body string) (calls []time.Duration, err error) {
			for range 3 {
				_, took, failed := s.ask(ctx, body)
				calls, err = append(calls, took), errors.Join(err, failed)
			}
			slices.Sort(calls)
			return calls, err
		})
	if err != nil {
		return err
	}
	repeated := medians(times, func(t searchTimes) time.Duration { return t.p50[0] })
	fmt.Fprintf(out, "  facets, median of the p50 of %d views: %.0f ms (bar: 150), OpenSearch's %.0f ms\n", len(times),
		ms(repeated[0]), ms(repeated[1]))
	return nil
}

// medians returns the medians of our durations and theirs.
func medians(times [][2]searchTimes, of func(t searchTimes) time.Duration) (both [2]time.Duration) {
	for k := range both {
		list := make([]time.Duration, len(times))
		for i, t := range times {
			list[i] = of(t[k])
		}
		slices.Sort(list)
		both[k] = quantile(list, 0.5)
	}
	return both
}

// compareFirst prints a line for each query: the first, uncached call, and those of repeat, from one caller. It returns
// their times. Muster may reject a query that exceeds its time limit.
func compareFirst(
	ctx context.Context, what string, queries []struct{ name, body string }, ours, theirs *searchable, out io.Writer,
	repeat func(s *searchable, body string) (sorted []time.Duration, err error),
) ([][2]searchTimes, error) {
	fmt.Fprintf(out, "  %-42s %8s | %24s | %24s | %s\n", what+", 1 caller, ms", "total",
		"muster: first, p50, p99", "OpenSearch", "p50 to theirs")
	list := make([][2]searchTimes, len(queries))
	for i, q := range queries {
		times := &list[i]
		var refused string
		for k, s := range []*searchable{ours, theirs} {
			t := &times[k]
			began := time.Now()
			status, answer, err := s.send(ctx, q.body)
			t.cold = time.Since(began)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", q.name, err)
			case status == http.StatusOK:
				if t.total, err = s.total(answer); err != nil {
					return nil, fmt.Errorf("%s: %w", q.name, err)
				}
			default:
				refused = fmt.Sprintf("  first call: status %d: %.200s", status, answer)
			}
			calls, err := repeat(s, q.body)
			if err != nil {
				refused = "  " + err.Error()
				continue
			}
			t.p50[0], t.p99[0] = quantile(calls, 0.5), quantile(calls, 0.99)
		}
		if refused == "" && times[0].total != times[1].total {
			refused = fmt.Sprintf("  OpenSearch's total is %d", times[1].total)
		}
		line := func(t searchTimes) string {
			return fmt.Sprintf("%8.1f %7.1f %7.1f", ms(t.cold), ms(t.p50[0]), ms(t.p99[0]))
		}
		fmt.Fprintf(out, "  %-42s %8d | %24s | %24s | %5.2f%s\n", q.name, times[0].total, line(times[0]),
			line(times[1]), ratio(times[0].p50[0], times[1].p50[0]), refused)
	}
	return list, nil
}

func ratio(a, b time.Duration) float64 { return float64(max(a, 1)) / float64(max(b, 1)) }

// searchIndexMemory prints the resident memory of both systems.
func (b *bench) searchIndexMemory(node *opensearchtest.Node, out io.Writer) error {
	engine, err := b.enginePID()
	if err != nil {
		return err
	}
	var resident [3]int64
	for i, pid := range []int{engine, os.Getpid(), node.PID()} {
		if _, resident[i], err = process(pid); err != nil {
			return err
		}
	}
	fmt.Fprintf(out,
		"  resident: engine %d MB, this program with the API %d MB, OpenSearch %d MB with a heap of at most %d MB\n",
		resident[0]>>20, resident[1]>>20, resident[2]>>20, openSearchHeap)
	return nil
}
