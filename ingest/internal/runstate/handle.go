package runstate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"muster/ingest/internal/convert"
)

// maxJournal is the size in bytes from which on a journal is folded into the run's
// file.
const maxJournal = 4 << 20

// Handle is a run that this process works on. Its methods are not for use beside
// one another.
type Handle struct {
	run     Run
	dir     string
	lock    *os.File
	journal *os.File
	size    int
	now     func() time.Time
}

// step is a line of the journal: a file came so far.
type step struct {
	File     int           `json:"f"`
	Line     int64         `json:"l,omitzero"`
	Offset   int64         `json:"o,omitzero"`
	Blank    int64         `json:"b,omitzero"`
	Complete bool          `json:"c,omitzero"`
	Counts   convert.Tally `json:"k,omitempty"`
	At       int64         `json:"t"` // Unix time
}

// apply takes a step.
func (r *Run) apply(s step) {
	if s.File < 0 || s.File >= len(r.Files) {
		return // not ours
	}
	f := &r.Files[s.File]
	if s.Complete {
		f.Complete = true
	} else {
		f.Line, f.Offset = s.Line, s.Offset
		f.Blank += s.Blank
	}
	for kind, c := range s.Counts {
		r.Counts.Add(kind, c)
	}
	r.Ended = time.Unix(s.At, 0).UTC()
}

// replay takes the steps of a journal. One that is not whole is the last.
func (r *Run) replay(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for whole := true; whole; {
		var line []byte
		line, raw, whole = bytes.Cut(raw, []byte("\n"))
		var s step
		if whole = whole && json.Unmarshal(line, &s) == nil; whole {
			r.apply(s)
		}
	}
	return nil
}

// Begin makes a new run of this process.
func (s *Store) Begin(run Run, now func() time.Time) (*Handle, error) {
	dir := filepath.Join(s.dir, run.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("begin run %s: %w", run.ID, err)
	}
	run.Began = now().UTC()
	return open(dir, run, run.Generation, now)
}

// Resume takes a run up that nobody works on. When the brokers have another
// generation than the one that it published to, it begins again, with nothing
// stored. The error is ErrUnknown, ErrRunning, or another.
func (s *Store) Resume(id, generation string, now func() time.Time) (*Handle, error) {
	run, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	return open(filepath.Join(s.dir, run.ID), run, generation, now)
}

// startOver makes nothing of a run stored.
func (r *Run) startOver(generation string) {
	r.Generation, r.Counts = generation, nil
	for i := range r.Files {
		f := &r.Files[i]
		f.Line, f.Offset, f.Blank, f.Complete = 0, 0, 0, false
	}
}

func open(dir string, run Run, generation string, now func() time.Time) (*Handle, error) {
	lock, err := take(dir)
	if err != nil {
		return nil, err
	}
	h := &Handle{dir: dir, lock: lock, now: now, run: run}
	if again, err := load(dir); err == nil { // another process may just have ended
		h.run = again
	} else if !errors.Is(err, ErrUnknown) {
		return nil, errors.Join(err, lock.Close())
	}
	if h.run.Generation != generation {
		h.run.startOver(generation)
	}
	if h.run.Counts == nil {
		h.run.Counts = make(convert.Tally)
	}
	h.run.Attempts++
	h.run.State, h.run.Error = Running, ""
	h.run.Ended = now().UTC()
	if err := h.checkpoint(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// Run returns what is known of the run. What it refers to must not be changed, and
// not be read beside Advance and Complete.
func (h *Handle) Run() Run { return h.run }

// Advance notes that everything of a file up to a place is stored, and what became
// of the records since the place before.
func (h *Handle) Advance(file int, line, offset, blank int64, counts convert.Tally) error {
	return h.note(step{File: file, Line: line, Offset: offset, Blank: blank, Counts: counts})
}

// Complete notes that the place noted last is the end of a file.
func (h *Handle) Complete(file int) error { return h.note(step{File: file, Complete: true}) }

func (h *Handle) note(s step) error {
	s.At = h.now().Unix()
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("note how far run %s came: %w", h.run.ID, err)
	}
	line = append(line, '\n')
	if _, err := h.journal.Write(line); err != nil {
		return fmt.Errorf("note how far run %s came: %w", h.run.ID, err)
	}
	h.run.apply(s)
	if h.size += len(line); h.size > maxJournal {
		return h.checkpoint()
	}
	return nil
}

// checkpoint writes the run's file anew and begins an empty journal behind it. The
// file names its journal: whichever of the two files is there after a crash, the
// other belongs to it.
func (h *Handle) checkpoint() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("note how far run %s came: %w", h.run.ID, err)
		}
	}()
	before := h.run.Journal
	after := before + 1
	journal, err := os.OpenFile(h.journalPath(after), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	h.run.Journal = after
	if err := h.write(); err != nil {
		h.run.Journal = before
		return errors.Join(err, journal.Close())
	}
	if h.journal != nil {
		err = h.journal.Close()
	}
	h.journal, h.size = journal, 0
	if removed := os.Remove(h.journalPath(before)); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

func (h *Handle) journalPath(n int) string {
	return filepath.Join(h.dir, fmt.Sprint(journalName, n))
}

// write replaces the run's file.
func (h *Handle) write() error {
	raw, err := json.Marshal(h.run, json.Deterministic(true))
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(h.dir, fileName+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(h.dir, fileName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Finish notes how the run ended and lets it go.
func (h *Handle) Finish(state State, reason string) error {
	h.run.State, h.run.Error, h.run.Ended = state, reason, h.now().UTC()
	return errors.Join(h.checkpoint(), h.close())
}

func (h *Handle) close() error {
	var err error
	if h.journal != nil {
		err = h.journal.Close()
	}
	return errors.Join(err, h.lock.Close())
}
