package broker

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/internal/recordbatch"
)

func TestRepairLog_DamageLosesOnlyItsBatchAndKeepsOffsets(t *testing.T) {
	dir := t.TempDir()
	b, err := Start(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	topics := []bus.Topic{{Name: "t", Partitions: 1}}
	require.NoError(t, bus.EnsureTopics(t.Context(), bus.Config{Brokers: b.Addrs()}, topics))
	fill(t, b, "t", 4)
	require.NoError(t, b.Close())
	partition := filepath.Join(partitionsDir(dir), "t-0")
	path := filepath.Join(partition, "0.dat")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	size := len(whole) / 4
	batches := slices.Collect(slices.Chunk(whole, size))
	index := []byte("1..............2..............3..............4..............") // the content is kfake's
	repair := func(raw []byte) ([]byte, []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(partition, "0.idx"), index, 0o600))
		logged := make(chan string, 1)
		_, err := repairLog(dir, false, slog.New(errorChannel(logged)))
		require.NoError(t, err)
		require.Len(t, logged, 1, "logged errors")
		originals, err := filepath.Glob(filepath.Join(dir, damagedDir, "t-0-0-*.dat"))
		require.NoError(t, err)
		copied, err := os.ReadFile(originals[len(originals)-1])
		require.NoError(t, err)
		require.Equal(t, raw, copied)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, damagedDir)))
		repaired, err := os.ReadFile(path)
		require.NoError(t, err)
		entries, err := os.ReadFile(filepath.Join(partition, "0.idx"))
		require.NoError(t, err)
		n, err := repairLog(dir, false, slog.New(errorChannel(nil)))
		require.NoError(t, err)
		require.Zero(t, n, "second repair")
		return repaired, entries
	}
	empty := func(first, last int64) []byte {
		raw := emptyBatch(first, last)
		return raw[:27] // the rest is timestamps
	}
	emptyAt := func(raw []byte, at int) []byte {
		b, _, err := recordbatch.Next(raw[at:])
		require.NoError(t, err)
		require.True(t, b.ChecksumOK())
		require.Zero(t, b.Count)
		return b.Raw
	}
	for at := range size {
		if at < 8 || at >= 12 && at < 16 { // the checksum does not cover the offset and the leader epoch
			continue
		}
		raw := bytes.Clone(whole)
		raw[size+at] ^= 0x11
		repaired, entries := repair(raw)
		got := emptyAt(repaired, size)
		require.Equal(t, empty(1, 1)[:17], got[:17])
		require.Equal(t, slices.Concat(batches[0], got, batches[2], batches[3]), repaired, at)
		require.Equal(t, slices.Concat(index[:15], make([]byte, 15), index[30:]), entries)
	}

	raw := bytes.Clone(whole)
	clear(raw[size+100 : 3*size-100]) // of two batches
	repaired, entries := repair(raw)
	got := emptyAt(repaired, size)
	require.Equal(t, empty(1, 2)[23:27], got[23:27])
	require.Equal(t, slices.Concat(batches[0], got, batches[3]), repaired)
	require.Equal(t, slices.Concat(index[:15], make([]byte, 15), index[45:]), entries)

	repaired, entries = repair(slices.Concat(batches[0], []byte("garbage between"), batches[1], batches[2], batches[3]))
	require.Equal(t, whole, repaired)
	require.Equal(t, index, entries)

	// The end of a segment that is not the last.
	require.NoError(t, os.WriteFile(filepath.Join(partition, "3.dat"), batches[3], 0o600))
	raw = bytes.Clone(whole[:3*size])
	raw[len(raw)-1]++
	repaired, _ = repair(raw)
	got = emptyAt(repaired, 2*size)
	require.Equal(t, slices.Concat(whole[:2*size], got), repaired)
}

// kfake appends to the segment before an empty one.
func TestRepairLog_RemovesEmptySegments(t *testing.T) {
	dir := t.TempDir()
	partition := filepath.Join(partitionsDir(dir), "t-0")
	require.NoError(t, os.MkdirAll(partition, 0o700))
	write := func(name string, raw []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(partition, name), raw, 0o600))
	}
	names := func() (out []string) {
		_, err := repairLog(dir, false, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		files, err := os.ReadDir(partition)
		require.NoError(t, err)
		for _, f := range files {
			out = append(out, f.Name())
		}
		return out
	}
	write("4.dat", emptyBatch(4, 4))
	write("5.dat", nil)
	write("5.idx", nil)
	require.Equal(t, []string{"4.dat", "4.idx"}, names())
	index, err := os.ReadFile(filepath.Join(partition, "4.idx"))
	require.NoError(t, err)
	require.Len(t, index, indexEntryBytes)

	require.NoError(t, os.Remove(filepath.Join(partition, "4.dat")))
	write("5.dat", []byte("torn"))
	require.Contains(t, names(), "4.dat", "the end offset is preserved")
}

func TestRepairLog_PreservesEndOffsetBeforeRemovingSegment(t *testing.T) {
	dir := t.TempDir()
	partition := filepath.Join(partitionsDir(dir), "t-0")
	torn, blocked := filepath.Join(partition, "5.dat"), filepath.Join(partition, "4.dat.new")
	require.NoError(t, os.MkdirAll(filepath.Join(blocked, "x"), 0o700)) // as a full disk
	require.NoError(t, os.WriteFile(torn, emptyBatch(5, 5)[:30], 0o600))
	_, err := repairLog(dir, false, slog.New(slog.DiscardHandler))
	require.Error(t, err)
	require.FileExists(t, torn)
	require.NoError(t, os.RemoveAll(blocked))
	_, err = repairLog(dir, false, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoFileExists(t, torn)
	require.FileExists(t, filepath.Join(partition, "4.dat"))
}
