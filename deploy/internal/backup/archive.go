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
	// maxManifest is the maximum size of the manifest of an archive, in bytes: about a million files.
	maxManifest = 256 << 20
)

// Manifest describes the content of an archive.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"` // version of muster
	CreatedAt time.Time `json:"created_at"`
	Bytes     int64     `json:"bytes"` // size of all files, uncompressed
	Files     []File    `json:"files"`
}

// File is a regular file of the data directory.
type File struct {
	Path   string `json:"path"` // slash-separated, relative to the data directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// isExcluded reports whether a path is not archived: locks, directories kept by restores, and the broker's copies of
// damaged files, which erasures do not process.
func isExcluded(path string) bool {
	return isNotData(path) || path == "kafka/damaged" || strings.HasSuffix(path, ".lock") || path == manifestName
}

// Create archives a data directory. No process may serve it.
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
		if isExcluded(path) {
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
		err = out.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(raw)), ModTime: m.CreatedAt,
			Format: tar.FormatPAX})
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
			return fmt.Errorf(
				"%s is a link to %s, outside of the data directory: back that up separately, and replace the link "+
					"with a directory", path, target)
		}
	}
	if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
		return nil // a socket or pipe of a process that has exited
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

// Read verifies an archive without extracting it, and returns its manifest. It returns an error if files are missing or
// changed.
func Read(ctx context.Context, r io.Reader) (Manifest, error) { return read(ctx, r, nil) }

// Extract unpacks an archive into a new directory. If it fails, the content of the directory is invalid.
func Extract(ctx context.Context, r io.Reader, dir string) (Manifest, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Manifest{}, fmt.Errorf("restore: %w", err)
	}
	root, err := os.OpenRoot(dir) // confines the names in the archive
	if err != nil {
		return Manifest{}, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = root.Close() }()
	return read(ctx, r, root)
}

// read verifies an archive, and unpacks it into root unless that is nil.
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
			return m, errors.New("read the archive: truncated, or not a backup of muster: no manifest")
		}
		if errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, tar.ErrHeader) && len(found) == 0 {
			return m, fmt.Errorf("read the archive: not a backup of `muster backup create`: %w", err)
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
	// Archives of earlier versions contain the lost+found of the disk.
	if first, _, _ := strings.Cut(header.Name, "/"); root == nil || isNotData(first) {
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
		return fmt.Errorf("unsupported file type %q", header.Typeflag)
	}
}

func (m *Manifest) compare(found map[string]File) error {
	if m.Format != format {
		return fmt.Errorf("read the archive: unsupported format %d (want %d)", m.Format, format)
	}
	for _, f := range m.Files {
		if found[f.Path] != f {
			return fmt.Errorf("read the archive: %s is damaged", f.Path)
		}
	}
	if len(found) != len(m.Files) {
		return fmt.Errorf("read the archive: %d files, but %d in the manifest", len(found), len(m.Files))
	}
	return nil
}
