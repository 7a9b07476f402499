package drop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Respond writes a response for each list with rows, under the name of the list, to a
// directory, and returns the paths. Existing files are replaced. The format is `Id,Status`
// for all kinds; withdrawn rows have no response.
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

// replace writes a file atomically.
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
