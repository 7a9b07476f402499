package checkpoint

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
	"muster/platform/atomicfile"
)

// maxJournal is the size in bytes at which a journal is compacted into the run's file.
const maxJournal = 4 << 20

// Writer records the progress of a run of this process. It is not safe for concurrent use.
type Writer struct {
	run     Run
	dir     string
	lock    *os.File
	journal *os.File
	size    int
	now     func() time.Time
}

// entry is a line of the journal: the progress of one file.
type entry struct {
	File     int                  `json:"f"`
	Line     int64                `json:"l,omitzero"`
	Offset   int64                `json:"o,omitzero"`
	Blank    int64                `json:"b,omitzero"`
	Complete bool                 `json:"c,omitzero"`
	Counts   convert.CountsByKind `json:"k,omitempty"`
	At       int64                `json:"t"` // Unix time
}

// apply adds a journal entry to the run.
func (r *Run) apply(e entry) {
	if e.File < 0 || e.File >= len(r.Files) {
		return // not a file of this run
	}
	f := &r.Files[e.File]
	if e.Complete {
		f.Complete = true
	} else {
		f.Line, f.Offset = e.Line, e.Offset
		f.Blank += e.Blank
	}
	for kind, c := range e.Counts {
		r.Counts.Add(kind, c)
	}
	r.Ended = time.Unix(e.At, 0).UTC()
}

// replayJournal applies the entries of a journal, up to the first truncated one.
func (r *Run) replayJournal(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for complete := true; complete; {
		var line []byte
		line, raw, complete = bytes.Cut(raw, []byte("\n"))
		var e entry
		if complete = complete && json.Unmarshal(line, &e) == nil; complete {
			r.apply(e)
		}
	}
	return nil
}

// Begin creates a run of this process.
func (s *Store) Begin(run Run, now func() time.Time) (*Writer, error) {
	dir := filepath.Join(s.dir, run.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create run %s: %w", run.ID, err)
	}
	run.Began = now().UTC()
	return open(dir, run, run.Generation, now)
}

// Resume resumes a run that is not running. If generation differs from the generation of the run,
// the run restarts from the beginning. It returns ErrUnknown if there is no such run and ErrRunning
// if another process runs it.
func (s *Store) Resume(id, generation string, now func() time.Time) (*Writer, error) {
	run, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	return open(filepath.Join(s.dir, run.ID), run, generation, now)
}

// reset discards all progress of the run.
func (r *Run) reset(generation string) {
	r.Generation, r.Counts = generation, nil
	for i := range r.Files {
		f := &r.Files[i]
		f.Line, f.Offset, f.Blank, f.Complete = 0, 0, 0, false
	}
}

func open(dir string, run Run, generation string, now func() time.Time) (*Writer, error) {
	lock, err := lockRun(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, lock: lock, now: now, run: run}
	// Reload: another process may just have ended the run.
	if reloaded, err := load(dir); err == nil {
		w.run = reloaded
	} else if !errors.Is(err, ErrUnknown) {
		return nil, errors.Join(err, lock.Close())
	}
	if w.run.Generation != generation {
		w.run.reset(generation)
	}
	if w.run.Counts == nil {
		w.run.Counts = make(convert.CountsByKind)
	}
	w.run.Attempts++
	w.run.State, w.run.Error = Running, ""
	w.run.Ended = now().UTC()
	if err := w.compact(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// Run returns the run. It shares memory with the Writer: it must not be changed, nor read
// concurrently with Advance and Complete.
func (w *Writer) Run() Run { return w.run }

// Advance records that everything up to a position of a file is stored, and the outcome counts
// since the previous position.
func (w *Writer) Advance(file int, line, offset, blank int64, counts convert.CountsByKind) error {
	return w.appendEntry(entry{File: file, Line: line, Offset: offset, Blank: blank, Counts: counts})
}

// Complete records that the last recorded position is the end of a file.
func (w *Writer) Complete(file int) error { return w.appendEntry(entry{File: file, Complete: true}) }

func (w *Writer) appendEntry(e entry) error {
	e.At = w.now().Unix()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("record progress of run %s: %w", w.run.ID, err)
	}
	line = append(line, '\n')
	if _, err := w.journal.Write(line); err != nil {
		return fmt.Errorf("record progress of run %s: %w", w.run.ID, err)
	}
	w.run.apply(e)
	if w.size += len(line); w.size > maxJournal {
		return w.compact()
	}
	return nil
}

// compact rewrites the run's file and starts an empty journal. The file names its journal, so after
// a crash the file that is present, old or new, has the matching journal.
func (w *Writer) compact() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("record progress of run %s: %w", w.run.ID, err)
		}
	}()
	previous := w.run.Journal
	next := previous + 1
	journal, err := os.OpenFile(w.journalPath(next), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.run.Journal = next
	if err := w.write(); err != nil {
		w.run.Journal = previous
		return errors.Join(err, journal.Close())
	}
	if w.journal != nil {
		err = w.journal.Close()
	}
	w.journal, w.size = journal, 0
	if removed := os.Remove(w.journalPath(previous)); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

func (w *Writer) journalPath(n int) string {
	return filepath.Join(w.dir, fmt.Sprint(journalName, n))
}

// write replaces the run's file.
func (w *Writer) write() error {
	raw, err := json.Marshal(w.run, json.Deterministic(true))
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(w.dir, fileName), raw)
}

// Finish records how the run ended and releases it.
func (w *Writer) Finish(state State, reason string) error {
	w.run.State, w.run.Error, w.run.Ended = state, reason, w.now().UTC()
	return errors.Join(w.compact(), w.close())
}

func (w *Writer) close() error {
	var err error
	if w.journal != nil {
		err = w.journal.Close()
	}
	return errors.Join(err, w.lock.Close())
}
