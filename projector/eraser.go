package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// EraserConfig configures an Eraser. Only Kafka is required.
type EraserConfig struct {
	Kafka bus.Config
	// Within is how long what was erased may be stored after nobody is shown it any
	// more; default 24 h. Rewriting begins after a quarter of it, or at once when a
	// request asks for it.
	Within time.Duration
	// Gather is how long a sweep waits for more changes; default 300 ms. Sweeps that
	// take long follow each other at least five times as slowly.
	Gather time.Duration
	// Tombstones is how long the logs keep tombstones; default event.TombstoneAge.
	Tombstones time.Duration
	// Replaced is how long the engine keeps parts that a rewriting, or a merge meanwhile,
	// has replaced, in whole seconds; default a minute. What merges make of the text indexes
	// of search_people they do not synchronize: the system writes it in its own time, which
	// on Linux is half a minute. When the power goes before, what it replaced is needed.
	Replaced time.Duration
}

// EraserDeps are what an Eraser works with. Compact may be nil.
type EraserDeps struct {
	Conn       driver.Conn
	Suppressed *suppress.Set
	// Compact rolls and compacts the logs of the brokers; nil for those that do it by
	// themselves, by the topics' settings.
	Compact func(context.Context) error
	Logger  *slog.Logger
	Now     func() time.Time
}

// Eraser removes what is stored of people who were erased. It has no state of its
// own: a sweep compares everything that is stored with the suppression set and makes
// it conform, so that it does not matter where an earlier one was killed, and
// whoever is found again, by whatever way they came, goes again. A replay that puts
// tables in place of the live ones has it sweep again.
//
// A sweep finds the rows of suppressed people; takes in the accounts that name each
// other; suppresses their ids; leaves tombstones on the topics; and deletes the rows,
// which no query returns from then on. The rewriting takes them out of the tables'
// files and the logs of the embedded broker, and looks for them again.
type Eraser struct {
	cfg    EraserConfig
	deps   EraserDeps
	writer *bus.Writer

	layout  readmodel.Layout           // of the tables, as they were last seen
	pending map[string]*pendingErasure // requests that are not removed yet
	dirty   time.Time                  // since when something waits to be rewritten
	lifts   uint64                     // of the set, when it was last unravelled
	took    time.Duration              // of the sweep that was just made, 0 without one
	removed map[string]int64           // what the last sweep that found somebody has removed, by where
	clean   *cleaning                  // nil unless a rewriting waits for the files to go
	live    string                     // which tables were live when they were last swept
	owed    map[int64]bool             // accounts whose answers are to be built anew
	rebuilt map[int64]bool             // accounts whose answers were, and whose older rows may not be gone
	scanned bool                       // answers were compared with their rows since the start
}

// cleaning is a rewriting whose old files are not gone yet.
type cleaning struct {
	begin time.Time // what was swept before is rewritten
	again time.Time // when the logs are compacted again: tombstones have a short life
}

// pendingErasure is a request on its way.
type pendingErasure struct {
	at     time.Time
	masked bool
	urgent bool
	// waits are the hashes whose entries are not in force yet: the log has a request
	// before its entries are published. Nothing is done for it until they are.
	waits       []suppress.Hash
	requestedAt string
	swept       time.Time // when the first sweep began that looked for them all
}

func (p *pendingErasure) held() bool { return len(p.waits) > 0 }

// NewEraser returns an Eraser. It does not connect.
func NewEraser(cfg EraserConfig, deps EraserDeps) (*Eraser, error) {
	if deps.Conn == nil || deps.Suppressed == nil || deps.Logger == nil {
		return nil, errors.New("eraser: a connection, the suppression set and a logger are required")
	}
	if cfg.Within != 0 && cfg.Within < time.Minute {
		return nil, fmt.Errorf("eraser: what was erased may stay on disk for a minute at least, not %s", cfg.Within)
	}
	if cfg.Gather < 0 || cfg.Tombstones < 0 || cfg.Replaced < 0 {
		return nil, errors.New("eraser: negative time")
	}
	setDefault(&cfg.Within, 24*time.Hour)
	setDefault(&cfg.Gather, 300*time.Millisecond)
	setDefault(&cfg.Tombstones, event.TombstoneAge)
	setDefault(&cfg.Replaced, time.Minute)
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Eraser{cfg: cfg, deps: deps, pending: make(map[string]*pendingErasure), removed: make(map[string]int64),
		owed: make(map[int64]bool), rebuilt: make(map[int64]bool)}, nil
}

// Run sweeps whenever the suppression set or the live tables change, and at the start,
// until ctx ends; it returns nil then. What fails is tried again.
func (e *Eraser) Run(ctx context.Context) (err error) {
	if e.deps.Suppressed.WaitLoaded(ctx) != nil {
		return nil
	}
	e.writer = bus.NewWriter(e.cfg.Kafka, bus.WithWriterLogger(e.deps.Logger), inPartition)
	defer func() {
		if closeErr := e.writer.Close(); closeErr != nil {
			err = fmt.Errorf("eraser: close writer: %w", closeErr)
		}
	}()
	requests := make(chan event.Erasure)
	log := bus.Follow(ctx, e.cfg.Kafka, bus.FollowConfig{
		Topics: []string{event.TopicErasureRequest}, Logger: e.deps.Logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			var r event.Erasure
			if err := json.Unmarshal(m.Value, &r); err != nil || r.Validate() != nil {
				e.deps.Logger.WarnContext(ctx, "erasure event skipped", "offset", m.Offset)
				return nil //nolint:nilerr // it never can be read: the log goes on
			}
			select {
			case requests <- r:
			case <-ctx.Done():
			}
			return nil
		},
	})
	defer func() { err = errors.Join(err, log.Close()) }()
	return e.loop(ctx, requests, log.Ready())
}

// retryPause is how long the eraser waits after a failure.
const retryPause = 5 * time.Second

func (e *Eraser) loop(ctx context.Context, requests <-chan event.Erasure, told <-chan struct{}) error {
	next := time.NewTimer(0)
	defer next.Stop()
	swept, due := uint64(0), e.deps.Suppressed.Len() > 0
	look := time.NewTicker(lookForTables)
	defer look.Stop()
	pause := e.cfg.Gather
	whole, begun := false, false // the log was read; a sweep was made of the tables that are live
	for {
		changes, woken := e.deps.Suppressed.Changes()
		if changes != swept && !due {
			due = true
			next.Reset(pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-woken:
		case r := <-requests:
			if e.note(r) && whole && !due {
				due = true
				next.Reset(pause)
			}
		case <-told:
			told, whole = nil, true
			if len(e.pending) > 0 {
				// The sweep of the start was not for them, and pause may be long after it.
				due = true
				next.Reset(e.cfg.Gather)
			}
		case <-look.C:
			if begun && !due && e.replaced(ctx) {
				due, begun = true, false
				next.Reset(pause)
			}
		case <-next.C:
			due = false
			e.took = 0
			err := e.work(ctx, whole, changes != swept || !begun)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				e.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "erasing is tried again", slog.Any("error", err))
				due = true
				next.Reset(retryPause)
				continue
			}
			swept, begun = changes, true
			pause = max(e.cfg.Gather, 5*e.took)
			switch {
			case e.clean != nil:
				next.Reset(cleaningPoll)
			case !e.dirty.IsZero():
				next.Reset(e.untilRewriting())
			}
		}
	}
}

// cleaningPoll is how often it is looked whether the files of a rewriting are gone.
const cleaningPoll = 2 * time.Second

// note takes an event of the log, and reports whether there is something to do.
func (e *Eraser) note(r event.Erasure) bool {
	p := e.pending[r.RequestID]
	switch r.Action {
	case event.ErasureRequested:
		if p == nil {
			p = &pendingErasure{at: r.At, urgent: r.Urgent, requestedAt: r.RequestedAt}
			if now := e.deps.Now(); now.Before(p.at) {
				p.at = now // the clock of who wrote it is ahead: whatever begins from now on looks for it
			}
			for _, i := range r.Identifiers {
				if h, err := suppress.ParseHash(i.Hash); err == nil && i.Status != event.ErasureExempted {
					p.waits = append(p.waits, h)
				}
			}
			e.pending[r.RequestID] = p
			e.release(p)
			return !p.held() // the set wakes the eraser when their entries come
		}
	case event.ErasureMasked:
		if p != nil {
			p.masked = true
			if p.swept.IsZero() && !p.held() { // before a start, or by another replica
				p.swept = r.At
				if now := e.deps.Now(); now.Before(p.swept) {
					p.swept = now // the clock of who swept was ahead
				}
			}
		}
	case event.ErasureRemoved, event.ErasureWithdrawn:
		delete(e.pending, r.RequestID)
	}
	return false
}

// release looks which entries a request still waits for.
func (e *Eraser) release(p *pendingErasure) {
	p.waits = slices.DeleteFunc(p.waits, func(h suppress.Hash) bool { return e.deps.Suppressed.Knows(h, p.requestedAt) })
}

// work sweeps when something has changed or somebody waits, and rewrites when it is
// time; the log is told once it was read.
func (e *Eraser) work(ctx context.Context, whole, changed bool) (err error) {
	// Each time: they may be made, or made anew, while this runs.
	if e.layout, err = readmodel.FindLayout(ctx, e.deps.Conn); err != nil {
		return err
	}
	// Only entries that are in force now are sure to be looked for.
	var pending []*pendingErasure
	for _, p := range e.pending {
		if e.release(p); !p.held() {
			pending = append(pending, p)
		}
	}
	begin := e.deps.Now()
	urgent := false
	for _, p := range pending {
		changed = changed || !p.masked || p.swept.IsZero()
		urgent = urgent || p.urgent && !p.at.After(begin)
	}
	if changed && len(pending) > 0 && !e.scanned {
		if err := e.oweDiffering(ctx); err != nil {
			return concealed(err)
		}
		e.scanned = true
	}
	if changed {
		found, err := e.sweepSteadily(ctx)
		e.took = e.deps.Now().Sub(begin) // a rewriting holds up no sweep
		if err != nil {
			return err
		}
		if e.dirty.IsZero() && (!found.empty() || len(pending) > 0) {
			e.dirty = begin
		}
		for _, p := range pending {
			if p.swept.IsZero() {
				p.swept = begin
			}
		}
		if !whole {
			return nil
		}
		counts := found.counts()
		if !found.empty() {
			maps.Copy(counts, e.removed)
		}
		if err := e.tell(ctx, event.ErasureMasked, begin, counts); err != nil {
			return err
		}
	}
	if e.clean != nil {
		return e.finish(ctx)
	}
	if whole && e.dirty.IsZero() {
		// Requests of before a start, which the log says are masked: their rows are deleted
		// already, so that no sweep finds them, and are still to be rewritten.
		for _, p := range pending {
			if e.dirty.IsZero() || p.at.Before(e.dirty) {
				e.dirty = p.at
			}
		}
	}
	if e.dirty.IsZero() || !whole || !urgent && e.deps.Now().Sub(e.dirty) < e.rest() {
		return nil
	}
	begin = e.deps.Now()
	if err := e.rewrite(ctx); err != nil {
		return err
	}
	e.dirty, e.clean = time.Time{}, &cleaning{begin: begin, again: e.deps.Now().Add(e.cfg.Tombstones + time.Second)}
	return nil
}

// rest is how long what was deleted waits for its rewriting: a quarter of the time that
// it may stay, or less, so that a request which comes while a rewriting is under way has
// time for its own. Each takes as long as tombstones live, and some seconds.
func (e *Eraser) rest() time.Duration {
	const work = 10 * time.Second
	return max(0, min(e.cfg.Within/4, e.cfg.Within-2*(e.cfg.Tombstones+work)))
}

// untilRewriting is how long what was deleted still waits for its rewriting: no longer
// than until an urgent request, which may have come while another was rewritten, has its
// turn.
func (e *Eraser) untilRewriting() time.Duration {
	now := e.deps.Now()
	wait := e.dirty.Add(e.rest()).Sub(now)
	for _, p := range e.pending {
		if p.urgent && !p.held() {
			wait = min(wait, max(e.cfg.Gather, p.at.Sub(now)))
		}
	}
	return max(0, wait)
}

// finish ends a rewriting once nothing of it is left in files, and tells so.
func (e *Eraser) finish(ctx context.Context) error {
	if e.deps.Now().Before(e.clean.again) {
		return nil
	}
	gone, err := e.settle(ctx)
	if err != nil || !gone {
		return err
	}
	begin := e.clean.begin
	e.clean = nil
	return e.tell(ctx, event.ErasureRemoved, begin, nil)
}

// tell writes to the log what was done for the requests that came before a sweep, or
// a rewriting, began, and whose entries were in force by then.
func (e *Eraser) tell(ctx context.Context, action event.ErasureAction, begin time.Time, counts map[string]int64) error {
	var messages []kafka.Message
	var done []string
	now := e.deps.Now().UTC()
	for id, p := range e.pending {
		if p.at.After(begin) || p.held() || p.swept.IsZero() || p.swept.After(begin) || action == event.ErasureMasked && p.masked {
			continue
		}
		value, err := json.Marshal(event.Erasure{RequestID: id, Action: action, At: now, Removed: counts})
		if err != nil {
			return fmt.Errorf("write erasure: %w", err)
		}
		messages = append(messages, kafka.Message{
			Topic: event.TopicErasureRequest, Key: []byte(id), Value: value, Headers: bus.SetEvent(nil, bus.Event{
				ID: id + "/" + string(action), Type: event.TypeErasureRequest, Source: "/muster/projector", Time: now, ContentType: "application/json",
			}),
		})
		done = append(done, id)
	}
	if err := bus.WriteAll(ctx, e.writer, messages); err != nil {
		return fmt.Errorf("tell what was erased: %w", err)
	}
	for _, id := range done {
		if action == event.ErasureRemoved {
			delete(e.pending, id)
		} else {
			e.pending[id].masked = true
		}
	}
	return nil
}
