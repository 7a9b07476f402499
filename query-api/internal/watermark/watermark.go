package watermark

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"muster/platform/bus"
)

// Defaults of Config.
const (
	defaultInterval = 5 * time.Second
	defaultTimeout  = 10 * time.Second
)

// Config configures a [Watermark].
type Config struct {
	Bus bus.Config
	// Groups are the consumer groups that build the read models, in the order of the data flow.
	Groups []bus.GroupTopics
	// Interval is the time between comparisons; default 5 s.
	Interval time.Duration
	// Timeout bounds one comparison; default 10 s.
	Timeout time.Duration
	// Visible is how long after the commit of its offset an effect may become visible.
	Visible time.Duration
	Logger  *slog.Logger
	Now     func() time.Time
}

// Watermark is the time as of which the read models have every published message. It never decreases. It is safe for
// concurrent use.
type Watermark struct {
	cfg  Config
	asOf atomic.Pointer[time.Time]
}

// New returns a Watermark that is unknown until Run has compared once.
func New(cfg Config) *Watermark {
	cfg.Interval = cmp.Or(cfg.Interval, defaultInterval)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	return &Watermark{cfg: cfg}
}

// AsOf returns the watermark; ok is false if it is not known yet.
func (w *Watermark) AsOf() (asOf time.Time, ok bool) {
	if t := w.asOf.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// Run updates the watermark until ctx ends. It logs the first of consecutive failures.
func (w *Watermark) Run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Interval)
	defer ticker.Stop()
	failing := false
	for {
		err := w.update(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "watermark: offsets unavailable, will retry",
				slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// update compares once. The groups are compared one after the other: what an earlier group has committed, it has
// published for the next one.
func (w *Watermark) update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	asOf := w.cfg.Now()
	for _, group := range w.cfg.Groups {
		lags, err := bus.Lag(ctx, w.cfg.Bus, group.Group, group.Topics)
		if err != nil {
			return err
		}
		oldest, err := bus.OldestTimestamps(ctx, w.cfg.Bus, lags)
		if err != nil {
			return err
		}
		for _, t := range oldest {
			if t.Before(asOf) {
				asOf = t
			}
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.cfg.Visible):
	}
	if known := w.asOf.Load(); known == nil || known.Before(asOf) {
		w.asOf.Store(&asOf)
	}
	return nil
}
