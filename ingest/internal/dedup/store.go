package dedup

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

// Stripes is the number of files and locks. Identities of different stripes never wait for one another.
const Stripes = 32

// StripeOf returns the stripe of the identity with the given Kafka key, from 0 to Stripes-1. It
// uses the hash that chooses a topic's partition, so that writers that take stripes modulo the
// number of partitions share none.
func StripeOf(key []byte) int {
	var all [Stripes]int
	for i := range all {
		all[i] = i
	}
	return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, all[:]...)
}

// Identity identifies a record to a [Tx].
type Identity struct {
	id     id
	stripe int
}

// NewIdentity returns the identity of a record of a kind with the given Kafka key.
func NewIdentity(kind record.Kind, key []byte, stripe int) Identity {
	var buf [192]byte
	text := append(buf[:0], kind...)
	text = append(text, '/')
	sum := sha256.Sum256(append(text, key...))
	return Identity{id: id(sum[:idSize]), stripe: stripe}
}

// Store is the table of all identities in a directory. Its methods are safe for concurrent use,
// also by other processes that opened the same directory, unless stated otherwise.
type Store struct {
	dir        string
	generation string
	boot       string // boot ID of the machine
	usedMu     sync.Mutex
	used       []string // topics recorded as used in usedFile
	usedFile   []byte   // as written by the last MarkUsed of this process
	stripes    [Stripes]stripe
	base       *Store // of an overlay: the store it falls back to
}

// stripe is one file and its locks.
type stripe struct {
	number  int
	slot    chan struct{} // within this process
	lock    *os.File      // against other processes
	queue   *os.File      // queue lock, held by the process that gets lock next
	table   *table
	info    os.FileInfo // of the table's file
	lookups int         // identities looked up since dropResidentPages
	base    *table      // of an overlay: the same stripe of its base
}

// Open opens the store in a directory, which is created if it does not exist.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, boot: bootID()}
	if s.boot == "" {
		// Assume that entries of other processes may predate a crash.
		s.boot = uuid.NewString()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open dedup store: %w", err)
	}
	binding, _, err := readBinding(dir)
	if err != nil {
		return nil, err
	}
	s.generation = binding.Generation
	for i := range s.stripes {
		st := &s.stripes[i]
		st.number, st.slot = i, make(chan struct{}, 1)
		var err, err2 error
		st.lock, err = os.OpenFile(s.path(i, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
		st.queue, err2 = os.OpenFile(s.path(i, ".turn"), os.O_RDWR|os.O_CREATE, 0o600)
		if err := errors.Join(err, err2); err != nil {
			return nil, errors.Join(fmt.Errorf("open dedup store: %w", err), s.Close())
		}
	}
	return s, nil
}

// Overlay returns a store in a new directory that falls back to s for lookups and never changes it.
// It is for dry runs. The caller closes it before s and deletes the directory.
func (s *Store) Overlay(dir string) (*Store, error) {
	overlay, err := Open(dir)
	if err == nil {
		overlay.base = s
	}
	return overlay, err
}

func (s *Store) path(stripe int, suffix string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%02d%s", stripe, suffix))
}

// Close closes the files. It must not run concurrently with other methods.
func (s *Store) Close() error {
	var errs []error
	for i := range s.stripes {
		st := &s.stripes[i]
		if st.lock != nil {
			errs = append(errs, st.lock.Close())
		}
		if st.queue != nil {
			errs = append(errs, st.queue.Close())
		}
		errs = append(errs, st.close())
		if st.base != nil {
			errs = append(errs, st.base.unmap(), st.base.file.Close())
		}
	}
	return errors.Join(errs...)
}

// acquire locks a stripe for one user of one process and opens its current table.
func (s *Store) acquire(ctx context.Context, st *stripe) error {
	select {
	case st.slot <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// A waiting process holds the queue lock, so that a busy process cannot starve others.
	err := flock(ctx, st.queue)
	if err == nil {
		err = flock(ctx, st.lock)
		err = errors.Join(err, unlock(st.queue))
	}
	if err == nil {
		if err = catchFaults("open", func() error { return s.refresh(st) }); err != nil {
			err = errors.Join(err, unlock(st.lock))
		}
	}
	if err != nil {
		<-st.slot
		return fmt.Errorf("lock dedup stripe %02d: %w", st.number, err)
	}
	return nil
}

func (s *Store) release(st *stripe) error {
	err := unlock(st.lock)
	<-st.slot
	if err != nil {
		return fmt.Errorf("unlock dedup stripe %02d: %w", st.number, err)
	}
	return nil
}

// flock waits for an exclusive lock. The system releases locks when the process ends.
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

// refresh opens a stripe's file, or reopens it if another process has replaced it, and reads its header.
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
	return st.setTable(t)
}

// setTable makes t the stripe's table.
func (st *stripe) setTable(t *table) error {
	info, err := t.file.Stat()
	if err != nil {
		return errors.Join(err, t.unmap(), t.file.Close())
	}
	st.table, st.info = t, info
	return nil
}

// maxResident is the approximate limit of table bytes in this process's resident memory.
const maxResident = 64 << 20

// dropResidentPages releases the stripe's pages from this process's resident memory. Written data
// stays in the file.
func (st *stripe) dropResidentPages() error {
	st.lookups = 0
	for _, t := range []*table{st.table, st.base} {
		if t == nil || len(t.data) <= maxResident/Stripes {
			continue
		}
		if err := unix.Madvise(t.data, unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("release memory of %s: %w", t.file.Name(), err)
		}
	}
	return nil
}

func (st *stripe) close() error {
	if st.table == nil {
		return nil
	}
	err := errors.Join(st.table.unmap(), st.table.file.Close())
	st.table = nil
	return err
}

// reserve grows a locked stripe, if necessary, to fit the given number of new entries.
func (s *Store) reserve(st *stripe, entries int) error {
	need := st.table.used + uint64(entries) //nolint:gosec // not negative
	if need <= growThreshold(st.table.pages) {
		return nil
	}
	pages := st.table.pages
	for need > growThreshold(pages) {
		pages += pages/2 + 1
	}
	return s.replace(st, pages)
}

// replace copies the entries of a locked stripe into a new file with the given number of pages,
// which replaces the old one.
func (s *Store) replace(st *stripe, pages uint64) error {
	path := s.path(st.number, ".new")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("grow dedup stripe %02d: %w", st.number, err)
	}
	grown, err := createTable(file, pages)
	if err == nil {
		if err = catchFaults("copy", func() error { return st.table.copyTo(grown) }); err == nil {
			err = os.Rename(path, s.path(st.number, ""))
		}
		if err != nil {
			err = errors.Join(err, grown.unmap())
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("grow dedup stripe %02d: %w", st.number, err), file.Close(), os.Remove(path))
	}
	return errors.Join(st.close(), st.setTable(grown))
}

// lookUpBase looks an identity up in the base of an overlay. It takes no lock: concurrent writes of
// other processes may or may not be visible.
func (s *Store) lookUpBase(identity Identity) (State, bool, error) {
	st := &s.stripes[identity.stripe]
	if st.base == nil {
		file, err := os.Open(s.base.path(identity.stripe, ""))
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
	slot, found := st.base.find(identity.id)
	if !found {
		return State{}, false, nil
	}
	return decodeEntry(slot), true, nil
}
