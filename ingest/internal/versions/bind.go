package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
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

// bound is what the file says.
type bound struct {
	Topics

	// Generation is missing in the files of before it was, until entries are
	// forgotten: so what was noted beside them stays valid.
	Generation string `json:"generation,omitempty"`

	// Used are topics that something was stored on, whatever Ends say: these are of
	// before a use, which may have been killed.
	Used []string `json:"used,omitempty"`

	// Boot is which start of the machine it was when something was stored behind Ends;
	// empty when nothing was.
	Boot string `json:"boot,omitempty"`
}

// lost tells whether the topics of now cannot be those of before, on a machine of
// which boot is the last start.
func (b bound) lost(now Topics, boot string) bool {
	if b.Boot != "" && b.Boot != boot {
		// The machine may have stopped without writing what it held in memory. Of that the
		// brokers may have lost what the entries, which are written by themselves, say.
		return true
	}
	for _, topic := range b.Used {
		if ends, asked := now.Ends[topic]; asked && slices.Max(append(ends, 0)) == 0 {
			return true
		}
	}
	return b.Ends != nil && !now.contains(b.Topics)
}

// readBound reads what is known of the topics. ok is false when the file was cut
// short: the entries may speak of anything. Without a file there are no entries;
// that is a generation of its own, since whatever was noted beside earlier ones
// cannot be checked any more.
func readBound(dir string) (b bound, ok bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, bindName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bound{Generation: uuid.NewString()}, true, nil
	case err != nil:
		return b, false, fmt.Errorf("read what the versions speak of: %w", err)
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return bound{Generation: uuid.NewString()}, false, nil //nolint:nilerr // ok says it
	}
	return b, true, nil
}

// Generation names what the brokers have had since they last lost something, as
// far as the store knows: another one means that what was published before must be
// published again. It is that of the last [Store.Bind] of this Store, without one
// that of the folder when it was opened. Who notes elsewhere that something is
// published notes it with the generation, and does not believe a note of another.
func (s *Store) Generation() string { return s.generation }

// Bind says which topics the store is used with, before and after each use, as far
// as that use concerns them. It forgets all entries, says so, and begins a new
// generation when these cannot be the topics of the last use: another cluster,
// topics that were made anew, a broker that lost its data; or when the machine was
// started since something was stored and no Bind followed. What the brokers no longer
// have must be published again.
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
	asked, err := topics(ctx)
	if err != nil {
		return false, fmt.Errorf("find out what the versions speak of: %w", err)
	}
	before, ok, err := readBound(s.dir)
	if err != nil {
		return false, err
	}
	now := bound{Topics: asked, Generation: before.Generation}
	path := filepath.Join(s.dir, bindName)
	if forgotten = !ok || before.lost(asked, s.boot); forgotten {
		now.Generation = uuid.NewString()
		// Who is killed from here on leaves a file that counts as cut short: the
		// topics may have grown past what was known of them when it is read next.
		if err := writeFile(path, nil); err != nil {
			return false, fmt.Errorf("forget what the versions speak of: %w", err)
		}
		for i := range s.stripes {
			if err := s.stripes[i].empty(); err != nil {
				return false, fmt.Errorf("forget the versions: %w", err)
			}
		}
	} else {
		now.Used = before.Used
		for topic, ends := range before.Ends {
			if _, again := now.Ends[topic]; !again {
				now.Ends[topic] = ends
			}
		}
	}
	if err := now.write(s.dir); err != nil {
		return forgotten, err
	}
	s.generation = now.Generation
	return forgotten, nil
}

func (b bound) write(dir string) error {
	raw, err := json.Marshal(b, json.Deterministic(true))
	if err == nil {
		err = writeFile(filepath.Join(dir, bindName), raw)
	}
	if err != nil {
		return fmt.Errorf("write what the versions speak of: %w", err)
	}
	return nil
}

// Used notes that something is stored on topics: if they are empty the next time,
// they were made anew, and if the machine was started since, they may lack it. It is for
// whoever is about to commit entries, or to note elsewhere what is stored, so that this
// is never believed of what is gone, however the process, or the machine, ends.
func (tx *Tx) Used(ctx context.Context, topics ...string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("note what the versions speak of: %w", err)
		}
	}()
	s := tx.store
	// Bind is not at work meanwhile: it holds all stripes, and this holds some.
	s.using.Lock()
	defer s.using.Unlock()
	path := filepath.Join(s.dir, bindName)
	raw, err := os.ReadFile(path)
	if err == nil && bytes.Equal(raw, s.noted) && !slices.ContainsFunc(topics, func(t string) bool { return !slices.Contains(s.used, t) }) {
		return nil // nobody has bound since
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := flock(ctx, lock); err != nil {
		return err
	}
	now, ok, err := readBound(s.dir)
	if err != nil {
		return err
	}
	if !ok || now.Ends == nil {
		return nil // who binds next forgets, or has nothing to compare with
	}
	now.Used, now.Boot = append(now.Used, topics...), s.boot
	slices.Sort(now.Used)
	now.Used = slices.Compact(now.Used)
	if err := now.write(s.dir); err != nil {
		return err
	}
	s.used = now.Used
	s.noted, err = os.ReadFile(path)
	return err
}

// revisionName is the file with the last mapping revision that NextRevision returned.
const revisionName = "revision"

// NextRevision returns a mapping revision that is greater than every one that it returned before
// for the folder: the Unix time in seconds, or one more than the last one if the clock is not
// ahead of that. So it is also greater than those of other folders, as far as the clocks agree.
func (s *Store) NextRevision(ctx context.Context, now time.Time) (revision uint32, err error) {
	path := filepath.Join(s.dir, revisionName)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("reserve a mapping revision: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := flock(ctx, lock); err != nil {
		return 0, fmt.Errorf("reserve a mapping revision: %w", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("reserve a mapping revision: %w", err)
	}
	last, err := strconv.ParseUint(string(raw), 10, 32)
	if err != nil {
		last = 0 // there is none yet, or the file was damaged: the clock is ahead of it
	}
	next := max(RevisionAt(now), uint32(last)+1)
	if err := writeFile(path, strconv.AppendUint(nil, uint64(next), 10)); err != nil {
		return 0, fmt.Errorf("reserve a mapping revision: %w", err)
	}
	return next, nil
}

// RevisionAt returns the mapping revision of an instant: its Unix time in seconds, which has
// 32 bits until 2106, and at least 1.
func RevisionAt(now time.Time) uint32 {
	return uint32(min(max(now.Unix(), 1), math.MaxUint32))
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
	if err := file.Sync(); err != nil { // the entries do not come back when the machine stops
		return errors.Join(err, t.unmap(), file.Close())
	}
	return st.use(t)
}

// writeFile replaces a file as a whole, on the disk when it returns.
func writeFile(path string, raw []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
