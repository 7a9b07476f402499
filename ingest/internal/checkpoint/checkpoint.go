package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/ingest/internal/convert"
	"muster/schemas/record"
)

// State is the state of a run.
type State string

// States of a run.
const (
	// Running means that a process runs it.
	Running State = "running"
	// Stopped means that it was interrupted or has failed, and can be resumed.
	Stopped State = "stopped"
	// Done means that every input was read to its end and all of it is stored.
	Done State = "done"
)

// Run is a recorded run.
type Run struct {
	ID   string      `json:"id"`
	Kind record.Kind `json:"kind"`
	Map  string      `json:"map,omitempty"`
	// MapSum is the SHA-256 of the mapping's source.
	MapSum string `json:"map_sum,omitempty"`
	Format string `json:"format,omitempty"`
	// Republish reports whether unchanged records are republished.
	Republish bool `json:"again,omitzero"`
	// Remap reports whether the records carry Revision, a mapping revision.
	Remap    bool   `json:"remap,omitzero"`
	Revision uint32 `json:"revision,omitzero"`
	State    State  `json:"state"`
	// Error is why it stopped, if known.
	Error string    `json:"error,omitempty"`
	Began time.Time `json:"began"`
	// Ended is when it stopped or completed; for a killed run, the time of its last journal entry.
	Ended time.Time `json:"ended,omitzero"`
	// Attempts is how often it was started or resumed.
	Attempts int                  `json:"attempts"`
	Files    []File               `json:"files"`
	Counts   convert.CountsByKind `json:"counts,omitempty"`
	// Generation is the generation of the topics that the positions in Files refer to.
	Generation string `json:"generation,omitempty"`

	// Journal is the number of the journal that continues this file.
	Journal int `json:"journal"`
}

// Rejected returns the number of rejected records.
func (r Run) Rejected() int64 {
	var n int64
	for _, c := range r.Counts {
		n += c.Rejected
	}
	return n
}

// File is one input of a run: how it is recognized, and its stored position.
type File struct {
	// Path is the path as given, Absolute its absolute form.
	Path     string `json:"path"`
	Absolute string `json:"absolute,omitempty"`
	// Size, Modified and Head, a hash of the first bytes, are of the time when the run began. An
	// input without Absolute (standard input) has none and is never recognized.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified,omitzero"`
	Head     string    `json:"head,omitempty"`

	// Line and Offset are the position up to which everything is stored.
	Line   int64 `json:"line"`
	Offset int64 `json:"offset"`
	Blank  int64 `json:"blank,omitzero"`
	// Complete reports whether this position is the end.
	Complete bool `json:"complete,omitzero"`
}

// headSize is the number of bytes hashed to recognize a file.
const headSize = 64 << 10

// Identify returns the current identity of a file.
func Identify(path string) (File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return File{}, fmt.Errorf("identify %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err // has operation, path and cause
	}
	if !info.Mode().IsRegular() {
		// Opening and closing a pipe would be visible to its writer.
		return File{Path: path}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	head := sha256.New()
	if _, err := io.Copy(head, io.LimitReader(f, headSize)); err != nil {
		return File{}, fmt.Errorf("identify %s: %w", path, err)
	}
	return File{
		Path: path, Absolute: absolute, Size: info.Size(), Modified: info.ModTime().UTC(),
		Head: hex.EncodeToString(head.Sum(nil)[:16]),
	}, nil
}

// Changed returns how a file differs from its recorded state, or "" if it does not.
func (f File) Changed(now File) string {
	switch {
	case f.Absolute == "" || now.Absolute == "":
		return "cannot be identified"
	case f.Absolute != now.Absolute:
		return "is a different file"
	case f.Size != now.Size:
		return fmt.Sprintf("changed its size from %d to %d bytes", f.Size, now.Size)
	case f.Head != now.Head:
		return "has different content"
	case !f.Modified.Equal(now.Modified):
		return fmt.Sprintf("was modified at %s", now.Modified.Format(time.RFC3339))
	}
	return ""
}

// Store is the directory of all runs.
type Store struct{ dir string }

// Open opens a directory, which is created if it does not exist.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	return &Store{dir: dir}, nil
}

const (
	fileName    = "run.json"
	lockName    = "lock"
	journalName = "journal."
)

// ErrUnknown is returned for an ID without a run, ErrRunning if another process runs it.
var (
	ErrUnknown = errors.New("no such run")
	ErrRunning = errors.New("run is in use by another process")
)

// List returns the runs, newest first: all of them, or at most number if that is positive. A run
// that cannot be read is omitted, and its error is returned with the others.
func (s *Store) List(number int) ([]Run, error) {
	return s.list(number, func(string) bool { return true })
}

// Unfinished returns the runs that are not done, as List does.
func (s *Store) Unfinished() ([]Run, error) {
	return s.list(0, func(id string) bool { return !s.isDone(id) })
}

func (s *Store) list(number int, want func(id string) bool) ([]Run, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var runs []Run
	var errs []error
	for _, id := range ids {
		if number > 0 && len(runs) == number {
			break
		}
		if !want(id) {
			continue
		}
		r, err := s.read(id)
		switch {
		case errors.Is(err, ErrUnknown): // being created or removed
		case err != nil:
			errs = append(errs, err)
		default:
			runs = append(runs, r)
		}
	}
	return runs, errors.Join(errs...)
}

// ids returns the names of the runs' directories, newest first: IDs start with the time.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var ids []string
	for _, e := range slices.Backward(entries) {
		if e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// isDone reports whether a run is done. It reads only the start of its file, because the rest is
// long if there are many inputs.
func (s *Store) isDone(id string) bool {
	f, err := os.Open(filepath.Join(s.dir, id, fileName))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	d := jsontext.NewDecoder(f)
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return false
		}
		if name.String() == "state" {
			state, err := d.ReadToken()
			return err == nil && state.String() == string(Done)
		}
		if d.SkipValue() != nil {
			return false
		}
	}
}

// Get returns the run with the given ID. A unique prefix is enough.
func (s *Store) Get(id string) (Run, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Run{}, fmt.Errorf("find run %s: %w", id, err)
	}
	var found []string
	for _, e := range entries {
		if id != "" && strings.HasPrefix(e.Name(), id) {
			found = append(found, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return Run{}, fmt.Errorf("%w: %q", ErrUnknown, id)
	case 1:
		return s.read(found[0])
	}
	return Run{}, fmt.Errorf("run ID prefix %q is ambiguous: it matches %d runs", id, len(found))
}

// read reads a run and its journal.
func (s *Store) read(id string) (Run, error) {
	dir := filepath.Join(s.dir, id)
	r, err := load(dir)
	if err != nil {
		return r, err
	}
	if r.State != Running {
		return r, nil
	}
	// Readers share the lock, so that none of them takes another for the run's process.
	lock, err := tryLock(dir, syscall.LOCK_SH)
	switch {
	case errors.Is(err, ErrRunning):
		return r, nil
	case err != nil:
		return r, err
	}
	// Its process is gone.
	r.State = Stopped
	return r, lock.Close()
}

func load(dir string) (Run, error) {
	var r Run
	raw, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w: %q", ErrUnknown, filepath.Base(dir))
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read run %s: %w", filepath.Base(dir), err)
	}
	if r.Counts == nil {
		r.Counts = make(convert.CountsByKind)
	}
	if err := r.replayJournal(filepath.Join(dir, fmt.Sprint(journalName, r.Journal))); err != nil {
		return r, fmt.Errorf("read run %s: %w", r.ID, err)
	}
	return r, nil
}

const (
	// lockTimeout is much longer than readers hold the lock.
	lockTimeout = 200 * time.Millisecond
	// lockRetryInterval is the pause between attempts to lock.
	lockRetryInterval = time.Millisecond
)

// lockRun locks a run's directory for the process that runs it. It waits for readers.
func lockRun(dir string) (lock *os.File, err error) {
	for deadline := time.Now().Add(lockTimeout); ; <-time.After(lockRetryInterval) {
		if lock, err = tryLock(dir, syscall.LOCK_EX); !errors.Is(err, ErrRunning) || time.Now().After(deadline) {
			return lock, err
		}
	}
}

// tryLock locks a run's directory in a mode of flock(2). It returns ErrRunning if another process
// holds a conflicting lock.
func tryLock(dir string, mode int) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock run %s: %w", filepath.Base(dir), err)
	}
	if err := syscall.Flock(int(lock.Fd()), mode|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrRunning
		}
		return nil, errors.Join(fmt.Errorf("lock run %s: %w", filepath.Base(dir), err), lock.Close())
	}
	return lock, nil
}

// Remove removes a run that is not running.
func (s *Store) Remove(id string) error {
	r, err := s.Get(id)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, r.ID)
	lock, err := lockRun(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), lock.Close())
}

// Prune removes the oldest runs that cannot be resumed, because they are done or have an input that
// is never recognized, so that keep of them are left. It also removes stopped runs that ended
// before the given time.
func (s *Store) Prune(keep int, before time.Time) error {
	ids, err := s.ids()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		resumable := false
		if !s.isDone(id) {
			r, err := s.read(id)
			if err != nil && !errors.Is(err, ErrUnknown) {
				errs = append(errs, err)
			}
			if err != nil || r.State == Running {
				continue
			}
			resumable = r.State != Done && !slices.ContainsFunc(r.Files, func(f File) bool { return f.Absolute == "" })
			if resumable && !r.Ended.Before(before) {
				continue
			}
		}
		if !resumable {
			if keep--; keep >= 0 {
				continue
			}
		}
		err := s.Remove(id)
		// Otherwise another process was faster.
		if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrRunning) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
