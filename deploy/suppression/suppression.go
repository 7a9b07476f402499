package suppression

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

// Follower follows the set of a process.
type Follower struct {
	set    *suppress.Set
	bus    bus.Config
	logger *slog.Logger
}

// New returns a follower of an empty set, whose hashes are made with the instance's
// root secret. It follows once Run runs.
func New(secret *service.RootSecret, cfg bus.Config, logger *slog.Logger) (*Follower, error) {
	key, err := Key(secret)
	if err != nil {
		return nil, err
	}
	return &Follower{set: suppress.NewSet(key), bus: cfg, logger: logger}, nil
}

// Key is the key that the root secret's hashes are made with.
func Key(secret *service.RootSecret) (*suppress.Key, error) {
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

// Set is the set, which is not loaded before Run has read the topic.
func (f *Follower) Set() *suppress.Set { return f.set }

// Ready is nil once the set is loaded.
func (f *Follower) Ready(context.Context) error {
	if !f.set.IsLoaded() {
		return errors.New("the suppression set is being read from Kafka")
	}
	return nil
}

// connectTimeout bounds how long a command waits for the brokers.
const connectTimeout = 15 * time.Second

// ensure makes the topic, if it is not there.
func (f *Follower) ensure(ctx context.Context) error {
	for _, t := range event.Topics() {
		if t.Name != event.TopicErasure {
			continue
		}
		err := bus.EnsureTopics(ctx, f.bus, []bus.Topic{{Name: t.Name, Partitions: t.Partitions, Config: t.Config()}})
		if _, different := errors.AsType[*bus.MismatchError](err); !different && err != nil {
			return fmt.Errorf("suppression: make the topic: %w", err)
		}
	}
	return nil
}

// Run follows until ctx ends, and returns nil then. The error is
// suppress.ErrOtherKey, or why following is impossible. Of a topic that nobody
// owns yet it makes the set's key the owner, so that whoever has another one is
// told before the first erasure.
func (f *Follower) Run(ctx context.Context) error { return f.run(ctx, f.own) }

func (f *Follower) run(ctx context.Context, loaded func(context.Context)) error {
	if err := f.ensure(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	foreign := foreign{keys: make(map[string]bool)}
	follower := bus.Follow(ctx, f.bus, bus.FollowConfig{
		Topics: []string{event.TopicErasure}, Logger: f.logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			err := f.set.Apply(m.Key, m.Value)
			if other := foreign.note(string(m.Key), m.Value, err); other != nil {
				stop(other)
				return other
			}
			if string(m.Key) == suppress.OwnerKey && f.set.IsLoaded() {
				f.tell(ctx)
			}
			if err != nil && !errors.Is(err, suppress.ErrOtherKey) {
				f.logger.LogAttrs(ctx, slog.LevelError, "suppression entry skipped", slog.Int("partition", m.Partition),
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
		return errors.New("suppression: following has ended")
	}
	return nil
}

// foreign are the entries of other keys. Until the topic is read they may yet be
// removed by what stands behind them ([Remove]).
type foreign struct {
	mu     sync.Mutex
	keys   map[string]bool
	loaded bool
}

// note takes a message and what applying it said; the error is one that nothing behind it mends.
func (f *foreign) note(key string, value []byte, err error) error {
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

// load ends the loading.
func (f *foreign) load() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded = true
	if len(f.keys) > 0 {
		return suppress.ErrOtherKey
	}
	return nil
}

// own makes the key the topic's owner, if there is none.
func (f *Follower) own(ctx context.Context) {
	f.tell(ctx)
	if f.set.Claimed() {
		return
	}
	writing, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("the Kafka brokers did not take it within %s", connectTimeout))
	defer cancel()
	if err := claim(writing, f.bus, f.set.Key()); err != nil && ctx.Err() == nil {
		// Nothing rests on it but being told early.
		f.logger.WarnContext(ctx, "the topic of erasures does not say whose it is: nobody is told of a wrong root secret before the first erasure", "error", err)
	}
}

// tell says it when the topic is somebody else's.
func (f *Follower) tell(ctx context.Context) {
	if err := f.set.Ours(); err != nil {
		f.logger.ErrorContext(ctx, "this process has another root secret than those who share its Kafka: it takes no erasures, and ends with the first that is ordered elsewhere", "error", err)
	}
}

// claim makes a key the owner of the topic of erasures, which exists.
func claim(ctx context.Context, cfg bus.Config, key *suppress.Key) error {
	w := bus.NewWriter(cfg)
	err := bus.WriteAll(ctx, w, []kafka.Message{{Topic: event.TopicErasure, Key: []byte(suppress.OwnerKey), Value: key.Owner()}})
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("suppression: write whose the topic is: %w", err)
	}
	return nil
}

// With runs do with a set that is loaded and followed meanwhile, for an operator's
// command.
func With(ctx context.Context, f *Follower, do func(context.Context, *suppress.Set) error) error {
	connecting, cancel := context.WithTimeoutCause(ctx, connectTimeout,
		fmt.Errorf("the Kafka brokers did not answer within %s", connectTimeout))
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
		stop(err) // whoever waits for the set waits no longer
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
