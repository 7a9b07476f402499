//go:build opensearch

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/opensearchtest"
)

// searchNode is an OpenSearch node that can be killed and started again on its data.
type searchNode struct {
	*opensearchtest.Node
	options opensearchtest.Options
}

// startSearchNode starts a node, and lets the muster processes of the test use it.
func startSearchNode(t *testing.T) *searchNode {
	t.Helper()
	s := newSearchNode(t)
	t.Setenv("OPENSEARCH_URL", s.URL())
	return s
}

// newSearchNode starts a node with more settings.
func newSearchNode(t *testing.T, settings ...string) *searchNode {
	t.Helper()
	port := strings.TrimPrefix(freeAddrs(t, 1)[0], "127.0.0.1:")
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	s := &searchNode{options: opensearchtest.Options{
		Port: n, Dir: t.TempDir(), Stock: true, Heap: 512,
		// The disk of a test machine may be almost full.
		Settings: append(settings, "cluster.routing.allocation.disk.threshold_enabled=false"),
	}}
	s.start(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func (s *searchNode) start(t *testing.T) {
	t.Helper()
	var err error
	s.Node, err = opensearchtest.Start(context.WithoutCancel(t.Context()), s.options)
	require.NoError(t, err)
}

// kill kills the node with SIGKILL.
func (s *searchNode) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	<-s.Exited()
	require.NoError(t, s.Close())
}

// files calls found for each file of the node that contains the text.
func (s *searchNode) files(t *testing.T, text string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(s.options.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // removed by a merge
		}
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(text)) {
			found = append(found, filepath.Base(path))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}))
	return found
}

// employee returns a record of a person with a word in the headline.
func employee(i, version int, word string) string {
	return fmt.Sprintf(`{"profile_id":"employee-%d","username":"employee-%d","last_updated":"2026-01-01T00:00:%02dZ",`+
		`"full_name":"Employee Number%d","headline":"%s engineer","experience":[{"title":"Engineer","start":"2020"}]}`+"\n",
		i, i, version, i, word)
}

// ingestPeople ingests records of network people.
func (p *platform) ingestPeople(t *testing.T, records ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(records, "")), 0o600))
	p.muster(t, "ingest", "network-person", path)
}

// hits returns the number of people with a word in the headline.
func (p *platform) hits(t *testing.T, word string) int {
	t.Helper()
	return p.total(t, map[string]any{"match": map[string]any{"profile.headline": word}})
}

// total returns the number of people that match a query.
func (p *platform) total(t *testing.T, query map[string]any) int {
	t.Helper()
	var page struct {
		Total int `json:"total"`
	}
	body := map[string]any{"query": query, "size": 0}
	require.NoError(t, json.Unmarshal([]byte(ask(t, p, "/v1/person/search", body)), &page))
	return page.Total
}

// OpenSearch and muster are killed in turn while records are ingested. In the end the index has each person once, in the
// newest version, and not the withdrawn ones.
func TestOpenSearch_KillsLoseAndDoubleNothing(t *testing.T) {
	node := startSearchNode(t)
	dir, ports := newDataDir(t), fixedPorts(t)
	p := start(t, dir, append(ports, "--no-sample")...)
	const people = 60
	batch := func(version int, word string) (records []string) {
		for i := range people {
			records = append(records, employee(i, version, word))
		}
		return records
	}
	p.ingestPeople(t, batch(1, "alpha")...)
	p.muster(t, "status", "--wait")
	require.Equal(t, people, p.hits(t, "alpha"))

	node.kill(t)
	p.ingestPeople(t, batch(2, "beta")...)
	node.start(t)
	p.muster(t, "status", "--wait")
	require.Equal(t, people, p.hits(t, "beta"))
	require.Zero(t, p.hits(t, "alpha"), "an older version was not replaced")

	p.ingestPeople(t, batch(3, "gamma")...)
	p.kill()
	p = start(t, dir, append(ports, "--no-sample")...)
	p.muster(t, "status", "--wait")
	require.Equal(t, people, p.hits(t, "gamma"))
	require.Equal(t, people, p.hits(t, "engineer"), "a person was lost or is there twice")

	p.ingestPeople(t, `{"profile_id":"employee-7","last_updated":"2026-01-01T00:00:04Z","deleted":true}`+"\n")
	p.muster(t, "status", "--wait")
	require.Equal(t, people-1, p.hits(t, "gamma"))
	p.ingestPeople(t, employee(7, 2, "beta"))
	p.muster(t, "status", "--wait")
	require.Zero(t, p.hits(t, "beta"), "an older version came back after the deletion")

	var reports []struct { // people, companies
		Index     string   `json:"index"`
		Documents int      `json:"documents"`
		Replaced  []string `json:"replaced"`
	}
	p.musterJSON(t, &reports, "replay", "search", "--json")
	require.Len(t, reports, 2)
	require.Equal(t, people-1, reports[0].Documents)
	require.Len(t, reports[0].Replaced, 1)
	require.Equal(t, people-1, p.hits(t, "gamma"))
	p.ingestPeople(t, employee(8, 5, "delta"))
	p.muster(t, "status", "--wait")
	require.Equal(t, 1, p.hits(t, "delta"), "the new index is not maintained")
	p.ingestPeople(t, employee(8, 6, "delta"))
	p.muster(t, "status", "--wait")
	require.Equal(t, 1, p.total(t, map[string]any{"range": map[string]any{
		"updated_at": map[string]any{"gte": "2026-01-01T00:00:06Z"},
	}}), "a newer version of unchanged content")
	p.stop(t)
}

// An erased person is not found any more, and not in the files of the index either, once the request is deleted.
func TestOpenSearch_ErasedPeopleLeaveTheIndexAndItsFiles(t *testing.T) {
	node := startSearchNode(t)
	p := start(t, newDataDir(t), "--no-sample")
	const marker = "zyxwvmarker"
	records := []string{employee(500, 1, marker)}
	for i := range 20 {
		records = append(records, employee(i, 1, "ordinary"))
	}
	p.ingestPeople(t, records...)
	p.muster(t, "status", "--wait")
	require.Equal(t, 1, p.hits(t, marker))
	require.NoError(t, node.Do(t.Context(), http.MethodPost, "/_flush", nil, nil))
	require.NotEmpty(t, node.files(t, marker), "the search of the files finds nothing")

	p.muster(t, "erase", "profile_id=employee-500", "--now")
	require.Zero(t, p.hits(t, marker))
	eventuallyEvery(t, 10*time.Minute, 3*time.Second, func() (bool, string) {
		out := p.muster(t, "erase", "status")
		return strings.Contains(out, "1 deleted"), out
	})
	require.Empty(t, node.files(t, marker), "files that contain the erased person")
	require.Equal(t, 20, p.hits(t, "ordinary"))
	p.stop(t)
}

// Without OpenSearch, search answers 503 until it is back; everything else works.
func TestOpenSearch_OutageIsA503(t *testing.T) {
	node := startSearchNode(t)
	p := start(t, newDataDir(t), "--no-sample")
	p.ingestPeople(t, employee(1, 1, "alpha"))
	p.muster(t, "status", "--wait")
	node.kill(t)
	got, err := p.api().post(t.Context(), "/v1/person/search", map[string]any{
		"query": map[string]any{"match_all": map[string]any{}},
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, got.status, "%s", got.body)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.NotContains(t, string(got.body), "127.0.0.1")
	enriched, err := p.api().post(t.Context(), "/v1/person/enrich", map[string]any{"network_username": "employee-1"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, enriched.status, "%s", enriched.body)
	node.start(t)
	eventuallyEvery(t, startTimeout, time.Second, func() (bool, string) {
		got, err := p.api().post(t.Context(), "/v1/person/search", map[string]any{
			"query": map[string]any{"match_all": map[string]any{}},
		})
		return err == nil && got.status == http.StatusOK, fmt.Sprint(got.status, string(got.body), err)
	})
}
