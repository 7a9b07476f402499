package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// Follower updates the suppression set of a process.
type Follower struct {
	set    *suppress.Set
	bus    bus.Config
	logger *slog.Logger
}

// NewFollower returns a follower of an empty set with the key of secret. Call Run to load and update the set.
func NewFollower(secret *service.RootSecret, cfg bus.Config, logger *slog.Logger) (*Follower, error) {
	key, err := SuppressionKey(secret)
	if err != nil {
		return nil, err
	}
	return &Follower{set: suppress.NewSet(key), bus: cfg, logger: logger}, nil
}

// SuppressionKey returns the key of suppression hashes, derived from the root secret.
func SuppressionKey(secret *service.RootSecret) (*suppress.Key, error) {
	material, err := secret.Key(suppress.KeyName, suppress.KeySize)
	if err != nil {
		return nil, fmt.Errorf("suppression: %w", err)
	}
	key, err := suppress.NewKey(material)
	if err != nil {
		return nil, fmt.Errorf("suppression: %w", err)
	}
	return key, nil
}

// Set returns the set. It is empty until Run has read the topic.
func (f *Follower) Set() *suppress.Set { return f.set }

// Ready returns nil once the set is loaded.
func (f *Follower) Ready(context.Context) error {
	if !f.set.IsLoaded() {
		return errors.New("the suppression set is loading from Kafka")
	}
	return nil
}

// connectTimeout is the maximum time that a command waits for the brokers.
const connectTimeout = 15 * time.Second

// ensure creates the topic if it does not exist.
func (f *Follower) ensure(ctx context.Context) error {
	if err := ensureTopics(ctx, f.bus, event.TopicErasure); err != nil {
		return fmt.Errorf("suppression: create the topic: %w", err)
	}
	return nil
}

// Run updates the set until ctx ends, and returns nil then. It returns suppress.ErrOtherKey for an entry of another
// key, or the error that stopped it. If the topic has no owner, it makes its key the owner, so that processes with
// another root secret detect the mismatch before the first erasure.
func (f *Follower) Run(ctx context.Context) error { return f.run(ctx, f.claimOwnership) }

func (f *Follower) run(ctx context.Context, loaded func(context.Context)) error {
	if err := f.ensure(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	foreign := foreignKeys{keys: make(map[string]bool)}
	follower := bus.Follow(ctx, f.bus, bus.FollowConfig{
		Topics: []string{event.TopicErasure}, Logger: f.logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			err := f.set.Apply(m.Key, m.Value)
			if other := foreign.note(string(m.Key), m.Value, err); other != nil {
				stop(other)
				return other
			}
			if string(m.Key) == suppress.OwnerKey && f.set.IsLoaded() {
				f.logOwnerMismatch(ctx)
			}
			if err != nil && !errors.Is(err, suppress.ErrOtherKey) {
				f.logger.LogAttrs(ctx, slog.LevelError, "suppression: entry skipped",
					slog.Int("partition", m.Partition),
					slog.Int64("offset", m.Offset), slog.Any("error", err))
			}
			return nil
		},
	})
	select {
	case <-follower.Ready():
		if err := foreign.load(); err != nil {
			stop(err)
			break
		}
		f.set.Loaded()
		loaded(ctx)
	case <-follower.Done():
	}
	<-follower.Done()
	err := follower.Close()
	if cause := context.Cause(ctx); errors.Is(cause, suppress.ErrOtherKey) {
		err = errors.Join(cause, err)
	}
	if err != nil {
		return fmt.Errorf("suppression: %w", err)
	}
	if ctx.Err() == nil {
		return errors.New("suppression: consumer exited unexpectedly")
	}
	return nil
}

// foreignKeys collects the entries of other keys. Until the topic is read, later messages may remove them (see
// [RemoveKey]).
type foreignKeys struct {
	mu     sync.Mutex
	keys   map[string]bool
	loaded bool
}

// note records the result of applying a message. It returns the error if later messages cannot fix it.
func (f *foreignKeys) note(key string, value []byte, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case value == nil:
		delete(f.keys, key)
	case errors.Is(err, suppress.ErrOtherKey) && f.loaded:
		return err
	case errors.Is(err, suppress.ErrOtherKey):
		f.keys[key] = true
	}
	return nil
}

// load ends the initial read. It returns an error if entries of another key remain.
func (f *foreignKeys) load() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded = true
	if len(f.keys) > 0 {
		return suppress.ErrOtherKey
	}
	return nil
}

// claimOwnership makes the key the owner of the topic if it has none.
func (f *Follower) claimOwnership(ctx context.Context) {
	f.logOwnerMismatch(ctx)
	if f.set.HasOwner() {
		return
	}
	writing, cancel := context.WithTimeoutCause(ctx, connectTimeout,
		fmt.Errorf("timed out after %s: the Kafka brokers are unavailable", connectTimeout))
	defer cancel()
	if err := claim(writing, f.bus, f.set.Key()); err != nil && ctx.Err() == nil {
		// Best effort: a missing owner only delays the key-mismatch warning.
		f.logger.WarnContext(ctx, "suppression: could not write the topic owner", "error", err)
	}
}

// logOwnerMismatch logs an error if the topic has another owner.
func (f *Follower) logOwnerMismatch(ctx context.Context) {
	if err := f.set.CheckOwner(); err != nil {
		f.logger.ErrorContext(ctx, "suppression: root key differs from the topic owner's, erasures are rejected",
			"error", err, "hint", "see erasure.md")
	}
}

// claim makes a key the owner of the existing erasure topic.
func claim(ctx context.Context, cfg bus.Config, key *suppress.Key) error {
	w := bus.NewWriter(cfg)
	err := bus.WriteAll(ctx, w,
		[]kafka.Message{{Topic: event.TopicErasure, Key: []byte(suppress.OwnerKey), Value: key.OwnerRecord()}})
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("suppression: write the topic owner: %w", err)
	}
	return nil
}

// With runs do, an operator's command, with the loaded set, which it keeps up to date.
func (f *Follower) With(ctx context.Context, do func(context.Context, *suppress.Set) error) error {
	connecting, cancel := context.WithTimeoutCause(ctx, connectTimeout,
		fmt.Errorf("timed out after %s: the Kafka brokers are unavailable", connectTimeout))
	err := f.ensure(connecting)
	cancel()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := f.run(ctx, func(context.Context) {})
		stop(err) // releases do's wait for the set
		ended <- err
	}()
	err = f.set.WaitLoaded(ctx)
	if err == nil {
		err = do(ctx, f.set)
	}
	stop(nil)
	last := <-ended
	if errors.Is(err, last) {
		return err
	}
	return errors.Join(err, last)
}
