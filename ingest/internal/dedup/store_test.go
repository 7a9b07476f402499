package dedup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/dedup"
	"muster/schemas/record"
)

func open(t testing.TB, dir string) *dedup.Store {
	t.Helper()
	s, err := dedup.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func identity(key string) dedup.Identity {
	return dedup.NewIdentity(record.KindNetworkPerson, []byte(key), dedup.StripeOf([]byte(key)))
}

func identities(keys []string) []dedup.Identity {
	out := make([]dedup.Identity, len(keys))
	for i, k := range keys {
		out[i] = identity(k)
	}
	return out
}

// set commits states of keys.
func set(t testing.TB, s *dedup.Store, states map[string]dedup.State) {
	t.Helper()
	keys := make([]string, 0, len(states))
	for k := range states {
		keys = append(keys, k)
	}
	tx, err := s.Begin(t.Context(), identities(keys))
	require.NoError(t, err)
	for i, k := range keys {
		tx.Set(i, states[k])
	}
	require.NoError(t, tx.Commit())
}

// requireStates compares the states in a store with those in want.
func requireStates(t testing.TB, s *dedup.Store, keys []string, want map[string]dedup.State) {
	t.Helper()
	tx, err := s.Begin(t.Context(), identities(keys))
	require.NoError(t, err)
	for i, k := range keys {
		got, found := tx.Get(i)
		state, ok := want[k]
		require.Equal(t, ok, found, k)
		require.Equal(t, state, got, k)
	}
	require.NoError(t, tx.Discard())
}

// Any sequence of sets, discards, reopens and uses by a second store is compared with a map.
func TestStore_BehavesLikeAMap(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			stores := []*dedup.Store{open(t, dir), open(t, dir)}
			model := map[string]dedup.State{}
			keys := make([]string, 3000+r.IntN(8000))
			for i := range keys {
				keys[i] = "p_" + strconv.Itoa(i)
			}
			for range 60 {
				s := stores[r.IntN(len(stores))]
				subset := make([]string, 1+r.IntN(600))
				for i := range subset {
					subset[i] = keys[r.IntN(len(keys))] // may repeat
				}
				tx, err := s.Begin(t.Context(), identities(subset))
				require.NoError(t, err)
				changed := map[string]dedup.State{}
				for i, k := range subset {
					want, ok := changed[k]
					if !ok {
						want, ok = model[k]
					}
					got, found := tx.Get(i)
					require.Equal(t, ok, found)
					require.Equal(t, want, got)
					if r.IntN(3) > 0 {
						changed[k] = dedup.State{
							Version:  record.Version(r.Int64()),
							Revision: r.Uint32(),
							Hash:     r.Uint64(),
						}
						tx.Set(i, changed[k])
					}
				}
				if r.IntN(5) == 0 {
					require.NoError(t, tx.Discard())
					continue
				}
				require.NoError(t, tx.Commit())
				for k, v := range changed {
					model[k] = v
				}
			}
			requireStates(t, open(t, dir), keys, model)
		})
	}
}

func TestStore_KindsAreSeparate(t *testing.T) {
	s := open(t, t.TempDir())
	set(t, s, map[string]dedup.State{"1": {Version: 1, Hash: 2}})
	other := dedup.NewIdentity(record.KindCodehostPerson, []byte("1"), dedup.StripeOf([]byte("1")))
	tx, err := s.Begin(t.Context(), []dedup.Identity{other})
	require.NoError(t, err)
	_, found := tx.Get(0)
	require.False(t, found)
	require.NoError(t, tx.Commit())
}

func TestStore_NextRevisionIsGreaterThanTheLast(t *testing.T) {
	dir := t.TempDir()
	s, now := open(t, dir), time.Unix(1_800_000_000, 0)
	next := func(s *dedup.Store, now time.Time) uint32 {
		t.Helper()
		revision, err := s.NextRevision(t.Context(), now)
		require.NoError(t, err)
		return revision
	}
	require.Equal(t, uint32(1_800_000_000), next(s, now))
	require.Equal(t, uint32(1_800_000_001), next(open(t, dir), now))
	require.Equal(t, uint32(1_800_000_002), next(s, now.Add(-time.Hour)), "the clock was set back")
	require.Equal(t, uint32(1_800_003_600), next(s, now.Add(time.Hour)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "revision"), nil, 0o600))
	require.Equal(t, uint32(1_800_000_000), next(s, now), "damaged file counts as missing")
}

func TestTx_IdentityIsExclusiveUntilReleased(t *testing.T) {
	dir := t.TempDir()
	stores := []*dedup.Store{open(t, dir), open(t, dir)}
	who := []dedup.Identity{identity("a"), identity("b"), identity("c")}
	var inside, total int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			for range 50 {
				tx, err := stores[n%2].Begin(t.Context(), who)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				if inside != 1 {
					t.Error("locked twice")
				}
				mu.Unlock()
				state, _ := tx.Get(1)
				tx.Set(1, dedup.State{Version: state.Version + 1})
				mu.Lock()
				inside--
				total++
				mu.Unlock()
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 300, total)
	requireStates(t, stores[0], []string{"b"}, map[string]dedup.State{"b": {Version: 300}})

	tx, err := stores[0].Begin(t.Context(), who)
	require.NoError(t, err)
	for _, s := range stores {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, err := s.Begin(ctx, who[:1])
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	require.NoError(t, tx.Commit())
}

func TestBindCluster_DetectsResetTopics(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	states := map[string]dedup.State{"a": {Version: 1, Hash: 2}, "b": {Version: 3, Hash: 4}}
	bind := func(cluster string, ends ...int64) bool {
		t.Helper()
		forgotten, err := s.BindCluster(t.Context(), func(context.Context) (dedup.Topics, error) {
			return dedup.Topics{Cluster: cluster, Ends: map[string][]int64{"t": ends}}, nil
		})
		require.NoError(t, err)
		return forgotten
	}
	require.False(t, bind("x", 0, 0))
	set(t, s, states)
	require.False(t, bind("x", 5, 9), "topics grow")
	require.False(t, bind("x", 5, 9, 0), "so does their number of partitions")
	other, err := s.BindCluster(t.Context(), func(context.Context) (dedup.Topics, error) {
		return dedup.Topics{Cluster: "x", Ends: map[string][]int64{"u": {3}}}, nil
	})
	require.NoError(t, err)
	require.False(t, other, "another topic of the same cluster")
	requireStates(t, s, []string{"a", "b"}, states)
	require.True(t, bind("x", 5, 8, 0), "topic lost messages")
	requireStates(t, s, []string{"a", "b"}, nil)
	set(t, s, states)
	require.True(t, bind("y", 5, 8, 0), "another cluster")
	set(t, s, states)
	require.True(t, bind("y"), "topic lost partitions")
	set(t, s, states)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "topics.json"), []byte(`{"clu`), 0o600))
	require.True(t, bind("y", 1), "no entries")

	broken := errors.New("broken")
	before := s.Generation()
	_, err = s.BindCluster(t.Context(), func(context.Context) (dedup.Topics, error) { return dedup.Topics{}, broken })
	require.ErrorIs(t, err, broken)
	require.Equal(t, before, s.Generation())
}

// All stores on a directory have the same generation. A directory of a release without generations has none.
func TestGeneration_ChangesWithEachReset(t *testing.T) {
	dir := t.TempDir()
	bind := func(s *dedup.Store, end int64) string {
		t.Helper()
		_, err := s.BindCluster(t.Context(), func(context.Context) (dedup.Topics, error) {
			return dedup.Topics{Cluster: "x", Ends: map[string][]int64{"t": {end}}}, nil
		})
		require.NoError(t, err)
		return s.Generation()
	}
	one, two := open(t, dir), open(t, dir)
	first := bind(one, 5)
	require.NotEmpty(t, first)
	require.Equal(t, first, bind(two, 6))
	require.Equal(t, first, open(t, dir).Generation())
	second := bind(two, 4)
	require.NotEqual(t, first, second)
	require.Equal(t, first, one.Generation(), "until the next BindCluster")
	require.Equal(t, second, bind(one, 4))

	file := filepath.Join(dir, "topics.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"cluster":"x","ends":{"t":[4]}}`), 0o600))
	require.Empty(t, bind(one, 4))
	require.Empty(t, bind(open(t, dir), 5))
	third := bind(one, 4)
	require.NotEmpty(t, third)

	// Killed during a reset: no entry is valid, whatever the topics are next.
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	fourth := bind(one, 9)
	require.NotContains(t, []string{"", first, second, third}, fourth)
	require.NoError(t, os.Remove(file))
	require.NotContains(t, []string{"", first, second, third, fourth}, bind(one, 9),
		"earlier checkpoints cannot be verified")
}

// Topics that were used count as reset if they are empty, even if no end offsets were recorded.
func TestBinding_EmptyTopicsCountAsReset(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	states := map[string]dedup.State{"a": {Version: 1, Hash: 2}}
	bind := func(ends ...int64) bool {
		t.Helper()
		forgotten, err := s.BindCluster(t.Context(), func(context.Context) (dedup.Topics, error) {
			return dedup.Topics{Cluster: "x", Ends: map[string][]int64{"t": ends, "u": {0, 0}}}, nil
		})
		require.NoError(t, err)
		return forgotten
	}
	markUsed := func(s *dedup.Store, topics ...string) {
		t.Helper()
		tx, err := s.Begin(t.Context(), identities([]string{"a"}))
		require.NoError(t, err)
		require.NoError(t, tx.MarkUsed(t.Context(), topics...))
		tx.Set(0, states["a"])
		require.NoError(t, tx.Commit())
	}
	require.False(t, bind(0, 0))
	markUsed(s, "t", "v")
	markUsed(open(t, dir), "v", "t")
	s = open(t, dir)
	require.False(t, bind(0, 1), "one partition is enough")
	require.False(t, bind(0, 1))
	requireStates(t, s, []string{"a"}, states)

	dir = t.TempDir()
	s = open(t, dir)
	require.False(t, bind(0, 0))
	markUsed(s, "t")
	s = open(t, dir)
	require.True(t, bind(0, 0))
	requireStates(t, s, []string{"a"}, nil)
	require.False(t, bind(0, 0), "no longer used")
	markUsed(s, "u")
	require.True(t, bind(0, 0))
	markUsed(s, "t")
	require.True(t, bind(), "no partitions")
}

// Entries stored before a crash of the machine are removed, whatever the brokers have received
// since, unless BindCluster ran after them.
func TestBinding_RebootAfterUnboundUseResets(t *testing.T) {
	dir := t.TempDir()
	states := map[string]dedup.State{"a": {Version: 1, Hash: 2}}
	bind := func(s *dedup.Store) bool {
		t.Helper()
		forgotten, err := s.BindCluster(t.Context(), func(context.Context) (dedup.Topics, error) {
			return dedup.Topics{Cluster: "x", Ends: map[string][]int64{"t": {5}}}, nil
		})
		require.NoError(t, err)
		return forgotten
	}
	markUsed := func(s *dedup.Store) {
		t.Helper()
		tx, err := s.Begin(t.Context(), identities([]string{"a"}))
		require.NoError(t, err)
		require.NoError(t, tx.MarkUsed(t.Context(), "t"))
		tx.Set(0, states["a"])
		require.NoError(t, tx.Commit())
	}
	file := filepath.Join(dir, "topics.json")
	// stop makes the recorded boot ID that of another boot.
	stop := func() {
		t.Helper()
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var recorded map[string]any
		require.NoError(t, json.Unmarshal(raw, &recorded))
		if recorded["boot"] != nil {
			recorded["boot"] = "another"
		}
		raw, err = json.Marshal(recorded)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, raw, 0o600))
	}
	one, two := open(t, dir), open(t, dir)
	require.False(t, bind(one))
	markUsed(one)
	require.False(t, bind(open(t, dir)), "same boot, as after a kill")
	stop()
	require.False(t, bind(one), "nothing stored since")
	markUsed(one)
	require.False(t, bind(two))
	markUsed(one) // whatever it has recorded before
	stop()
	require.True(t, bind(two))
	requireStates(t, two, []string{"a"}, nil)
	stop()
	require.False(t, bind(two), "once")
}

func TestOverlay_LeavesBaseUnchanged(t *testing.T) {
	s := open(t, t.TempDir())
	set(t, s, map[string]dedup.State{"a": {Version: 1, Hash: 2}})
	overlay, err := s.Overlay(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, overlay.Close()) }()
	requireStates(t, overlay, []string{"a", "b", "c"}, map[string]dedup.State{"a": {Version: 1, Hash: 2}})
	set(t, overlay, map[string]dedup.State{"a": {Version: 5}, "b": {Version: 6}})
	requireStates(t, overlay, []string{"a", "b"}, map[string]dedup.State{"a": {Version: 5}, "b": {Version: 6}})
	requireStates(t, s, []string{"a", "b"}, map[string]dedup.State{"a": {Version: 1, Hash: 2}})
}

// Remaining entries are unchanged.
func TestStore_DamageCostsOnlyDamagedEntries(t *testing.T) {
	dir := t.TempDir()
	want := map[string]dedup.State{}
	var keys []string
	for i := range 20_000 {
		keys = append(keys, strconv.Itoa(i))
		want[keys[i]] = dedup.State{Version: record.Version(i), Hash: uint64(i) * 7919}
	}
	s, err := dedup.Open(dir)
	require.NoError(t, err)
	set(t, s, want)
	require.NoError(t, s.Close())
	r := rand.New(rand.NewPCG(5, 5))
	for i := range 32 {
		path := filepath.Join(dir, fmt.Sprintf("%02d", i))
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		switch i % 4 {
		case 0: // truncated: starts empty
			raw = raw[:len(raw)/3]
		case 1: // a page that was never written, another that was partially written
			clear(raw[2048:3072])
			clear(raw[4096+500 : 5120])
		case 2: // bit flips
			for range 100 {
				raw[1024+r.IntN(len(raw)-1024)] ^= 1
			}
		}
		require.NoError(t, os.WriteFile(path, raw, 0o600))
	}
	s = open(t, dir)
	missing := 0
	for i, k := range keys {
		tx, err := s.Begin(t.Context(), identities([]string{k}))
		require.NoError(t, err)
		got, found := tx.Get(0)
		require.NoError(t, tx.Discard())
		if !found {
			missing++
			continue
		}
		require.Equal(t, want[keys[i]], got)
	}
	t.Logf("%d of %d entries missing", missing, len(keys))
	require.Less(t, missing, len(keys)/2)
	set(t, s, want)
	requireStates(t, s, keys, want)
}

const childEnv = "MUSTER_TEST_VERSIONS_CHILD"

// child commits increasing versions and prints each.
func child(dir string) error {
	s, err := dedup.Open(dir)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		keys := make([]string, 50)
		for i := range keys {
			keys[i] = strconv.Itoa(n*50 + i)
		}
		tx, err := s.Begin(context.Background(), identities(keys))
		if err != nil {
			return err
		}
		for i := range keys {
			tx.Set(i, dedup.State{Version: record.Version(n), Hash: uint64(i)})
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, n); err != nil {
			return err
		}
	}
}

// A killed process holds no lock.
func TestStore_CommittedEntriesSurviveKill(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		t.Fatal(child(dir))
	}
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestStore_CommittedEntriesSurviveKill$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		last := -1
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			n, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
			if err != nil {
				break
			}
			last = n
			if n == 40+60*round {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait())
		require.GreaterOrEqual(t, last, 40)
		var keys []string
		want := map[string]dedup.State{}
		for n := range last + 1 {
			for i := range 50 {
				k := strconv.Itoa(n*50 + i)
				keys = append(keys, k)
				want[k] = dedup.State{Version: record.Version(n), Hash: uint64(i)}
			}
		}
		requireStates(t, open(t, dir), keys, want)
	}
}

// BenchmarkRefresh looks up every identity and commits a newer version, 2,000 at a time, in another
// order than the first one.
func BenchmarkRefresh(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := open(b, b.TempDir())
			pass := func(version int, order []int) {
				const group = 2000
				all := make([]dedup.Identity, 0, group)
				for len(order) > 0 {
					part := order[:min(group, len(order))]
					order = order[len(part):]
					all = all[:0]
					for _, i := range part {
						key := []byte("p_" + strconv.Itoa(i))
						all = append(all, dedup.NewIdentity(record.KindNetworkPerson, key, dedup.StripeOf(key)))
					}
					tx, err := s.Begin(b.Context(), all)
					require.NoError(b, err)
					for i := range all {
						_, _ = tx.Get(i)
						tx.Set(i, dedup.State{Version: record.Version(version), Hash: 1})
					}
					require.NoError(b, tx.Commit())
				}
			}
			order := rand.New(rand.NewPCG(1, 1)).Perm(n)
			pass(0, order)
			version := 0
			for b.Loop() {
				version++
				pass(version, order)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}
