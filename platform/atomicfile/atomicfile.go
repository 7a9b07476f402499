// Package atomicfile writes files that appear at their paths when they are complete.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteBytes is Write with raw as the content.
func WriteBytes(path string, raw []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

// Write creates or replaces the file at path with what write writes. The mode is 0600. The file and its name are on
// disk when Write returns. If write or the disk fails, Write returns the error and leaves an existing file unchanged.
func Write(path string, write func(io.Writer) error) error {
	dir, name := filepath.Split(path)
	file, err := os.CreateTemp(filepath.Clean(dir), "."+name+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(write(file), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	folder, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
