package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/sassoftware/go-rpmutils"
	"github.com/stretchr/testify/require"
)

// newRelease returns a release of a program that does nothing, and the path of the program.
func newRelease(t *testing.T) (*release, string) {
	t.Helper()
	r := &release{root: "../..", out: t.TempDir(), python: "python3", version: "1.2.3",
		mtime: time.Unix(1_800_000_000, 0).UTC()}
	program := filepath.Join(t.TempDir(), "muster")
	require.NoError(t, os.WriteFile(program, []byte("program"), 0o600))
	return r, program
}

func TestRelease_SameFilesGiveSameBytes(t *testing.T) {
	var sums []string
	for range 2 {
		r, program := newRelease(t)
		files, err := r.tarballFiles(program)
		require.NoError(t, err)
		require.NoError(t, r.writeTarball("muster", "muster_1.2.3", files))
		names := []string{"muster.tar.gz"}
		for _, format := range []string{"deb", "rpm"} {
			name, err := r.writePackage(format, "amd64", program)
			require.NoError(t, err)
			names = append(names, name)
		}
		require.NoError(t, writeChecksums(r.out, names))
		raw, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
		require.NoError(t, err)
		sums = append(sums, string(raw))
	}
	require.Equal(t, sums[0], sums[1])
	require.Regexp(t, `(?m)^[0-9a-f]{64}  muster_1\.2\.3_amd64\.deb$`, sums[0])
	require.Regexp(t, `(?m)^[0-9a-f]{64}  muster-1\.2\.3-1\.x86_64\.rpm$`, sums[0])
}

func TestRelease_TarballHoldsProgramUnitAndDocuments(t *testing.T) {
	r, program := newRelease(t)
	files, err := r.tarballFiles(program)
	require.NoError(t, err)
	files = append(files, file{name: "libchdb/README", mode: 0o644, content: "engine"})
	require.NoError(t, r.writeTarball("muster", "muster_1.2.3", files))
	raw, err := os.Open(filepath.Join(r.out, "muster.tar.gz"))
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	packed, err := gzip.NewReader(raw)
	require.NoError(t, err)
	modes := map[string]int64{}
	for tarball := tar.NewReader(packed); ; {
		header, err := tarball.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		modes[header.Name] = header.Mode
		require.Equal(t, [3]any{r.mtime, 0, 0}, [3]any{header.ModTime.UTC(), header.Uid, header.Gid}, header.Name)
	}
	for name, mode := range map[string]int64{
		"muster": 0o755, "LICENSE": 0o644, "NOTICE": 0o644, "README.md": 0o644, "deploy/docs/install.md": 0o644,
		"systemd/muster.service": 0o644, "systemd/muster.yaml": 0o644, "systemd/muster.env": 0o644,
		"libchdb/README": 0o644,
	} {
		require.Equal(t, mode, modes["muster_1.2.3/"+name], name)
	}
}

func TestRelease_WheelIsTypedAndReproducible(t *testing.T) {
	var wheels [][]byte
	for range 2 {
		r, _ := newRelease(t)
		name, err := r.buildWheel(t.Context())
		require.NoError(t, err)
		require.Regexp(t, `^muster_client-\d+\.\d+\.\d+-py3-none-any\.whl$`, name)
		entries, err := os.ReadDir(r.out)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		wheel, err := os.ReadFile(filepath.Join(r.out, name))
		require.NoError(t, err)
		wheels = append(wheels, wheel)
	}
	require.Equal(t, wheels[0], wheels[1])
	archive, err := zip.NewReader(bytes.NewReader(wheels[0]), int64(len(wheels[0])))
	require.NoError(t, err)
	for _, name := range []string{"__init__.py", "py.typed", "client.py", "async_client.py", "models.py"} {
		_, err := fs.Stat(archive, "muster_client/"+name)
		require.NoError(t, err)
	}
	metadata, err := fs.Glob(archive, "muster_client-*.dist-info/METADATA")
	require.NoError(t, err)
	require.Len(t, metadata, 1)
	text, err := fs.ReadFile(archive, metadata[0])
	require.NoError(t, err)
	require.Contains(t, string(text), "\nRequires-Python: >=3.9\n")
	require.Contains(t, string(text), "\nRequires-Dist: pandas>=2; extra == 'pandas'\n")
}

func TestRelease_RPMHoldsProgramUnitAndConfiguration(t *testing.T) {
	r, program := newRelease(t)
	name, err := r.writePackage("rpm", "amd64", program)
	require.NoError(t, err)
	raw, err := os.Open(filepath.Join(r.out, name))
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	rpm, err := rpmutils.ReadRpm(raw)
	require.NoError(t, err)
	host, err := rpm.Header.GetString(rpmutils.BUILDHOST)
	require.NoError(t, err)
	require.Equal(t, "localhost", host, "not this machine's name")
	for _, tag := range []int{rpmutils.POSTIN, rpmutils.PREUN, rpmutils.POSTUN} {
		script, err := rpm.Header.GetString(tag)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(script, "#!/bin/sh\n"), script)
	}
	found := map[string]rpmutils.FileInfo{}
	infos, err := rpm.Header.GetFiles()
	require.NoError(t, err)
	for _, info := range infos {
		found[info.Name()] = info
	}
	const configNoReplace = 1 | 1<<4 // RPMFILE_CONFIG, RPMFILE_NOREPLACE
	for path, want := range map[string][2]int{
		"/usr/bin/muster": {0o755, 0}, "/lib/systemd/system/muster.service": {0o644, 0},
		"/etc/muster/muster.yaml": {0o644, configNoReplace}, "/etc/muster/muster.env": {0o640, configNoReplace},
		"/usr/share/doc/muster/LICENSE": {0o644, 0}, "/usr/share/doc/muster/deploy/docs/install.md": {0o644, 0},
	} {
		require.Contains(t, found, path)
		require.Equal(t, want, [2]int{found[path].Mode() & 0o777, found[path].Flags()}, path)
		require.Equal(t, "root", found[path].UserName(), path)
	}
}

func TestReadLibraries_FindsPinnedAndMissingEngines(t *testing.T) {
	libraries, err := readLibraries("../..")
	require.NoError(t, err)
	require.Len(t, libraries, 4)
	require.Equal(t, "linux/amd64", libraries[0].os+"/"+libraries[0].arch)
	require.NotEqual(t, "-", libraries[0].integrity)
	require.Equal(t, "libchdb/"+libraries[0].version+"/linux-amd64/libchdb.so", libraries[0].bundledPath())
}
