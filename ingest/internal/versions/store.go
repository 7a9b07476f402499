package versions

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
	"golang.org/x/sys/unix"

	"muster/schemas/record"
)

// Stripes is the number of files, and of locks: identities of different stripes
// never wait for one another.
const Stripes = 32

// StripeOf returns the stripe of the identity that is the Kafka key, from 0 to
// Stripes-1. It is made from the hash that chooses a topic's partition, so that
// writers that take stripes modulo the number of partitions share none.
func StripeOf(key []byte) int {
	var all [Stripes]int
	for i := range all {
		all[i] = i
	}
	return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, all[:]...)
}

// Identity names an identity to a [Tx].
type Identity struct {
	id     id
	stripe int
}

// NewIdentity returns the identity of a kind that has the Kafka key.
func NewIdentity(kind record.Kind, key []byte, stripe int) Identity {
	var room [192]byte
	text := append(room[:0], kind...)
	text = append(text, '/')
	sum := sha256.Sum256(append(text, key...))
	return Identity{id: id(sum[:idSize]), stripe: stripe}
}

// Store is the table of all identities, in a folder. Its methods may be called
// beside one another, also by other processes that opened the same folder.
type Store struct {
	dir        string
	generation string
	boot       string // which start of the machine this is
	using      sync.Mutex
	used       []string // topics that are noted as used in noted
	noted      []byte   // by the last Used of this process
	stripes    [Stripes]stripe
	base       *Store // of a scratch store: what it does not know itself
}

// stripe is one file and the locks that guard it.
type stripe struct {
	number int
	taken  chan struct{} // within this process
	lock   *os.File      // against other processes
	turn   *os.File      // held by the process that is next
	table  *table
	info   os.FileInfo // of the table's file
	looked int         // identities since forget
	base   *table      // of a scratch store: the same stripe of its base
}

// Open opens the store in a folder, which is made if it does not exist.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, boot: bootOfSystem()}
	if s.boot == "" {
		s.boot = uuid.NewString() // what another process has stored may be lost, for all that is known
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the versions: %w", err)
	}
	known, _, err := readBound(dir)
	if err != nil {
		return nil, err
	}
	s.generation = known.Generation
	for i := range s.stripes {
		st := &s.stripes[i]
		st.number, st.taken = i, make(chan struct{}, 1)
		var err, err2 error
		st.lock, err = os.OpenFile(s.path(i, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
		st.turn, err2 = os.OpenFile(s.path(i, ".turn"), os.O_RDWR|os.O_CREATE, 0o600)
		if err := errors.Join(err, err2); err != nil {
			return nil, errors.Join(fmt.Errorf("open the versions: %w", err), s.Close())
		}
	}
	return s, nil
}

// Scratch returns a store in a new folder that begins with what s knows and
// changes nothing of it: what a run would do. The caller closes it before s and
// deletes the folder.
func (s *Store) Scratch(dir string) (*Store, error) {
	scratch, err := Open(dir)
	if err == nil {
		scratch.base = s
	}
	return scratch, err
}

func (s *Store) path(stripe int, suffix string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%02d%s", stripe, suffix))
}

// Close closes the files. Nothing may use the store beside it or afterwards.
func (s *Store) Close() error {
	var errs []error
	for i := range s.stripes {
		st := &s.stripes[i]
		if st.lock != nil {
			errs = append(errs, st.lock.Close())
		}
		if st.turn != nil {
			errs = append(errs, st.turn.Close())
		}
		errs = append(errs, st.close())
		if st.base != nil {
			errs = append(errs, st.base.unmap(), st.base.file.Close())
		}
	}
	return errors.Join(errs...)
}

// acquire takes a stripe for one user of one process and makes its table current.
func (s *Store) acquire(ctx context.Context, st *stripe) error {
	select {
	case st.taken <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// Whoever waits holds the turn, so that a process that goes on and on cannot
	// keep the others out.
	err := flock(ctx, st.turn)
	if err == nil {
		err = flock(ctx, st.lock)
		err = errors.Join(err, unlock(st.turn))
	}
	if err == nil {
		if err = guarded("open", func() error { return s.refresh(st) }); err != nil {
			err = errors.Join(err, unlock(st.lock))
		}
	}
	if err != nil {
		<-st.taken
		return fmt.Errorf("take stripe %02d of the versions: %w", st.number, err)
	}
	return nil
}

func (s *Store) release(st *stripe) error {
	err := unlock(st.lock)
	<-st.taken
	if err != nil {
		return fmt.Errorf("give back stripe %02d of the versions: %w", st.number, err)
	}
	return nil
}

// flock waits for an exclusive lock. Locks end with the process.
func flock(ctx context.Context, f *os.File) error {
	pause := time.Millisecond
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("lock %s, which another process holds: %w", f.Name(), context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// refresh opens a stripe's file, again if another process has put a larger one in
// its place, and reads its header.
func (s *Store) refresh(st *stripe) error {
	path := s.path(st.number, "")
	if st.table != nil {
		now, err := os.Stat(path)
		if err == nil && os.SameFile(st.info, now) && now.Size() == int64(len(st.table.data)) && st.table.readHeader() {
			return nil
		}
		if err := st.close(); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	t, ok, err := mapTable(file, true)
	if err == nil && !ok {
		t, err = createTable(file, firstPages)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if err := st.use(t); err != nil || t.slot == slotSize {
		return err
	}
	return s.replace(st, t.pages*slotSize/slotV1+1) // the file of an earlier release
}

// use makes a table the stripe's.
func (st *stripe) use(t *table) error {
	info, err := t.file.Stat()
	if err != nil {
		return errors.Join(err, t.unmap(), t.file.Close())
	}
	st.table, st.info = t, info
	return nil
}

// maxResident is about how much of the tables counts as this process's memory at a
// time, in bytes.
const maxResident = 64 << 20

// forget makes the pages of the stripe count as this process's memory no more. What
// was written to them stays.
func (st *stripe) forget() error {
	st.looked = 0
	for _, t := range []*table{st.table, st.base} {
		if t == nil || len(t.data) <= maxResident/Stripes {
			continue
		}
		if err := unix.Madvise(t.data, unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("let go of the memory of %s: %w", t.file.Name(), err)
		}
	}
	return nil
}

// close closes the stripe's table.
func (st *stripe) close() error {
	if st.table == nil {
		return nil
	}
	err := errors.Join(st.table.unmap(), st.table.file.Close())
	st.table = nil
	return err
}

// reserve makes room for new entries in a stripe that is held.
func (s *Store) reserve(st *stripe, entries int) error {
	need := st.table.used + uint64(entries) //nolint:gosec // not negative
	if need <= limit(st.table.pages) {
		return nil
	}
	pages := st.table.pages
	for need > limit(pages) {
		pages += pages/2 + 1
	}
	return s.replace(st, pages)
}

// replace copies the entries of a stripe that is held into a new file of so many pages,
// which takes the place of the old one.
func (s *Store) replace(st *stripe, pages uint64) error {
	path := s.path(st.number, ".new")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("grow stripe %02d of the versions: %w", st.number, err)
	}
	larger, err := createTable(file, pages)
	if err == nil {
		if err = guarded("copy", func() error { return st.table.copyTo(larger) }); err == nil {
			err = os.Rename(path, s.path(st.number, ""))
		}
		if err != nil {
			err = errors.Join(err, larger.unmap())
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("grow stripe %02d of the versions: %w", st.number, err), file.Close(), os.Remove(path))
	}
	return errors.Join(st.close(), st.use(larger))
}

// peek looks an identity up in the base of a scratch store, without holding it
// there: what another process writes meanwhile is seen or not.
func (s *Store) peek(who Identity) (State, bool, error) {
	st := &s.stripes[who.stripe]
	if st.base == nil {
		file, err := os.Open(s.base.path(who.stripe, ""))
		if errors.Is(err, os.ErrNotExist) {
			return State{}, false, nil
		}
		if err != nil {
			return State{}, false, err
		}
		t, ok, err := mapTable(file, false)
		if err != nil || !ok {
			return State{}, false, errors.Join(err, file.Close())
		}
		st.base = t
	}
	slot, found := st.base.find(who.id)
	if !found {
		return State{}, false, nil
	}
	return get(slot), true, nil
}
