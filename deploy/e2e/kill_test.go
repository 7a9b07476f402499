package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

// tables has the table and the key expression of each kind (see oracle.Newest).
var tables = map[string]struct{ table, identity string }{
	oracle.NetworkPerson:   {"network_people", "profile_id"},
	oracle.NetworkCompany:  {"network_companies", "company_id"},
	oracle.CodehostPerson:  {"codehost_people", "toString(user_id)"},
	oracle.CodehostRepo:    {"codehost_repos", "concat(toString(user_id), '/', toString(repo_id))"},
	oracle.CodehostCommit:  {"codehost_commits", "concat(toString(user_id), '/', sha)"},
	oracle.MicroblogPerson: {"microblog_people", "user_id"},
	oracle.AccountLink: {
		"account_links",
		"concat(arrayStringConcat(arraySort([concat(a_platform, '/', a_key), concat(b_platform, '/', b_key)]), ' " +
			"'), ' ', source)",
	},
}

// The engine and `muster up` are killed with SIGKILL during ingestion. Afterwards every record that an ingest run
// reported as published is visible, in its newest version, once.
//
// The files are split into pieces. A piece whose run succeeded is not ingested again, so only the platform itself can
// recover lost records.
func TestKill_LosesNoPublishedRecord(t *testing.T) {
	t.Parallel()
	people := 3000
	if testing.Short() {
		people = 400
	}
	drawn := seed(t)
	rng := rand.New(rand.NewPCG(drawn, 4))
	world := generate(t, people, drawn)
	pieces := splitFiles(t, world, rng)

	dataDir := newDataDir(t)
	ports := fixedPorts(t)
	p := start(t, dataDir, append(ports, "--no-sample")...)
	in := startIngesting(t, dataDir, pieces)

	victims := []string{"engine", "up", "engine", "up", "up"}
	rng.Shuffle(len(victims), func(a, b int) { victims[a], victims[b] = victims[b], victims[a] })
	for i, victim := range victims {
		in.await(t, (i+1)*len(pieces)/(len(victims)+1))
		pause := time.Duration(rng.IntN(300)) * time.Millisecond
		<-time.After(pause)
		p = kill(t, p, victim, fmt.Sprintf("%d of %d pieces published, and %s", in.published(), len(pieces), pause),
			ports)
	}
	in.await(t, len(pieces))
	in.wait()
	t.Logf("%d pieces published, %d failed runs", in.published(), in.failed())
	// Records are published, but not projected yet.
	p = kill(t, p, "engine", "everything published", ports)
	p = kill(t, p, "up", "everything published", ports)

	began := time.Now()
	p.muster(t, "status", "--wait", "--timeout", "2m")
	t.Logf("visible after another %s", time.Since(began).Round(time.Millisecond))

	store := load(t, world)
	for kind, where := range tables {
		t.Run(kind, func(t *testing.T) { requireNewest(t, p, kind, where.table, where.identity, store.Newest(kind)) })
	}
	t.Run("lookups", func(t *testing.T) {
		c, tr := newChecker(p, store), readTruth(t, world)
		network, codehost := askedHandles(tr.handles["network"]), askedIDs(tr.identities["codehost"], true)
		check(t, c, listCallers, batches(network[:len(network)/2], "codehost"), c.network)
		check(t, c, listCallers, batches(codehost[:len(codehost)/2]), c.codehost)
		var requests []oracle.PersonRequest
		for _, e := range tr.emails[:min(500, len(tr.emails))] {
			requests = append(requests, oracle.PersonRequest{Email: e.address, Websets: both})
		}
		check(t, c, callers, requests, c.person)
	})
	p.stop(t)
}

// A newer version was published before an older one, and a restart finds both in the topic and neither in the read
// models.
func TestVersions_NewestWinsIfNeitherWasProjected(t *testing.T) {
	t.Parallel()
	dataDir := newDataDir(t)
	p := start(t, dataDir, "--no-sample")
	dir := t.TempDir()
	run := func(name, record string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(record+"\n"), 0o600))
		p.muster(t, "ingest", oracle.NetworkPerson, path)
	}
	engine := p.engine(t)
	require.NoError(t, syscall.Kill(engine, syscall.SIGSTOP)) // stops projection
	run("newest", `{"profile_id":"one","username":"now","last_updated":"2026-02-01"}`)
	run("older", `{"profile_id":"one","username":"before","last_updated":"2025-01-01"}`)
	run("older again", `{"profile_id":"one","username":"before","last_updated":"2025-01-01"}`)
	p.kill()
	killProcess(t, engine)

	p = start(t, dataDir)
	p.muster(t, "status", "--wait", "--timeout", "1m")
	got := p.api().mustGet(t, "/v1/webset/network/person", map[string][]string{"network": {"now"}})
	require.Contains(t, string(got.body), `"2026-02-01T00:00:00Z"`)
	got = p.api().mustGet(t, "/v1/webset/network/person", map[string][]string{"network": {"before"}})
	require.JSONEq(t, `{}`, string(got.body))
	p.stop(t)
}

// kill kills a process with SIGKILL and returns the restarted platform.
func kill(t *testing.T, p *platform, victim, when string, ports []string) *platform {
	t.Helper()
	began := time.Now()
	if victim == "engine" {
		pid := p.engine(t)
		killProcess(t, pid)
		eventually(t, startTimeout, func() (bool, string) {
			children := childProcesses(t, p.cmd.Process.Pid)
			return len(children) == 1 && children[0] != pid, "the engine was not restarted"
		})
	} else {
		p.kill()
		again := start(t, p.dataDir, ports...)
		require.Equal(t, p.BaseURL, again.BaseURL)
		require.Equal(t, p.APIKey, again.APIKey)
		p = again
	}
	t.Logf("killed %s after %s; it was running again after %s", victim, when, time.Since(began).Round(time.Millisecond))
	return p
}

// requireNewest compares a table with the newest records in the files. Newer versions of unchanged content are in
// seen_versions.
func requireNewest(t *testing.T, p *platform, kind, table, identity string, want map[string]oracle.Newest) {
	t.Helper()
	require.NotEmpty(t, want)
	rows := p.sql(t, fmt.Sprintf("SELECT id, greatest(version, newer), toUInt8(deleted) "+
		"FROM (SELECT toString(%s) AS id, version, content_hash, deleted FROM %s FINAL) AS r "+
		"LEFT JOIN (SELECT key, content_hash, max(version) AS newer FROM seen_versions WHERE kind = '%s' GROUP BY "+
		"key, content_hash) AS s "+
		"ON r.id = s.key AND r.content_hash = s.content_hash", identity, table, kind))
	require.Equal(t, []string{strconv.Itoa(len(rows))},
		p.sql(t, fmt.Sprintf("SELECT uniqExact(%s) FROM %s", identity, table)), "each identity once under FINAL")
	got := map[string]bool{}
	wrong := 0
	complain := func(format string, args ...any) {
		if wrong++; wrong <= maxProblems {
			t.Errorf(format, args...)
		}
	}
	for _, row := range rows {
		fields := strings.Split(row, "\t")
		require.Len(t, fields, 3, row)
		newest, ok := want[fields[0]]
		version, err := strconv.ParseInt(fields[1], 10, 64)
		require.NoError(t, err)
		// Microseconds since year 1, as in the column comment.
		at := time.Unix(version/1e6+time.Time{}.Unix(), version%1e6*1e3).UTC()
		switch {
		case !ok:
			complain("%s is in no file", fields[0])
		case got[fields[0]]:
			complain("%s: duplicate", fields[0])
		case !at.Equal(newest.At.Truncate(time.Microsecond)) || (fields[2] == "1") != newest.Deleted:
			complain("%s: found as of %s, deleted %s; want %+v", fields[0], at, fields[2], newest)
		}
		got[fields[0]] = true
	}
	for id := range want {
		if !got[id] {
			complain("%s is missing", id)
		}
	}
	require.Zero(t, wrong, "%d identities in the files, %d in the table", len(want), len(rows))
	t.Logf("%d identities", len(rows))
}

// piece is a part of a kind's file.
type piece struct{ kind, path string }

// splitFiles splits the files of a data set into pieces, in random order.
func splitFiles(t *testing.T, world string, rng *rand.Rand) []piece {
	t.Helper()
	dir := t.TempDir()
	var pieces []piece
	for _, kind := range kinds {
		raw, err := os.ReadFile(file(world, kind))
		require.NoError(t, err)
		all := bytes.SplitAfter(raw, []byte("\n"))
		n := 6
		if len(all) < 1000 {
			n = 2
		}
		for i := range n {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d.ndjson", kind, i))
			part := bytes.Join(all[i*len(all)/n:(i+1)*len(all)/n], nil)
			require.NoError(t, os.WriteFile(path, part, 0o600))
			pieces = append(pieces, piece{kind, path})
		}
	}
	rng.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
	return pieces
}

// ingesting runs `muster ingest` for each piece, and repeats failed runs.
type ingesting struct {
	done sync.WaitGroup

	mu       sync.Mutex
	ok, bad  int
	err      error
	progress chan struct{} // closed and replaced on progress
}

func startIngesting(t *testing.T, dataDir string, pieces []piece) *ingesting {
	in := &ingesting{progress: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	queue := make(chan piece, len(pieces))
	for _, p := range pieces {
		queue <- p
	}
	close(queue)
	const atOnce = 2
	for range atOnce {
		in.done.Go(func() {
			for p := range queue {
				if err := in.piece(ctx, dataDir, p); err != nil {
					in.note(func() { in.err = err })
					return
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); in.wait() })
	return in
}

// piece publishes one piece, with as many runs as it takes.
func (in *ingesting) piece(ctx context.Context, dataDir string, p piece) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := muster(ctx, dataDir, "ingest", p.kind, p.path)
		switch {
		case err != nil:
			return err
		case r.status == 0:
			in.note(func() { in.ok++ })
			return nil
		case r.status != 2 && ctx.Err() == nil:
			return fmt.Errorf("ingest %s: exit status %d\n%s%s", p.path, r.status, r.out, r.errors)
		}
		in.note(func() { in.bad++ })
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (in *ingesting) note(what func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	what()
	close(in.progress)
	in.progress = make(chan struct{})
}

func (in *ingesting) published() int { in.mu.Lock(); defer in.mu.Unlock(); return in.ok }
func (in *ingesting) failed() int    { in.mu.Lock(); defer in.mu.Unlock(); return in.bad }
func (in *ingesting) wait()          { in.done.Wait() }

// await waits until the given number of pieces is published.
func (in *ingesting) await(t *testing.T, pieces int) {
	t.Helper()
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	for {
		in.mu.Lock()
		ok, err, progress := in.ok, in.err, in.progress
		in.mu.Unlock()
		require.NoError(t, err)
		if ok >= pieces {
			return
		}
		select {
		case <-progress:
		case <-late.C:
			t.Fatalf("%d pieces published after %s, want %d", ok, startTimeout, pieces)
		}
	}
}
