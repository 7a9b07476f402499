package drop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Respond writes a response for each list that has rows, under the list's name into
// a folder, and returns their paths. The platform takes `Id,Status` in the order of
// any kind, and no response for what was withdrawn. A file that is there is replaced.
func (o *Outcome) Respond(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("write responses: %w", err)
	}
	var out []string
	for _, l := range o.Lists {
		if l.kind == Removed || len(l.response) == 0 {
			continue
		}
		path := filepath.Join(dir, l.Name)
		if err := replace(path, l.write); err != nil {
			return out, fmt.Errorf("write responses: %w", err)
		}
		out = append(out, path)
	}
	return out, nil
}

func (l *ListOutcome) write(w io.Writer) error {
	if _, err := io.WriteString(w, "Id,Status\n"); err != nil {
		return err
	}
	for _, r := range l.response {
		if _, err := fmt.Fprintf(w, "%s,%d\n", r.id, r.status); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".response-*")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}
