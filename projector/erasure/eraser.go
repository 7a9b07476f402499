package erasure

import (
	"cmp"
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
	"muster/projector/answers"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// Config configures an Eraser. Only Kafka is required.
type Config struct {
	Kafka bus.Config
	// Within is the maximum time that erased data may remain on disk after it is suppressed; default 24 h.
	// The rewrite starts after a quarter of it, or immediately for an urgent request.
	Within time.Duration
	// Gather is how long a sweep waits for more changes; default 300 ms. The pause after a sweep is at least
	// as long as it took, so that sweeps take at most half of the time.
	Gather time.Duration
	// Tombstones is how long topics retain tombstones; default event.TombstoneAge.
	Tombstones time.Duration
	// Replaced is how long the engine keeps parts that a mutation or merge replaced, in whole seconds;
	// default one minute. Merged text indexes of search_people are not synced to disk; Linux writes them back
	// within about 30 s. After a power failure before that, the replaced parts are needed.
	Replaced time.Duration
}

// Deps are the dependencies of an Eraser.
type Deps struct {
	Conn       driver.Conn
	Suppressed *suppress.Set
	// Compact rolls and compacts the embedded brokers' logs. Nil for brokers that compact by themselves, by
	// the topics' settings.
	Compact func(context.Context) error
	// Search removes deleted documents from a search index; nil: there is none.
	Search SearchIndex
	Logger *slog.Logger
	Now    func() time.Time
}

// SearchIndex is an index whose documents are deleted by touches of people. The deleted documents stay in its files until
// a purge is complete.
type SearchIndex interface {
	// Begin starts a purge of what is deleted by the touches published so far.
	Begin()
	// Purge goes on with a purge, and reports whether it is complete.
	Purge(context.Context) (complete bool, err error)
}

// Eraser deletes the stored data of erased people. It is stateless: a sweep compares all stored data with the
// suppression set and deletes what matches. An interrupted sweep needs no recovery, and data that comes in
// again is deleted again. Swapping tables in a replay triggers another sweep.
//
// A sweep finds the rows of suppressed people, adds accounts with mutual links, suppresses their ids, writes
// tombstones to the topics, and deletes the rows; queries no longer return them. The rewrite that follows
// removes the rows from table files and from the embedded broker's logs, and verifies that.
type Eraser struct {
	cfg    Config
	deps   Deps
	writer *bus.Writer

	layout           readmodel.Layout           // of the tables, as last read
	pending          map[string]*pendingErasure // requests that are not completed, by id
	dirtySince       time.Time                  // since when deleted rows wait for the rewrite; zero if none do
	removalCount     uint64                     // the set's removal count when derived entries were last unsuppressed
	nextSweep        time.Time                  // earliest time of the next sweep
	removed          map[string]int64           // deletions of the last sweep with matches, by table
	unreported       map[string]int64           // matches and deletions since states were last published
	rewriting        *pendingRewrite            // nil unless replaced parts are waited for
	liveSignature    string                     // signature of the tables that were last swept
	answersToRebuild map[int64]bool             // accounts whose answers must be rebuilt
	rebuiltAnswers   map[int64]bool             // accounts with rebuilt answers whose older rows may remain
	answersScanned   bool                       // answers were compared with their rows since the start
}

// pendingRewrite is a rewrite whose replaced parts are not removed yet.
type pendingRewrite struct {
	begin          time.Time // sweeps before this time are covered
	compactAgainAt time.Time // when to compact the logs again: tombstones have expired by then
}

// pendingErasure is a request in progress.
type pendingErasure struct {
	at         time.Time
	suppressed bool
	urgent     bool
	// waitingFor has the hashes whose entries are not in force yet: a request is logged before its entries are
	// published. The request is not handled until they are.
	waitingFor  []suppress.Hash
	requestedAt string
	swept       time.Time // start of the first sweep that covered all identifiers
}

func (p *pendingErasure) isWaiting() bool { return len(p.waitingFor) > 0 }

// New returns an Eraser. It does not connect.
func New(cfg Config, deps Deps) (*Eraser, error) {
	if deps.Conn == nil || deps.Suppressed == nil || deps.Logger == nil {
		return nil, errors.New("eraser: missing connection, suppression set or logger")
	}
	if cfg.Within != 0 && cfg.Within < time.Minute {
		return nil, fmt.Errorf("eraser: the erasure deadline must be at least 1m, not %s", cfg.Within)
	}
	if cfg.Gather < 0 || cfg.Tombstones < 0 || cfg.Replaced < 0 {
		return nil, errors.New("eraser: negative time")
	}
	cfg.Within = cmp.Or(cfg.Within, defaultWithin)
	cfg.Gather = cmp.Or(cfg.Gather, defaultGather)
	cfg.Tombstones = cmp.Or(cfg.Tombstones, event.TombstoneAge)
	cfg.Replaced = cmp.Or(cfg.Replaced, defaultReplaced)
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Eraser{cfg: cfg, deps: deps, pending: make(map[string]*pendingErasure), removed: make(map[string]int64),
		unreported: make(map[string]int64), answersToRebuild: make(map[int64]bool),
		rebuiltAnswers: make(map[int64]bool)}, nil
}

// Run sweeps at the start and whenever the suppression set or the live tables change. It returns nil when ctx
// ends. Failed work is retried.
func (e *Eraser) Run(ctx context.Context) (err error) {
	if e.deps.Suppressed.WaitLoaded(ctx) != nil {
		return nil
	}
	e.writer = bus.NewWriter(e.cfg.Kafka, bus.WithWriterLogger(e.deps.Logger), bus.WithFixedPartition)
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
				e.deps.Logger.WarnContext(ctx, "eraser: skipping invalid erasure event", "offset", m.Offset)
				return nil //nolint:nilerr // It will never be valid.
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

func (e *Eraser) loop(ctx context.Context, requests <-chan event.Erasure, logReady <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweptChanges, isDue := uint64(0), e.deps.Suppressed.Len() > 0
	tablesTicker := time.NewTicker(liveTablesPollInterval)
	defer tablesTicker.Stop()
	pause := func() time.Duration { return max(e.cfg.Gather, e.nextSweep.Sub(e.deps.Now())) }
	logRead, isSwept := false, false
	for {
		changes, changed := e.deps.Suppressed.Changes()
		if changes != sweptChanges && !isDue {
			isDue = true
			timer.Reset(pause())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case r := <-requests:
			if e.applyEvent(r) && logRead && !isDue {
				isDue = true
				timer.Reset(pause())
			}
		case <-logReady:
			logReady, logRead = nil, true
			if len(e.pending) > 0 {
				// The first sweep did not include them, and its pause may be long.
				isDue = true
				timer.Reset(e.cfg.Gather)
			}
		case <-tablesTicker.C:
			if isSwept && !isDue && e.replaced(ctx) {
				isDue, isSwept = true, false
				timer.Reset(pause())
			}
		case <-timer.C:
			isDue = false
			err := e.work(ctx, logRead, changes != sweptChanges || !isSwept)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				e.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "eraser: failed, will retry", slog.Any("error", err))
				isDue = true
				timer.Reset(retryPause)
				continue
			}
			sweptChanges, isSwept = changes, true
			switch {
			case e.rewriting != nil:
				timer.Reset(rewritePollInterval)
			case !e.dirtySince.IsZero():
				timer.Reset(e.timeToRewrite())
			}
		}
	}
}

// applyEvent applies an event of the request log, and reports whether there is work to do.
func (e *Eraser) applyEvent(r event.Erasure) bool {
	p := e.pending[r.RequestID]
	switch r.Action {
	case event.ErasureRequested:
		if p == nil {
			p = &pendingErasure{at: r.At, urgent: r.Urgent, requestedAt: r.RequestedAt}
			if now := e.deps.Now(); now.Before(p.at) {
				p.at = now // The writer's clock is ahead: every sweep from now on covers it.
			}
			for _, i := range r.Identifiers {
				if h, err := suppress.ParseHash(i.Hash); err == nil && i.Status != event.ErasureExempted {
					p.waitingFor = append(p.waitingFor, h)
				}
			}
			e.pending[r.RequestID] = p
			e.releaseWaiting(p)
			return !p.isWaiting() // Otherwise the set wakes the eraser when the entries arrive.
		}
	case event.ErasureSuppressed:
		if p != nil {
			p.suppressed = true
			if p.swept.IsZero() && !p.isWaiting() { // Reported before a restart, or by another replica.
				p.swept = r.At
				if now := e.deps.Now(); now.Before(p.swept) {
					p.swept = now // The reporter's clock was ahead.
				}
			}
		}
	case event.ErasureDeleted, event.ErasureWithdrawn:
		delete(e.pending, r.RequestID)
	}
	return false
}

// releaseWaiting removes the entries that are in force from those that a request waits for.
func (e *Eraser) releaseWaiting(p *pendingErasure) {
	p.waitingFor = slices.DeleteFunc(p.waitingFor, func(h suppress.Hash) bool {
		return e.deps.Suppressed.Knows(h, p.requestedAt)
	})
}

// work sweeps if something changed or a request is pending, and rewrites when it is due. logRead reports whether the
// log was read to its end; status events are published only then.
func (e *Eraser) work(ctx context.Context, logRead, changed bool) (err error) {
	// Read each time: tables may be created or replaced while the eraser runs.
	if e.layout, err = readmodel.FindLayout(ctx, e.deps.Conn); err != nil {
		return err
	}
	// A sweep is certain to cover only entries that are in force now.
	var pending []*pendingErasure
	for _, p := range e.pending {
		if e.releaseWaiting(p); !p.isWaiting() {
			pending = append(pending, p)
		}
	}
	begin := e.deps.Now()
	urgent := false
	for _, p := range pending {
		changed = changed || !p.suppressed || p.swept.IsZero()
		urgent = urgent || p.urgent && !p.at.After(begin)
	}
	if changed && len(pending) > 0 && !e.answersScanned {
		if err := e.scheduleDiffering(ctx); err != nil {
			return answers.RedactError(err)
		}
		e.answersScanned = true
	}
	if changed {
		found, err := e.sweepUntilStable(ctx)
		end := e.deps.Now()
		e.nextSweep = end.Add(end.Sub(begin))
		if err != nil {
			return err
		}
		if e.dirtySince.IsZero() && (!found.empty() || len(pending) > 0) {
			e.dirtySince = begin
		}
		for _, p := range pending {
			if p.swept.IsZero() {
				p.swept = begin
			}
		}
		if !found.empty() {
			maps.Copy(e.unreported, found.counts())
			for of, n := range e.removed {
				e.unreported[of] += n
			}
		}
		if !logRead {
			return nil
		}
		if err := e.publishStatus(ctx, event.ErasureSuppressed, begin, e.unreported); err != nil {
			return err
		}
		clear(e.unreported)
	}
	if e.rewriting != nil {
		return e.finishRewrite(ctx)
	}
	if logRead && e.dirtySince.IsZero() {
		// Requests from before a restart that are logged as suppressed: their rows are already deleted, so no
		// sweep finds them, but they still have to be rewritten.
		for _, p := range pending {
			if e.dirtySince.IsZero() || p.at.Before(e.dirtySince) {
				e.dirtySince = p.at
			}
		}
	}
	if e.dirtySince.IsZero() || !logRead || !urgent && e.deps.Now().Sub(e.dirtySince) < e.rewriteDelay() {
		return nil
	}
	begin = e.deps.Now()
	if err := e.rewrite(ctx); err != nil {
		return err
	}
	e.dirtySince, e.rewriting = time.Time{}, &pendingRewrite{begin: begin,
		compactAgainAt: e.deps.Now().Add(e.cfg.Tombstones + time.Second)}
	return nil
}

// rewriteDelay returns how long deleted rows wait for the rewrite: at most a quarter of the deadline, and
// short enough that a request arriving during a rewrite has time for its own. A rewrite takes the tombstones'
// lifetime plus some seconds.
func (e *Eraser) rewriteDelay() time.Duration {
	return max(0, min(e.cfg.Within/4, e.cfg.Within-2*(e.cfg.Tombstones+rewriteDuration)))
}

// timeToRewrite returns how long deleted rows still wait for the rewrite. An urgent request that arrived
// during a previous rewrite shortens it.
func (e *Eraser) timeToRewrite() time.Duration {
	now := e.deps.Now()
	wait := e.dirtySince.Add(e.rewriteDelay()).Sub(now)
	for _, p := range e.pending {
		if p.urgent && !p.isWaiting() {
			wait = min(wait, max(e.cfg.Gather, p.at.Sub(now)))
		}
	}
	return max(0, wait)
}

// finishRewrite completes a rewrite and publishes its status once no replaced part is left.
func (e *Eraser) finishRewrite(ctx context.Context) error {
	if e.deps.Now().Before(e.rewriting.compactAgainAt) {
		return nil
	}
	gone, err := e.settle(ctx)
	if err != nil || !gone {
		return err
	}
	begin := e.rewriting.begin
	e.rewriting = nil
	return e.publishStatus(ctx, event.ErasureDeleted, begin, nil)
}

// logMessage returns the message of an event of the log of requests.
func logMessage(r event.Erasure) (m kafka.Message, err error) {
	value, err := json.Marshal(r)
	if err != nil {
		return m, fmt.Errorf("encode erasure: %w", err)
	}
	about := cmp.Or(r.RequestID, r.RequestedAt)
	id := about + "/" + string(r.Action)
	if r.RequestID == "" { // notifications of one erasure follow each other
		id += "/" + r.At.Format(time.RFC3339Nano)
	}
	return kafka.Message{
		Topic: event.TopicErasureRequest, Key: []byte(about), Value: value, Headers: bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeErasureRequest, Source: "/muster/projector",
			Time: r.At, ContentType: "application/json",
		}),
	}, nil
}

// publishStatus publishes the status of requests that were made, and whose entries were in force, before the
// sweep or rewrite began.
func (e *Eraser) publishStatus(
	ctx context.Context, action event.ErasureAction, begin time.Time, counts map[string]int64,
) error {
	var messages []kafka.Message
	var done []string
	now := e.deps.Now().UTC()
	for id, p := range e.pending {
		if p.at.After(begin) || p.isWaiting() || p.swept.IsZero() || p.swept.After(begin) ||
			action == event.ErasureSuppressed && p.suppressed {
			continue
		}
		m, err := logMessage(event.Erasure{RequestID: id, Action: action, At: now, Removed: counts})
		if err != nil {
			return err
		}
		messages = append(messages, m)
		done = append(done, id)
	}
	if err := bus.WriteAll(ctx, e.writer, messages); err != nil {
		return fmt.Errorf("publish erasure status: %w", err)
	}
	for _, id := range done {
		if action == event.ErasureDeleted {
			delete(e.pending, id)
		} else {
			e.pending[id].suppressed = true
		}
	}
	return nil
}
