package gitlog

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
	"muster/schemas/record"
)

// gitIn runs git in a folder.
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

const author = "author A <1+a@users.noreply.codehost.example> 1700000000 +0000\ncommitter A <a@x> 1700000000 +0000\n"

// commitText is a commit of the empty tree.
func commitText(message string, parents ...string) string {
	text := "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
	for _, p := range parents {
		text += "parent " + p + "\n"
	}
	return text + author + "\n" + message
}

func addCommit(t testing.TB, dir, ref, message string, parents ...string) string {
	t.Helper()
	h := strings.TrimSpace(gitIn(t, dir, commitText(message, parents...), "hash-object", "-t", "commit", "-w", "--stdin"))
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

// addBomb writes a loose object of zeros that is as long as it says, or is not.
func addBomb(t testing.TB, dir, name, header string, size int) {
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

// history reads all of a repository.
func history(t testing.TB, dir string) (sound, bad []string, err error) {
	t.Helper()
	r, err := Open(dir, Options{StateDir: t.TempDir(), MakeAccounts: true})
	if err != nil {
		return nil, nil, err
	}
	l, err := r.Log(t.Context())
	if err != nil {
		return nil, nil, err
	}
	defer func() { require.NoError(t, l.Close()) }()
	for {
		c, err := l.Next()
		if errors.Is(err, io.EOF) {
			return sound, bad, nil
		}
		if err != nil {
			return sound, bad, err
		}
		for _, line := range c.Lines {
			switch {
			case line.Bad != nil:
				bad = append(bad, string(line.Raw)+line.Bad.Reason)
			case line.Kind == record.KindCodehostCommit:
				sound = append(sound, string(line.Raw))
			}
		}
	}
}

// A few hundred thousand bytes of a repository may stand for gigabytes: they are not
// unpacked, whatever they say of their size, and the rest of the history is read.
func TestBombs(t *testing.T) {
	const size = 96 << 20
	name := strings.Repeat("ab", 20)
	for what, c := range map[string]struct {
		header string
		bad    int
		err    string
	}{
		"commit":            {header: fmt.Sprintf("commit %d", size), bad: 1},
		"commit that lies":  {header: "commit 10", err: "damaged"},
		"commit below zero": {header: "commit -1", err: "damaged"},
		"tag":               {header: fmt.Sprintf("tag %d", size)},
		"tag that lies":     {header: "tag 200", err: "damaged"},
		"blob":              {header: fmt.Sprintf("blob %d", size)},
		"tree":              {header: fmt.Sprintf("tree %d", size)},
		"no header":         {header: strings.Repeat("x", 100), err: "damaged"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := bare(t)
			addCommit(t, dir, "main", "sound")
			addBomb(t, dir, name, c.header, size)
			addRef(t, dir, "bomb", name)
			var sound, bad []string
			var err error
			took := heaptest.Allocated(func() { sound, bad, err = history(t, dir) })
			require.Less(t, took, uint64(64<<20))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, name)
				return
			}
			require.NoError(t, err)
			require.Len(t, sound, 1)
			require.Len(t, bad, c.bad)
			for _, b := range bad {
				require.Equal(t, `{"sha":"`+name+`"}is a commit of more than 4 MiB; it is passed over, and what it follows`, b)
			}
		})
	}
}

// The same in packs, also as what others are made of.
func TestBombsInPacks(t *testing.T) {
	dir := bare(t)
	huge := strings.Repeat("all the same\n", 16<<20/13)
	first := addCommit(t, dir, "", "first")
	second := addCommit(t, dir, "", huge, first)
	third := addCommit(t, dir, "side", huge+"and more", first)
	addCommit(t, dir, "main", "last", second, third)
	tag := strings.TrimSpace(gitIn(t, dir, "object "+first+"\ntype commit\ntag x\ntagger A <a@x> 1 +0000\n\n"+huge, "hash-object", "-t", "tag", "-w", "--stdin"))
	addRef(t, dir, "tag", tag)
	gitIn(t, dir, "", "repack", "-adfq")
	gitIn(t, dir, "", "prune-packed")
	require.Contains(t, gitIn(t, dir, "", "count-objects", "-v"), "count: 0")
	var sound, bad []string
	var err error
	took := heaptest.Allocated(func() { sound, bad, err = history(t, dir) })
	require.NoError(t, err)
	require.Len(t, sound, 1)
	require.Len(t, bad, 2)
	require.Less(t, took, uint64(64<<20))
}

// A delta may copy a byte as often as it likes.
func TestDeltaBomb(t *testing.T) {
	dir := bare(t)
	base := commitText(strings.Repeat("x", 1<<20))
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(base))), 1<<33)
	for range 1 << 13 { // copies 1 MiB from the beginning
		delta = append(delta, 0x80|0x40, 0x10)
	}
	bomb, loop := plumbing.NewHash(strings.Repeat("ab", 20)), plumbing.NewHash(strings.Repeat("ac", 20))
	writePack(t, dir, []packed{
		{name: plumbing.ComputeHash(plumbing.CommitObject, []byte(base)), kind: plumbing.CommitObject, data: []byte(base)},
		{name: bomb, kind: plumbing.REFDeltaObject, base: plumbing.ComputeHash(plumbing.CommitObject, []byte(base)), data: delta},
		{name: loop, kind: plumbing.REFDeltaObject, base: loop, data: []byte{1, 1, 1, 'x'}},
	})
	r, err := Open(dir, Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	o := newObjects(r.git.Storer, r.files)
	defer func() { require.NoError(t, o.close()) }()
	took := heaptest.Allocated(func() { _, err = o.EncodedObject(plumbing.AnyObject, bomb) })
	require.ErrorIs(t, err, errLarge)
	require.Less(t, took, uint64(64<<20))
	_, err = o.EncodedObject(plumbing.AnyObject, loop)
	require.ErrorIs(t, err, errDamaged)
	_, err = o.kind(loop)
	require.ErrorIs(t, err, errDamaged)
	kind, err := o.kind(bomb)
	require.NoError(t, err)
	require.Equal(t, plumbing.CommitObject, kind)
}

type packed struct {
	name, base plumbing.Hash
	kind       plumbing.ObjectType
	data       []byte
}

// writePack writes a pack and its index, of objects in the order of their names.
func writePack(t testing.TB, dir string, all []packed) {
	t.Helper()
	out := []byte("PACK\x00\x00\x00\x02")
	out = binary.BigEndian.AppendUint32(out, uint32(len(all)))
	places := map[plumbing.Hash]int{}
	for _, p := range all {
		places[p.name] = len(out)
		size := len(p.data)
		b := byte(p.kind)<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			out = append(out, b|0x80)
			b = byte(size & 0x7f)
		}
		out = append(out, b)
		if p.kind == plumbing.REFDeltaObject {
			out = append(out, p.base[:]...)
		}
		var zipped bytes.Buffer
		z := zlib.NewWriter(&zipped)
		_, err := z.Write(p.data)
		require.NoError(t, errors.Join(err, z.Close()))
		out = append(out, zipped.Bytes()...)
	}
	sum := sha1.Sum(out)
	index := []byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}
	var names, sums, offsets []byte
	for b := range 256 {
		for _, p := range all {
			if int(p.name[0]) == b {
				names = append(names, p.name[:]...)
				sums = append(sums, 0, 0, 0, 0)
				offsets = binary.BigEndian.AppendUint32(offsets, uint32(places[p.name]))
			}
		}
		index = binary.BigEndian.AppendUint32(index, uint32(len(names)/20))
	}
	index = append(append(append(append(index, names...), sums...), offsets...), sum[:]...)
	path := filepath.Join(dir, "objects", "pack", "pack-"+hex.EncodeToString(sum[:]))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path+".idx", append(index, make([]byte, 20)...), 0o600))
	require.NoError(t, os.WriteFile(path+".pack", append(out, sum[:]...), 0o600))
}

// Every object is read as git itself reads it, from files of their own and from packs.
func TestObjects(t *testing.T) {
	dir := bare(t)
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	text := make([]string, 40)
	for i := range 300 {
		text[r.IntN(len(text))] = fmt.Sprint(r.Uint64())
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\n%sdata 4\nwhy\n", i+1, author)
		file := strings.Join(text, "\n")
		fmt.Fprintf(&b, "M 100644 inline dir%d/f%d\ndata %d\n%s\n", r.IntN(5), r.IntN(30), len(file), file)
	}
	gitIn(t, dir, b.String(), "fast-import", "--quiet")
	check := func() {
		repo, err := Open(dir, Options{StateDir: t.TempDir()})
		require.NoError(t, err)
		o := newObjects(repo.git.Storer, repo.files)
		defer func() { require.NoError(t, o.close()) }()
		in := bufio.NewReader(strings.NewReader(gitIn(t, dir, "", "cat-file", "--batch", "--batch-all-objects")))
		n := 0
		for {
			var name, kind string
			var size int
			if _, err := fmt.Fscanf(in, "%s %s %d\n", &name, &kind, &size); err != nil {
				break
			}
			want := make([]byte, size)
			_, err := io.ReadFull(in, want)
			require.NoError(t, err)
			_, err = in.Discard(1)
			require.NoError(t, err)
			h := plumbing.NewHash(name)
			got, err := o.EncodedObject(plumbing.AnyObject, h)
			require.NoError(t, err)
			require.Equal(t, kind, got.Type().String())
			reader, err := got.Reader()
			require.NoError(t, err)
			raw, err := io.ReadAll(reader)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, raw))
			is, err := o.kind(h)
			require.NoError(t, err)
			require.Equal(t, kind, is.String())
			n++
		}
		require.Greater(t, n, 800)
		_, err = o.EncodedObject(plumbing.AnyObject, plumbing.NewHash("11"))
		require.ErrorIs(t, err, plumbing.ErrObjectNotFound)
	}
	check()
	gitIn(t, dir, "", "repack", "-adfq", "--depth=200", "--window=50")
	check()
	gitIn(t, dir, "", "-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq")
	check()
	moved := filepath.Join(t.TempDir(), "p")
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	require.NoError(t, err)
	require.Len(t, packs, 1)
	require.NoError(t, os.Rename(packs[0], moved))
	raw, err := os.ReadFile(moved)
	require.NoError(t, err)
	require.NoError(t, os.Remove(strings.TrimSuffix(packs[0], ".pack")+".idx"))
	gitIn(t, dir, string(raw), "unpack-objects", "-q")
	check()
}

// However many tips there are, their commits are not all held at once.
func TestManyTips(t *testing.T) {
	dir := bare(t)
	for i := range 40 {
		addCommit(t, dir, fmt.Sprintf("b%d", i), strings.Repeat("all the same\n", 4_000_000/13)+fmt.Sprint(i))
	}
	r, err := Open(dir, Options{StateDir: t.TempDir(), MakeAccounts: true})
	require.NoError(t, err)
	l, err := r.Log(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(100<<20))
	n := 0
	for c, err := l.walk.next(); c != nil; c, err = l.walk.next() {
		require.NoError(t, err)
		require.Greater(t, len(c.Message), 1<<20)
		n++
	}
	require.Equal(t, 40, n)
}

// Alternates that lead back are not followed for ever: the missing object is missing.
func TestAlternatesLoop(t *testing.T) {
	dir := bare(t)
	addRef(t, dir, "main", strings.Repeat("ab", 20))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte("objects\n"), 0o600))
	_, _, err := history(t, dir)
	require.ErrorIs(t, err, plumbing.ErrObjectNotFound)
}

// What is no file is not read: a pipe that nobody writes to never ends.
func TestNoFiles(t *testing.T) {
	for _, name := range []string{"refs/heads/x", "packed-refs", "HEAD", "config", "shallow", "commondir", "objects/ab/abababababababababababababababababababab"} {
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
			began := time.Now()
			_, _, err := history(t, dir)
			require.Error(t, err)
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
	dir := bare(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "refs", "heads", "x"), make([]byte, 2<<20), 0o600))
	_, _, err := history(t, dir)
	require.ErrorContains(t, err, "larger than 1 MiB")
}

// A worktree's folder is found by its file ".git", and its objects in the common folder.
func TestWorktree(t *testing.T) {
	dir := bare(t)
	h := addCommit(t, dir, "main", "sound")
	tree := filepath.Join(t.TempDir(), "tree")
	gitIn(t, dir, "", "worktree", "add", "-q", tree, h)
	sound, bad, err := history(t, tree)
	require.NoError(t, err)
	require.Len(t, sound, 1)
	require.Empty(t, bad)
	require.NoError(t, os.WriteFile(filepath.Join(tree, ".git"), []byte("nothing"), 0o600))
	_, _, err = history(t, tree)
	require.ErrorContains(t, err, "names no folder")
}
