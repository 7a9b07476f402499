package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

const (
	manifestName = "muster-backup.json"
	format       = 1
	// maxManifest bounds the manifest of an archive, in bytes: about a million files.
	maxManifest = 256 << 20
)

// Manifest says what an archive holds.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"` // of the muster that made it
	CreatedAt time.Time `json:"created_at"`
	Bytes     int64     `json:"bytes"` // of all files, unpacked
	Files     []File    `json:"files"`
}

// File is a regular file of the data folder.
type File struct {
	Path   string `json:"path"` // with slashes, from the data folder
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// left says what is no data of the folder: locks, what restores have kept, and the
// broker's copies of damaged files, which no erasure looks into.
func left(path string) bool {
	return stays(path) || path == "kafka/damaged" || strings.HasSuffix(path, ".lock") || path == manifestName
}

// Create packs a data folder that nobody serves from meanwhile.
func Create(ctx context.Context, dir, version string, now time.Time, w io.Writer) (Manifest, error) {
	m := Manifest{Format: format, Version: version, CreatedAt: now.UTC()}
	packer, err := zstd.NewWriter(w)
	if err != nil {
		return m, fmt.Errorf("back up: %w", err)
	}
	out := tar.NewWriter(packer)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, errors.Join(fmt.Errorf("back up: %w", err), packer.Close())
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if path == "." {
			return nil
		}
		if left(path) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return m.pack(root, out, path, info)
	})
	if err != nil {
		return m, errors.Join(fmt.Errorf("back up %s: %w", dir, err), packer.Close())
	}
	raw, err := json.Marshal(m)
	if err == nil {
		err = out.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(raw)), ModTime: m.CreatedAt, Format: tar.FormatPAX})
	}
	if err == nil {
		_, err = out.Write(raw)
	}
	if err = errors.Join(err, out.Close(), packer.Close()); err != nil {
		return m, fmt.Errorf("back up %s: %w", dir, err)
	}
	return m, nil
}

func (m *Manifest) pack(root *os.Root, out *tar.Writer, path string, info fs.FileInfo) error {
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = root.Readlink(path); err != nil {
			return err
		}
		if !filepath.IsLocal(filepath.Join(filepath.Dir(path), target)) || filepath.IsAbs(target) {
			return fmt.Errorf("%s leads to %s, outside of the folder: back that up by itself, and put a folder in its place", path, target)
		}
	}
	if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
		return nil // a socket or a pipe of a process that has ended
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name, header.Format = filepath.ToSlash(path), tar.FormatPAX
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	if info.IsDir() {
		header.Name += "/"
	}
	if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := root.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m.Bytes += n
	m.Files = append(m.Files, File{Path: header.Name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// Read looks through an archive without unpacking it, and returns its manifest when all of it
// is there and unchanged.
func Read(ctx context.Context, r io.Reader) (Manifest, error) { return read(ctx, r, nil) }

// Extract unpacks an archive into a folder that it makes. When it fails, what is
// in the folder is not to be used.
func Extract(ctx context.Context, r io.Reader, dir string) (Manifest, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Manifest{}, fmt.Errorf("restore: %w", err)
	}
	root, err := os.OpenRoot(dir) // no name of an archive leads out of it
	if err != nil {
		return Manifest{}, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = root.Close() }()
	return read(ctx, r, root)
}

// read checks an archive, and unpacks it into root, if there is one.
func read(ctx context.Context, r io.Reader, root *os.Root) (m Manifest, err error) {
	unpacker, err := zstd.NewReader(r)
	if err != nil {
		return m, fmt.Errorf("read the archive: %w", err)
	}
	defer unpacker.Close()
	found := map[string]File{}
	for in := tar.NewReader(unpacker); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return m, errors.New("read the archive: it has been cut off, or is no backup of muster's: it has no manifest")
		}
		if errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, tar.ErrHeader) && len(found) == 0 {
			return m, fmt.Errorf("read the archive: this is none of `muster backup create`: %w", err)
		}
		if err != nil {
			return m, fmt.Errorf("read the archive: %w", err)
		}
		if ctx.Err() != nil {
			return m, fmt.Errorf("read the archive: %w", context.Cause(ctx))
		}
		if header.Name == manifestName {
			if err := json.UnmarshalRead(io.LimitReader(in, maxManifest), &m); err != nil {
				return m, fmt.Errorf("read the archive's manifest: %w", err)
			}
			return m, m.compare(found)
		}
		sum := sha256.New()
		if err := unpack(root, header, in, sum); err != nil {
			return m, fmt.Errorf("read the archive: %s: %w", header.Name, err)
		}
		if header.Typeflag == tar.TypeReg {
			found[header.Name] = File{Path: header.Name, Size: header.Size, SHA256: hex.EncodeToString(sum.Sum(nil))}
		}
	}
}

func unpack(root *os.Root, header *tar.Header, in io.Reader, sum hash.Hash) error {
	path := filepath.FromSlash(strings.TrimSuffix(header.Name, "/"))
	// Archives of earlier versions hold the disk's lost+found.
	if first, _, _ := strings.Cut(header.Name, "/"); root == nil || stays(first) {
		_, err := io.Copy(sum, in)
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(path, 0o700)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, path)
	case tar.TypeReg:
		file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, header.FileInfo().Mode().Perm()&0o700|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.MultiWriter(file, sum), in)
		return errors.Join(err, file.Sync(), file.Close())
	default:
		return fmt.Errorf("a file of kind %q, which no backup holds", header.Typeflag)
	}
}

func (m *Manifest) compare(found map[string]File) error {
	if m.Format != format {
		return fmt.Errorf("read the archive: it has format %d, and this muster reads %d", m.Format, format)
	}
	for _, f := range m.Files {
		if found[f.Path] != f {
			return fmt.Errorf("read the archive: %s is damaged", f.Path)
		}
	}
	if len(found) != len(m.Files) {
		return fmt.Errorf("read the archive: %d files, and the manifest names %d", len(found), len(m.Files))
	}
	return nil
}
