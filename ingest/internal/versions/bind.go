package versions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
)

// Topics are the cluster and the end offsets, by partition, of the topics that the
// entries speak of.
type Topics struct {
	Cluster string             `json:"cluster"`
	Ends    map[string][]int64 `json:"ends"`
}

// contains tells whether t can be a later state of the same topics as before, as
// far as it says anything of them.
func (t Topics) contains(before Topics) bool {
	if t.Cluster != before.Cluster {
		return false
	}
	for topic, ends := range before.Ends {
		now, ok := t.Ends[topic]
		if !ok {
			continue
		}
		if len(now) < len(ends) {
			return false
		}
		for p, end := range ends {
			if now[p] < end {
				return false
			}
		}
	}
	return true
}

const bindName = "topics.json"

// Bind says which topics the store is used with, before and after each use, as far
// as that use concerns them. It
// forgets all entries, and says so, when these cannot be the topics of the last
// use: another cluster, topics that were made anew, a broker that lost its data.
// What the brokers no longer have must be published again.
//
// topics is asked while the store is held, so that what another process publishes
// meanwhile is not taken for a loss.
func (s *Store) Bind(ctx context.Context, topics func(context.Context) (Topics, error)) (forgotten bool, err error) {
	for i := range s.stripes {
		if err := s.acquire(ctx, &s.stripes[i]); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, s.release(&s.stripes[i])) }()
	}
	now, err := topics(ctx)
	if err != nil {
		return false, fmt.Errorf("find out what the versions speak of: %w", err)
	}
	path := filepath.Join(s.dir, bindName)
	var before Topics
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, fmt.Errorf("read what the versions speak of: %w", err)
	default:
		if err := json.Unmarshal(raw, &before); err != nil {
			forgotten = true // cut short: nothing is known
		}
	}
	if forgotten || before.Ends != nil && !now.contains(before) {
		forgotten = true
		for i := range s.stripes {
			if err := s.stripes[i].empty(); err != nil {
				return false, fmt.Errorf("forget the versions: %w", err)
			}
		}
	}
	if !forgotten {
		for topic, ends := range before.Ends {
			if _, asked := now.Ends[topic]; !asked {
				now.Ends[topic] = ends
			}
		}
	}
	raw, err = json.Marshal(now, json.Deterministic(true))
	if err != nil {
		return forgotten, fmt.Errorf("write what the versions speak of: %w", err)
	}
	if err := writeFile(path, raw); err != nil {
		return forgotten, fmt.Errorf("write what the versions speak of: %w", err)
	}
	return forgotten, nil
}

// empty makes the table of a stripe that is held one without entries. Other
// processes may have the file mapped: they find the header changed.
func (st *stripe) empty() error {
	file := st.table.file
	if err := st.table.unmap(); err != nil {
		return err
	}
	st.table = nil
	t, err := createTable(file, firstPages)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return st.use(t)
}

// writeFile replaces a file as a whole.
func writeFile(path string, raw []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
