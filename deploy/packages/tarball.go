package main

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// file is a file of a tarball.
type file struct {
	name string
	mode int64
	// source is the file to copy; if empty, content is the content of the file.
	source, content string
}

// documents returns the files of the repository that every package has, under their own names, so that links work.
func (r *release) documents() ([]string, error) {
	names := []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "SECURITY.md"}
	pages := filepath.Join(r.root, "deploy", "docs")
	err := filepath.WalkDir(pages, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(r.root, name)
		names = append(names, filepath.ToSlash(relative))
		return err
	})
	return names, err
}

// tarballFiles returns the files of the plain tarball.
func (r *release) tarballFiles(program string) ([]file, error) {
	names, err := r.documents()
	if err != nil {
		return nil, err
	}
	out := []file{{name: "muster", mode: 0o755, source: program}}
	for _, name := range names {
		out = append(out, file{name: name, mode: 0o644, source: filepath.Join(r.root, name)})
	}
	for _, name := range []string{"muster.service", "muster.yaml", "muster.env"} {
		out = append(out, file{name: path.Join("systemd", name), mode: 0o644, source: r.packaged(name)})
	}
	return out, nil
}

// offlineFiles returns the files of the plain tarball, the engine's library and the packages.
func (r *release) offlineFiles(ctx context.Context, program string, files []file, lib library, written []string) (
	[]file, error,
) {
	source, err := fetchLibrary(ctx, program)
	if err != nil {
		return nil, err
	}
	out := append(slices.Clone(files),
		file{name: lib.bundledPath(), mode: 0o644, source: source},
		file{name: "libchdb/README", mode: 0o644, content: fmt.Sprintf(
			"libchdb.so is from the npm package %s@%s (https://github.com/chdb-io/chdb), Apache-2.0.\n"+
				"Integrity of the package: %s\n",
			lib.pkg, lib.version, lib.integrity)},
	)
	for _, name := range written {
		if ext := filepath.Ext(name); ext == ".deb" || ext == ".rpm" {
			out = append(out, file{name: path.Join("packages", name), mode: 0o644, source: filepath.Join(r.out, name)})
		}
	}
	return out, nil
}

// writeTarball writes name.tar.gz with the files below the directory top. It is reproducible: the same files give the
// same bytes.
func (r *release) writeTarball(name, top string, files []file) (err error) {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	out, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	packed, err := gzip.NewWriterLevel(out, 5)
	if err != nil {
		return err
	}
	tarball := tar.NewWriter(packed)
	for _, f := range files {
		if err := r.appendFile(tarball, top, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return errors.Join(tarball.Close(), packed.Close())
}

func (r *release) appendFile(tarball *tar.Writer, top string, f file) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: path.Join(top, f.name), Mode: f.mode, ModTime: r.mtime,
		Uname: "root", Gname: "root", Size: int64(len(f.content)), Format: tar.FormatPAX,
	}
	if f.source == "" {
		if err := tarball.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.WriteString(tarball, f.content)
		return err
	}
	in, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := tarball.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(tarball, in)
	return err
}

// writeChecksums writes SHA256SUMS, in the format of sha256sum.
func writeChecksums(dir string, names []string) error {
	slices.Sort(names)
	sums := ""
	for _, name := range names {
		sum, err := checksum(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		sums += sum + "  " + name + "\n"
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums), 0o644) //nolint:gosec // for everyone
}

func checksum(name string) (string, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
