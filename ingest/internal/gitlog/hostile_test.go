package gitlog

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
	"muster/schemas/record"
)

// gitIn runs git in a directory.
func gitIn(t testing.TB, dir, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	require.NoError(t, err, "git %v", args)
	return string(out)
}

func bare(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	gitIn(t, dir, "", "init", "-q", "--bare", "-b", "main", ".")
	gitIn(t, dir, "", "hash-object", "-t", "tree", "-w", "--stdin")
	return dir
}

const signatures = "author A <1+a@users.noreply.codehost.example> 1700000000 +0000\ncommitter A <a@x> 1700000000 " +
	"+0000\n"

// commitText returns a commit of the empty tree.
func commitText(message string, parents ...string) string {
	text := "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
	for _, p := range parents {
		text += "parent " + p + "\n"
	}
	return text + signatures + "\n" + message
}

func addCommit(t testing.TB, dir, ref, message string, parents ...string) string {
	t.Helper()
	h := strings.TrimSpace(
		gitIn(t, dir, commitText(message, parents...), "hash-object", "-t", "commit", "-w", "--stdin"),
	)
	if ref != "" {
		addRef(t, dir, ref, h)
	}
	return h
}

func addRef(t testing.TB, dir, ref, hash string) {
	t.Helper()
	path := filepath.Join(dir, "refs", "heads", ref)
	require.NoError(t, os.WriteFile(path, []byte(hash+"\n"), 0o600))
}

// addHugeObject writes a loose object of zeros, whose size may differ from its header.
func addHugeObject(t testing.TB, dir, name, header string, size int) {
	t.Helper()
	path := filepath.Join(dir, "objects", name[:2], name[2:])
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	require.NoError(t, err)
	_, err = io.WriteString(z, header+"\x00"+commitText(""))
	require.NoError(t, err)
	_, err = io.CopyN(z, zeros{}, int64(size))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// readings are the records of one reading of a repository.
type readings struct {
	repo    *Repository
	commits []record.CodehostCommit
	people  []record.CodehostPerson
	bad     []string
	dropped int64
}

// read reads a repository completely.
func read(t testing.TB, dir string, opts Options) (all readings, err error) {
	t.Helper()
	if opts.StateDir == "" {
		opts.StateDir = t.TempDir()
	}
	if all.repo, err = Open(t.Context(), dir, opts); err != nil {
		return all, err
	}
	l, err := all.repo.Log(t.Context())
	if err != nil {
		return all, err
	}
	defer func() { require.NoError(t, l.Close()) }()
	for {
		c, err := l.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all.dropped += c.Dropped
		for _, line := range c.Lines {
			switch {
			case line.Bad != nil:
				all.bad = append(all.bad, string(line.Raw)+line.Bad.Reason)
			case line.Kind == record.KindCodehostCommit:
				all.commits = append(all.commits, decoded[record.CodehostCommit](t, line.Raw))
			case line.Kind == record.KindCodehostPerson:
				all.people = append(all.people, decoded[record.CodehostPerson](t, line.Raw))
			}
		}
	}
}

func decoded[T any](t testing.TB, raw []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// history reads a repository with MakeAccounts.
func history(t testing.TB, dir string) (sound []record.CodehostCommit, bad []string, err error) {
	t.Helper()
	all, err := read(t, dir, Options{MakeAccounts: true})
	return all.commits, all.bad, err
}

// requireSmall checks that no child process so far used more memory than a few objects at their limit.
func requireSmall(t testing.TB) {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage))
	unit := int64(1024)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	require.Less(t, usage.Maxrss*unit, int64(700<<20))
}

// A few hundred kilobytes in a repository can decompress to gigabytes.
func TestLog_HugeObjectsTakeBoundedMemory(t *testing.T) {
	const size = 96 << 20
	object := strings.Repeat("ab", 20)
	for name, c := range map[string]struct {
		header string
		size   int
		err    string
	}{
		"commit":                      {header: fmt.Sprintf("commit %d", size), size: size, err: "git fsck --full"},
		"commit over the limit":       {header: "commit 1099511627776", size: 1 << 20, err: "more than 256 MiB"},
		"commit longer than declared": {header: "commit 10", size: size, err: "git fsck --full"},
		"negative commit size":        {header: "commit -1", size: size, err: "git fsck --full"},
		"blob":                        {header: fmt.Sprintf("blob %d", size), size: size},
		"tree":                        {header: fmt.Sprintf("tree %d", size), size: size},
		"object without a header":     {header: strings.Repeat("x", 100), size: size, err: "git fsck --full"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bare(t)
			addCommit(t, dir, "main", "sound")
			addHugeObject(t, dir, object, c.header, c.size)
			addRef(t, dir, "huge", object)
			var sound []record.CodehostCommit
			var bad []string
			var err error
			took := heaptest.Allocated(func() { sound, bad, err = history(t, dir) })
			require.Less(t, took, uint64(64<<20))
			requireSmall(t)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, sound, 1)
			require.Empty(t, bad)
		})
	}
}

func TestLog_ReadsHistoryAroundLargeCommits(t *testing.T) {
	dir := bare(t)
	huge := strings.Repeat("all the same\n", 16<<20/13)
	first := addCommit(t, dir, "", "first")
	second := addCommit(t, dir, "", huge, first)
	third := addCommit(t, dir, "side", huge+"and more", first)
	addCommit(t, dir, "main", "last", second, third)
	tag := strings.TrimSpace(
		gitIn(t, dir, "object "+first+"\ntype commit\ntag x\ntagger A <a@x> 1 +0000\n\n"+huge, "hash-object", "-t",
			"tag", "-w", "--stdin"),
	)
	addRef(t, dir, "tag", tag)
	for range 2 { // loose objects, then a pack
		var sound []record.CodehostCommit
		var bad []string
		var err error
		took := heaptest.Allocated(func() { sound, bad, err = history(t, dir) })
		require.NoError(t, err)
		require.Len(t, sound, 2, "parents of large commits are read too")
		require.ElementsMatch(t, []string{
			`{"sha":"` + second + `"}is a commit larger than 4 MiB`,
			`{"sha":"` + third + `"}is a commit larger than 4 MiB`,
		}, bad)
		require.Less(t, took, uint64(64<<20))
		requireSmall(t)
		gitIn(t, dir, "", "repack", "-adfq")
		gitIn(t, dir, "", "prune-packed")
		require.Contains(t, gitIn(t, dir, "", "count-objects", "-v"), "count: 0")
	}
}

// One commit is held at a time, for any number of tips.
func TestLog_ManyTipsTakeBoundedMemory(t *testing.T) {
	dir := bare(t)
	for i := range 40 {
		addCommit(t, dir, fmt.Sprintf("b%d", i), strings.Repeat("all the same\n", 4_000_000/13)+fmt.Sprint(i))
	}
	r, err := Open(t.Context(), dir, Options{StateDir: t.TempDir(), MakeAccounts: true})
	require.NoError(t, err)
	l, err := r.Log(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	for n := range 40 {
		c, err := l.commits.next()
		require.NoError(t, err)
		require.Greater(t, len(c.message), 1<<20)
		if n%13 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			require.Less(t, m.HeapAlloc, uint64(64<<20))
		}
	}
	_, err = l.commits.next()
	require.ErrorIs(t, err, io.EOF)
	l.commits = nil
	requireSmall(t)
}

func TestLog_KillsSilentGit(t *testing.T) {
	files := []string{
		"refs/heads/x", "packed-refs", "HEAD", "config", "shallow", "commondir",
		"objects/ab/abababababababababababababababababababab",
	}
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			dir := bare(t)
			addCommit(t, dir, "main", "sound")
			addRef(t, dir, "missing", strings.Repeat("ab", 20))
			path := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			if err := os.Remove(path); err != nil {
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
			require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", path).Run())
			_, err := read(t, dir, Options{idle: 200 * time.Millisecond})
			require.Error(t, err)
		})
	}
}

func TestLog_MissingObjectsErrorNamesTheFix(t *testing.T) {
	dir := bare(t)
	addRef(t, dir, "main", strings.Repeat("ab", 20))
	alternates := filepath.Join(dir, "objects", "info", "alternates")
	require.NoError(t, os.WriteFile(alternates, []byte(filepath.Join(dir, "objects")+"\n"), 0o600))
	_, _, err := history(t, dir)
	require.ErrorContains(t, err, "missing object abababab")
	require.ErrorContains(t, err, "git fsck --full")

	require.NoError(t, os.WriteFile(alternates, []byte("/absent/objects\n"), 0o600))
	_, _, err = history(t, dir)
	require.ErrorContains(t, err, "git repack -a -d")

	dir = bare(t)
	addCommit(t, dir, "main", "child", strings.Repeat("ac", 20))
	_, _, err = history(t, dir)
	require.ErrorContains(t, err, "git fsck --full")
}

// A repository from outside can name programs in its configuration.
func TestLog_RunsNoProgramsOfTheRepository(t *testing.T) {
	dir := bare(t)
	mark := filepath.Join(t.TempDir(), "mark")
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700))
	for _, key := range []string{
		"core.fsmonitor", "core.pager", "pager.rev-list", "core.sshCommand", "core.gitProxy",
		"core.alternateRefsCommand", "core.editor",
		"gpg.program", "log.showSignature", "diff.external", "credential.helper", "uploadpack.packObjectsHook",
		"remote.o.uploadpack", "remote.o.vcs",
		"alias.rev-list", "filter.x.smudge", "merge.x.driver",
	} {
		gitIn(t, dir, "", "config", key, program)
	}
	gitIn(t, dir, "", "config", "core.hooksPath", filepath.Dir(program))
	for key, value := range map[string]string{
		"core.repositoryFormatVersion": "1", "extensions.partialClone": "o", "remote.o.promisor": "true",
		"remote.o.url": "ext::" + program, "protocol.ext.allow": "always", "remote.origin.url": "ext::" + program,
	} {
		gitIn(t, dir, "", "config", key, value)
	}
	missing := strings.Repeat("ab", 20)
	tree := "tree " + missing + "\n" + signatures + "\nwithout its tree"
	h := strings.TrimSpace(gitIn(t, dir, tree, "hash-object", "-t", "commit", "-w", "--literally", "--stdin"))
	addRef(t, dir, "main", h)
	all, err := read(t, dir, Options{MakeAccounts: true})
	require.NoError(t, err)
	require.Len(t, all.commits, 1)
	require.NoFileExists(t, mark)
	addCommit(t, dir, "side", "child of a missing commit", missing)
	_, err = read(t, dir, Options{MakeAccounts: true})
	require.ErrorContains(t, err, "without --filter")
	require.NoFileExists(t, mark)
}
