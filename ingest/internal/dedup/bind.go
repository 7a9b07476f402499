package dedup

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

	"muster/platform/atomicfile"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// Topics are the cluster ID and the end offsets, by partition, of the topics whose contents the
// entries describe.
type Topics struct {
	Cluster string             `json:"cluster"`
	Ends    map[string][]int64 `json:"ends"`
}

// continues reports whether t can be a later state of the same topics as before. Topics that t
// lacks do not count.
func (t Topics) continues(before Topics) bool {
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

const bindingName = "topics.json"

// clusterBinding is the content of the binding file.
type clusterBinding struct {
	Topics

	Generation string `json:"generation"`

	// Used are topics that something was stored on, whatever Ends has: Ends are of the time before
	// a use, which may have been killed.
	Used []string `json:"used,omitempty"`

	// Boot is the boot ID of the machine when something was stored after Ends; empty if nothing was.
	Boot string `json:"boot,omitempty"`
}

// topicsReset reports whether now cannot be a later state of the bound topics, on a machine with
// the given boot ID.
func (b clusterBinding) topicsReset(now Topics, boot string) bool {
	if b.Boot != "" && b.Boot != boot {
		// The machine may have crashed. The brokers may then have lost messages that entries, which
		// are written independently, describe.
		return true
	}
	for _, topic := range b.Used {
		if ends, current := now.Ends[topic]; current && slices.Max(append(ends, 0)) == 0 {
			return true
		}
	}
	return b.Ends != nil && !now.continues(b.Topics)
}

// readBinding reads the binding file. ok is false if the file is truncated: the entries may then
// describe any topics. Without a file there are no entries; that is a new generation, because
// checkpoints recorded with earlier entries can no longer be verified.
func readBinding(dir string) (b clusterBinding, ok bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, bindingName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return clusterBinding{Generation: uuid.NewString()}, true, nil
	case err != nil:
		return b, false, fmt.Errorf("read dedup binding: %w", err)
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return clusterBinding{Generation: uuid.NewString()}, false, nil //nolint:nilerr // reported by ok
	}
	return b, true, nil
}

// Generation identifies the contents of the topics since the last known loss. A different
// generation means that everything published before must be published again. It is the generation
// of the last [Store.BindCluster] of this Store, or else that of the directory when it was opened.
// A checkpoint elsewhere must store the generation and is valid only with it.
func (s *Store) Generation() string { return s.generation }

// BindCluster compares the topics with those of the last use, and records them. Call it before and
// after each use, with the topics of that use. If these cannot be the topics of the last use, it
// removes all entries, starts a new generation and reports reset: it is another cluster, the topics
// were recreated, or a broker lost its data. It does the same if the machine was rebooted after
// something was stored without a later BindCluster. What the brokers no longer have must be
// published again.
//
// The store is locked while topics is called, so that messages that another process publishes
// concurrently do not count as a loss.
func (s *Store) BindCluster(ctx context.Context, topics func(context.Context) (Topics, error)) (reset bool, err error) {
	for i := range s.stripes {
		if err := s.acquire(ctx, &s.stripes[i]); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, s.release(&s.stripes[i])) }()
	}
	current, err := topics(ctx)
	if err != nil {
		return false, fmt.Errorf("read topics of the dedup store: %w", err)
	}
	before, ok, err := readBinding(s.dir)
	if err != nil {
		return false, err
	}
	now := clusterBinding{Topics: current, Generation: before.Generation}
	path := filepath.Join(s.dir, bindingName)
	if reset = !ok || before.topicsReset(current, s.boot); reset {
		now.Generation = uuid.NewString()
		// If the process is killed from here on, the file counts as truncated: the topics may
		// outgrow these offsets before it is read again.
		if err := atomicfile.WriteBytes(path, nil); err != nil {
			return false, fmt.Errorf("reset dedup binding: %w", err)
		}
		for i := range s.stripes {
			if err := s.stripes[i].reset(); err != nil {
				return false, fmt.Errorf("reset dedup entries: %w", err)
			}
		}
	} else {
		now.Used = before.Used
		for topic, ends := range before.Ends {
			if _, ok := now.Ends[topic]; !ok {
				now.Ends[topic] = ends
			}
		}
	}
	if err := now.write(s.dir); err != nil {
		return reset, err
	}
	s.generation = now.Generation
	return reset, nil
}

func (b clusterBinding) write(dir string) error {
	raw, err := json.Marshal(b, json.Deterministic(true))
	if err == nil {
		err = atomicfile.WriteBytes(filepath.Join(dir, bindingName), raw)
	}
	if err != nil {
		return fmt.Errorf("write dedup binding: %w", err)
	}
	return nil
}

// MarkUsed records that something is stored on topics. If they are empty the next time, they were
// recreated; if the machine was rebooted since, they may have lost it. Call it before committing
// entries or recording elsewhere what is stored, so that lost messages never count as stored,
// however the process or the machine ends.
func (tx *Tx) MarkUsed(ctx context.Context, topics ...string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("update dedup binding: %w", err)
		}
	}()
	s := tx.store
	// BindCluster does not run concurrently: it holds all stripes, and this transaction holds some.
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	path := filepath.Join(s.dir, bindingName)
	raw, err := os.ReadFile(path)
	if err == nil && bytes.Equal(raw, s.usedFile) &&
		!slices.ContainsFunc(topics, func(t string) bool { return !slices.Contains(s.used, t) }) {
		// No BindCluster ran since.
		return nil
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := flock(ctx, lock); err != nil {
		return err
	}
	now, ok, err := readBinding(s.dir)
	if err != nil {
		return err
	}
	if !ok || now.Ends == nil {
		// The next BindCluster resets the entries or has no offsets to compare.
		return nil
	}
	now.Used, now.Boot = append(now.Used, topics...), s.boot
	slices.Sort(now.Used)
	now.Used = slices.Compact(now.Used)
	if err := now.write(s.dir); err != nil {
		return err
	}
	s.used = now.Used
	s.usedFile, err = os.ReadFile(path)
	return err
}

// revisionName is the file with the last mapping revision that NextRevision returned.
const revisionName = "revision"

// NextRevision returns a mapping revision greater than every one it returned before for the
// directory: the Unix time in seconds, or one more than the last one if the clock is not ahead of
// that. So it is also greater than the revisions of other directories, as far as the clocks agree.
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
		// There is none yet, or the file is corrupt: the clock is ahead of it.
		last = 0
	}
	next := max(RevisionAt(now), uint32(last)+1)
	if err := atomicfile.WriteBytes(path, strconv.AppendUint(nil, uint64(next), 10)); err != nil {
		return 0, fmt.Errorf("reserve a mapping revision: %w", err)
	}
	return next, nil
}

// RevisionAt returns the mapping revision of an instant: its Unix time in seconds, which fits 32
// bits until 2106, and at least 1.
func RevisionAt(now time.Time) uint32 {
	return uint32(min(max(now.Unix(), 1), math.MaxUint32))
}

// reset replaces the table of a locked stripe by an empty one. Other processes that have the file
// mapped find the header changed.
func (st *stripe) reset() error {
	file := st.table.file
	if err := st.table.unmap(); err != nil {
		return err
	}
	st.table = nil
	t, err := createTable(file, firstPages)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	// Entries must not come back after a crash of the machine.
	if err := file.Sync(); err != nil {
		return errors.Join(err, t.unmap(), file.Close())
	}
	return st.setTable(t)
}
