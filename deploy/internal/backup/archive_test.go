package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// Earlier versions archived lost+found too.
func TestExtract_SkipsLostAndFound(t *testing.T) {
	var archive bytes.Buffer
	packer, err := zstd.NewWriter(&archive)
	require.NoError(t, err)
	out := tar.NewWriter(packer)
	write := func(name string, kind byte, data []byte) {
		require.NoError(t,
			out.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: 0o700, Size: int64(len(data))}))
		_, err := out.Write(data)
		require.NoError(t, err)
	}
	m := Manifest{Format: format}
	for _, name := range []string{"kafka/new", "lost+found/x"} {
		write(filepath.Dir(name)+"/", tar.TypeDir, nil)
		write(name, tar.TypeReg, []byte(name))
		sum := sha256.Sum256([]byte(name))
		m.Files = append(m.Files, File{Path: name, Size: int64(len(name)), SHA256: hex.EncodeToString(sum[:])})
	}
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	write(manifestName, tar.TypeReg, raw)
	require.NoError(t, out.Close())
	require.NoError(t, packer.Close())

	dir := t.TempDir()
	unpacked, err := Unpacking(dir)
	require.NoError(t, err)
	_, err = Extract(t.Context(), &archive, unpacked)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(unpacked, "lost+found"))
	_, err = Place(dir, time.Now())
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.FileExists(t, filepath.Join(dir, "kafka", "new"))
}

// The copies may contain data about erased people.
func TestCreate_SkipsCopiesOfDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kafka/damaged/t-0-0-1.dat", "kafka/log/damaged"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	m, err := Create(t.Context(), dir, "v", time.Now(), new(bytes.Buffer))
	require.NoError(t, err)
	require.Len(t, m.Files, 1)
	require.Equal(t, "kafka/log/damaged", m.Files[0].Path)
}
