package idempotency_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/idempotency/idempotencytest"
)

func TestDisk(t *testing.T) {
	idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
		d := openDisk(t, idempotency.DiskConfig{Dir: t.TempDir()})
		out := make([]idempotency.Store, n)
		for i := range out {
			out[i] = d
		}
		return out
	})
}

func openDisk(t *testing.T, cfg idempotency.DiskConfig) *idempotency.Disk {
	t.Helper()
	d, err := idempotency.OpenDisk(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// store stores a response.
func store(t *testing.T, d *idempotency.Disk, name string, value []byte, kept time.Duration) {
	t.Helper()
	state, _, err := d.Begin(t.Context(), name, "f", "a", time.Minute)
	require.NoError(t, err)
	require.Equal(t, idempotency.New, state, name)
	require.NoError(t, d.Complete(t.Context(), name, "a", value, kept))
}

func has(t *testing.T, d *idempotency.Disk, name string) (idempotency.State, string) {
	t.Helper()
	state, value, err := d.Begin(t.Context(), name, "f", "b", time.Minute)
	require.NoError(t, err)
	return state, string(value)
}

func TestDisk_IsBounded(t *testing.T) {
	for name, cfg := range map[string]idempotency.DiskConfig{"bytes": {MaxBytes: 100_000},
		"answers": {MaxAnswers: 10}} {
		t.Run(name, func(t *testing.T) {
			cfg.Dir = t.TempDir()
			d := openDisk(t, cfg)
			for i := range 100 {
				store(t, d, fmt.Sprint(i), make([]byte, 10_000), time.Hour)
			}
			for name, want := range map[string]idempotency.State{"99": idempotency.Stored, "95": idempotency.Stored,
				"0": idempotency.New} {
				state, _ := has(t, d, name)
				require.Equal(t, want, state, name)
			}
			if cfg.MaxBytes > 0 {
				require.Less(t, len(onDisk(t, cfg.Dir)), 130_000)
			}
		})
	}
}

func TestDisk_SurvivesItsProcess(t *testing.T) {
	now := time.Now()
	cfg := idempotency.DiskConfig{Dir: t.TempDir(), Now: func() time.Time { return now }}
	killed, err := idempotency.OpenDisk(cfg) // and never closed
	require.NoError(t, err)
	store(t, killed, "kept", []byte("one"), time.Hour)
	store(t, killed, "forgotten", []byte("secret"), time.Hour)
	require.NoError(t, killed.Delete(t.Context(), "forgotten", "a"))
	store(t, killed, "short", []byte("gone"), time.Minute)
	_, _, err = killed.Begin(t.Context(), "running", "f", "a", time.Hour)
	require.NoError(t, err)
	store(t, killed, "torn", []byte("half of it"), time.Hour)
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NoError(t, os.Truncate(files[0], info.Size()-3))
	require.NotContains(t, string(onDisk(t, cfg.Dir)), "secret", "deleted contents are overwritten")

	now = now.Add(2 * time.Minute)
	for range 2 { // the second time with the files of the first
		d, err := idempotency.OpenDisk(cfg)
		require.NoError(t, err)
		state, value := has(t, d, "kept")
		require.Equal(t, idempotency.Stored, state)
		require.Equal(t, "one", value)
		state, _, err = d.Begin(t.Context(), "kept", "g", "b", time.Minute)
		require.NoError(t, err)
		require.Equal(t, idempotency.Mismatch, state)
		for _, name := range []string{"forgotten", "short", "running", "torn"} {
			state, _ := has(t, d, name)
			require.Equal(t, idempotency.New, state, name)
			require.NoError(t, d.Delete(t.Context(), name, "b"))
		}
		store(t, d, "torn", []byte("again"), time.Hour)
		state, value = has(t, d, "torn")
		require.Equal(t, idempotency.Stored, state)
		require.Equal(t, "again", value)
		require.NoError(t, d.Delete(t.Context(), "torn", "a"))
		require.NoError(t, d.Close())
	}
}

func TestDisk_RemovesExpiredAnswers(t *testing.T) {
	now := time.Now()
	cfg := idempotency.DiskConfig{Dir: t.TempDir(), Now: func() time.Time { return now }}
	d := openDisk(t, cfg)
	store(t, d, "a", []byte("first"), 24*time.Hour)
	now = now.Add(time.Hour)
	store(t, d, "b", []byte("second"), 24*time.Hour)
	now = now.Add(23*time.Hour + time.Minute)
	require.NoError(t, d.Sweep())
	require.NotContains(t, string(onDisk(t, cfg.Dir)), "first")
	require.Contains(t, string(onDisk(t, cfg.Dir)), "second")
	now = now.Add(time.Hour)
	require.NoError(t, d.Sweep())
	require.Empty(t, onDisk(t, cfg.Dir))
	store(t, d, "b", []byte("third"), time.Hour)
	_, value := has(t, d, "b")
	require.Equal(t, "third", value)
}

func TestDisk_EndOfExpiredClaimKeepsNewClaim(t *testing.T) {
	now := time.Now()
	d := openDisk(t, idempotency.DiskConfig{Dir: t.TempDir(), Now: func() time.Time { return now }})
	begin := func(name, owner string, lease time.Duration) idempotency.State {
		t.Helper()
		state, _, err := d.Begin(t.Context(), name, "f", owner, lease)
		require.NoError(t, err)
		return state
	}
	require.Equal(t, idempotency.New, begin("older", "a", time.Hour)) // later expired entries are not checked
	require.Equal(t, idempotency.New, begin("name", "a", time.Minute))
	now = now.Add(time.Minute)
	require.Equal(t, idempotency.New, begin("name", "b", 2*time.Hour))
	now = now.Add(time.Hour)
	require.NoError(t, d.Sweep())
	require.Equal(t, idempotency.Running, begin("name", "c", time.Hour))
}

// A power cut may leave a file of full length without its contents.
func TestDisk_PowerCutLosesOnlyUnsyncedAnswers(t *testing.T) {
	cfg := idempotency.DiskConfig{Dir: t.TempDir()}
	d := openDisk(t, cfg)
	store(t, d, "a", []byte("the answer"), time.Hour)
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	require.NoError(t, err)
	raw := onDisk(t, cfg.Dir)
	require.NoError(t, os.WriteFile(files[0], bytes.Replace(raw, []byte("answer"), make([]byte, 6), 1), 0o600))
	state, _ := has(t, openDisk(t, cfg), "a")
	require.Equal(t, idempotency.New, state)
}

func TestDisk_FullDiskKeepsStoredAnswers(t *testing.T) {
	const room = 100_000
	cfg := idempotency.DiskConfig{Dir: t.TempDir()}
	d := openDisk(t, cfg)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	little := before
	little.Cur = room
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) })
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &little))
	for i := range 10 {
		store(t, d, fmt.Sprint(i), []byte("small"), time.Hour)
		stored := onDisk(t, cfg.Dir)
		name := fmt.Sprint("large ", i)
		_, _, err := d.Begin(t.Context(), name, "f", "a", time.Minute)
		require.NoError(t, err)
		require.ErrorIs(t, d.Complete(t.Context(), name, "a", make([]byte, 2*room), time.Hour), syscall.EFBIG)
		require.True(t, bytes.Equal(stored, onDisk(t, cfg.Dir)))
	}
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	again := openDisk(t, cfg)
	for i := range 10 {
		state, value := has(t, again, fmt.Sprint(i))
		require.Equal(t, idempotency.Stored, state)
		require.Equal(t, "small", value)
	}
}

func TestPurge_DeletesErasedAnswers(t *testing.T) {
	cfg := idempotency.DiskConfig{Dir: t.TempDir()}
	d := openDisk(t, cfg)
	answers, err := idempotency.NewAnswers(d, make([]byte, idempotency.KeyBytes))
	require.NoError(t, err)
	state := func(key string) idempotency.State {
		state, _, claim, err := answers.Begin(t.Context(),
			idempotency.Call{Organization: "o", Method: "POST", Path: "/", Key: key, Owner: key, Lease: time.Minute})
		require.NoError(t, err)
		if state == idempotency.New {
			require.NoError(t, claim.Complete(t.Context(),
				idempotency.Answer{Status: 200, Body: []byte("{}"), Identities: []string{key}}))
		}
		return state
	}
	for _, key := range []string{"erased", "other"} {
		require.Equal(t, idempotency.New, state(key))
	}
	before := onDisk(t, cfg.Dir)
	require.NoError(t, answers.Purge(t.Context(),
		func(a idempotency.Answer) bool { return slices.Contains(a.Identities, "erased") }))
	require.NotEqual(t, before, onDisk(t, cfg.Dir)[:len(before)], "overwritten")
	require.Equal(t, idempotency.Stored, state("other"))
	require.Equal(t, idempotency.New, state("erased"))
}

// If it cannot be deleted, the call fails.
func TestAnswers_ErasedAnswerIsDeletedAndCallIsNew(t *testing.T) {
	now := time.Now()
	cfg := idempotency.DiskConfig{Dir: t.TempDir(), Now: func() time.Time { return now }}
	d := openDisk(t, cfg)
	answers, err := idempotency.NewAnswers(d, make([]byte, idempotency.KeyBytes))
	require.NoError(t, err)
	erased := func(a idempotency.Answer) bool { return slices.Contains(a.Identities, "erased") }
	begin := func(key, owner string) (idempotency.State, idempotency.Claim, error) {
		state, answer, claim, err := answers.Begin(t.Context(), idempotency.Call{
			Organization: "o", Method: "POST", Path: "/", Key: key, Owner: owner, Lease: time.Minute, Erased: erased,
		})
		require.Equal(t, state == idempotency.Stored, answer.Status == 200)
		require.False(t, erased(answer))
		return state, claim, err
	}
	for _, key := range []string{"erased", "other", "erased too"} {
		state, claim, err := begin(key, "a")
		require.NoError(t, err)
		require.Equal(t, idempotency.New, state)
		identity, _, _ := strings.Cut(key, " ")
		require.NoError(t, claim.Complete(t.Context(), idempotency.Answer{Status: 200, Identities: []string{identity}}))
	}
	for key, want := range map[string]idempotency.State{"erased": idempotency.New, "other": idempotency.Stored} {
		state, _, err := begin(key, "b")
		require.NoError(t, err)
		require.Equal(t, want, state)
	}
	state, _, err := begin("erased", "c")
	require.NoError(t, err)
	require.Equal(t, idempotency.Running, state)

	now = now.Add(time.Hour) // the next write creates a file
	require.NoError(t, os.RemoveAll(cfg.Dir))
	_, _, err = begin("erased too", "b")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, answers.Purge(t.Context(), erased), os.ErrNotExist)
}

func onDisk(t *testing.T, dir string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	var out []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		out = append(out, b...)
	}
	return out
}

type recorder struct {
	*idempotency.Disk
	given []string
}

// Complete implements idempotency.Store.
func (r *recorder) Complete(ctx context.Context, name, owner string, value []byte, kept time.Duration) error {
	r.given = append(r.given, name, string(value))
	return r.Disk.Complete(ctx, name, owner, value, kept)
}

func TestAnswers_EquivalentBodiesMatch(t *testing.T) {
	answers, err := idempotency.NewAnswers(openDisk(t, idempotency.DiskConfig{Dir: t.TempDir()}),
		make([]byte, idempotency.KeyBytes))
	require.NoError(t, err)
	call := idempotency.Call{Organization: "o", Method: "POST", Path: "/v1/x", Owner: "a", Lease: time.Minute}
	for _, c := range []struct {
		first, then string
		want        idempotency.State
	}{
		{`{"n":10}`, `{"n":10.0}`, idempotency.Stored},
		{`{"n":10}`, `{"n":1e1}`, idempotency.Stored},
		{`{"id":9007199254740993}`, ` {"id": 9007199254740993} `, idempotency.Stored},
		{`{"id":9007199254740993}`, `{"id":9007199254740992}`, idempotency.Mismatch},
		{`{"id":-9007199254740993}`, `{"id":-9007199254740992}`, idempotency.Mismatch},
	} {
		call.Key, call.Body = c.first+c.then, []byte(c.first)
		_, _, claim, err := answers.Begin(t.Context(), call)
		require.NoError(t, err)
		require.NoError(t, claim.Complete(t.Context(), idempotency.Answer{Status: 200}))
		call.Body = []byte(c.then)
		state, _, _, err := answers.Begin(t.Context(), call)
		require.NoError(t, err)
		require.Equal(t, c.want, state, "%s, then %s", c.first, c.then)
	}
}

func TestAnswers(t *testing.T) {
	given := &recorder{Disk: openDisk(t, idempotency.DiskConfig{Dir: t.TempDir()})}
	key := bytes.Repeat([]byte{7}, idempotency.KeyBytes)
	answers, err := idempotency.NewAnswers(given, key)
	require.NoError(t, err)
	call := idempotency.Call{Organization: "organization-one", Method: "POST", Path: "/v1/x", Key: "k",
		Body: []byte(`{"a":1,"b":2}`), Owner: "r1", Lease: time.Minute}
	state, _, claim, err := answers.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.New, state)
	answer := idempotency.Answer{Status: 200, ContentType: "application/json", Body: []byte(`{"person":"private"}`),
		Identities: []string{"network-person p1"}, Endpoint: "/v1/x", Accounts: []string{"network juno"},
		Identifiers: []string{"network username octavia"},
		Header:      map[string]string{"Age": "7"}}
	require.NoError(t, claim.Complete(t.Context(), answer))

	require.Len(t, given.given, 2)
	for _, text := range given.given {
		require.NotContains(t, text, "private")
		require.NotContains(t, text, "organization-one")
	}

	call.Owner, call.Body = "r2", []byte(` {"b": 2, "a": 1.0} `)
	state, got, _, err := answers.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.Stored, state, "the same JSON is the same body")
	require.Equal(t, answer, got)
	call.Body = []byte(`{"a":1,"b":3}`)
	state, _, _, err = answers.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.Mismatch, state)
	call.Body = []byte(`{"a":1,"b":2}`)
	for _, change := range []func(*idempotency.Call){
		func(c *idempotency.Call) { c.Organization = "o2" }, func(c *idempotency.Call) { c.Method = "PUT" },
		func(c *idempotency.Call) { c.Path = "/v1/y" }, func(c *idempotency.Call) { c.Key = "l" },
		func(c *idempotency.Call) { c.Organization, c.Method = "o1P", "OST" },
		func(c *idempotency.Call) { c.Part = "p" }, func(c *idempotency.Call) { c.Part = "q" },
	} {
		other := call
		change(&other)
		state, _, _, err := answers.Begin(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, idempotency.New, state)
	}

	// Another root secret finds nothing, and opens nothing.
	foreign, err := idempotency.NewAnswers(given, bytes.Repeat([]byte{8}, idempotency.KeyBytes))
	require.NoError(t, err)
	state, _, _, err = foreign.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.New, state)
}
