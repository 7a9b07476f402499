package runstate

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

// State says what a run is doing.
type State string

// The states of a run.
const (
	// Running: a process works on it.
	Running State = "running"
	// Stopped: it was interrupted, or has failed, and can be taken up.
	Stopped State = "stopped"
	// Done: every input was read to its end and all of it is stored.
	Done State = "done"
)

// Run is what is known of a run.
type Run struct {
	ID   string      `json:"id"`
	Kind record.Kind `json:"kind"`
	Map  string      `json:"map,omitempty"`
	// MapSum is the SHA-256 of the mapping's text.
	MapSum string `json:"map_sum,omitempty"`
	Format string `json:"format,omitempty"`
	// Again says that what is known is published, too.
	Again bool `json:"again,omitzero"`
	// Remap says that the records carry Revision, a mapping revision.
	Remap    bool   `json:"remap,omitzero"`
	Revision uint32 `json:"revision,omitzero"`
	State    State  `json:"state"`
	// Error is why it stopped, if it said so.
	Error string    `json:"error,omitempty"`
	Began time.Time `json:"began"`
	// Ended is when it was stopped or done; of a killed run the last time that it
	// noted something.
	Ended time.Time `json:"ended,omitzero"`
	// Attempts is how often it was begun or taken up.
	Attempts int           `json:"attempts"`
	Files    []File        `json:"files"`
	Counts   convert.Tally `json:"counts,omitempty"`
	// Generation is that of what the brokers have, of which the places in Files
	// speak. It is empty in runs of before it was noted.
	Generation string `json:"generation,omitempty"`

	// Journal is the number of the journal that goes on behind this.
	Journal int `json:"journal"`
}

// Rejected tells whether any record was.
func (r Run) Rejected() int64 {
	var n int64
	for _, c := range r.Counts {
		n += c.Rejected
	}
	return n
}

// File is one input of a run, how it is recognized, and how far it is stored.
type File struct {
	// Path is as it was given, Absolute where that was.
	Path     string `json:"path"`
	Absolute string `json:"absolute,omitempty"`
	// Size, Modified and Head, a hash of the first bytes, are those of the file
	// when the run began. An input without Absolute (standard input) has none and
	// is never recognized.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified,omitzero"`
	Head     string    `json:"head,omitempty"`

	// Line and Offset are the place up to which all is stored.
	Line   int64 `json:"line"`
	Offset int64 `json:"offset"`
	Blank  int64 `json:"blank,omitzero"`
	// Complete says that this is the end.
	Complete bool `json:"complete,omitzero"`
}

// headSize is how much of a file is looked at to recognize it.
const headSize = 64 << 10

// Identify returns a file as it is now.
func Identify(path string) (File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return File{}, fmt.Errorf("identify %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err // names operation, path and cause
	}
	if !info.Mode().IsRegular() {
		return File{Path: path}, nil // whoever feeds a pipe sees it opened, and closed
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

// Changed says how a file differs from what it was, or "" when it does not.
func (f File) Changed(now File) string {
	switch {
	case f.Absolute == "" || now.Absolute == "":
		return "cannot be recognized"
	case f.Absolute != now.Absolute:
		return "is another file"
	case f.Size != now.Size:
		return fmt.Sprintf("had %d bytes and has %d", f.Size, now.Size)
	case f.Head != now.Head:
		return "begins differently"
	case !f.Modified.Equal(now.Modified):
		return fmt.Sprintf("was modified at %s", now.Modified.Format(time.RFC3339))
	}
	return ""
}

// Store is the folder of all runs.
type Store struct{ dir string }

// Open opens a folder, which is made if it does not exist.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the runs: %w", err)
	}
	return &Store{dir: dir}, nil
}

const (
	fileName    = "run.json"
	lockName    = "lock"
	journalName = "journal."
)

// ErrUnknown says that there is no run of that id; ErrRunning that another process
// works on it.
var (
	ErrUnknown = errors.New("no such run")
	ErrRunning = errors.New("the run is being worked on by another process")
)

// List returns all runs, or a number of them that is above 0, the newest first. A run whose folder cannot be read is
// left out and its error returned with the others.
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
		case errors.Is(err, ErrUnknown): // is being made, or removed
		case err != nil:
			errs = append(errs, err)
		default:
			runs = append(runs, r)
		}
	}
	return runs, errors.Join(errs...)
}

// ids are the names of the runs' folders, the newest first: they begin with the time.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	var ids []string
	for _, e := range slices.Backward(entries) {
		if e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// isDone reports whether a run is done, as the beginning of its file says: the rest is long where the inputs are many.
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

// Get returns the run of an id, of which the beginning is enough if it is unique.
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
	return Run{}, fmt.Errorf("find run %q: %d runs begin like that", id, len(found))
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
	// Whoever looks shares the lock with others who do, so that two of them do not take each other for the run's process.
	lock, err := locked(dir, syscall.LOCK_SH)
	switch {
	case errors.Is(err, ErrRunning):
		return r, nil
	case err != nil:
		return r, err
	}
	r.State = Stopped // its process is gone
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
		r.Counts = make(convert.Tally)
	}
	if err := r.replay(filepath.Join(dir, fmt.Sprint(journalName, r.Journal))); err != nil {
		return r, fmt.Errorf("read run %s: %w", r.ID, err)
	}
	return r, nil
}

const (
	// glance is far longer than whoever only looks holds the lock.
	glance = 200 * time.Millisecond
	// again is after how long the lock is tried again.
	again = time.Millisecond
)

// take locks a run's folder for the process that works on it. It waits for those who only look.
func take(dir string) (lock *os.File, err error) {
	for until := time.Now().Add(glance); ; <-time.After(again) {
		if lock, err = locked(dir, syscall.LOCK_EX); !errors.Is(err, ErrRunning) || time.Now().After(until) {
			return lock, err
		}
	}
}

// locked locks a run's folder in a way of flock(2). The error is ErrRunning while another has it in a way that excludes this.
func locked(dir string, how int) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take run %s: %w", filepath.Base(dir), err)
	}
	if err := syscall.Flock(int(lock.Fd()), how|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrRunning
		}
		return nil, errors.Join(fmt.Errorf("take run %s: %w", filepath.Base(dir), err), lock.Close())
	}
	return lock, nil
}

// Remove forgets a run that nobody works on.
func (s *Store) Remove(id string) error {
	r, err := s.Get(id)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, r.ID)
	lock, err := take(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), lock.Close())
}

// Prune removes the oldest runs that nobody can go on with, because they are done or
// an input of theirs is never recognized, so that keep of them are left; and those that
// were stopped before a time.
func (s *Store) Prune(keep int, before time.Time) error {
	ids, err := s.ids()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		goesOn := false
		if !s.isDone(id) {
			r, err := s.read(id)
			if err != nil && !errors.Is(err, ErrUnknown) {
				errs = append(errs, err)
			}
			if err != nil || r.State == Running {
				continue
			}
			goesOn = r.State != Done && !slices.ContainsFunc(r.Files, func(f File) bool { return f.Absolute == "" })
			if goesOn && !r.Ended.Before(before) {
				continue
			}
		}
		if !goesOn {
			if keep--; keep >= 0 {
				continue
			}
		}
		err := s.Remove(id)
		if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrRunning) { // another process was faster
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
