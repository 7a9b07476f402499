package suppression

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	material, err := secret.Key(suppress.KeyName, suppress.KeySize)
	if err != nil {
		return nil, fmt.Errorf("suppression: %w", err)
	}
	key, err := suppress.NewKey(material)
	if err != nil {
		return nil, fmt.Errorf("suppression: %w", err)
	}
	return &Follower{set: suppress.NewSet(key), bus: cfg, logger: logger}, nil
}

// Set is the set, which is not loaded before Run has read the topic.
func (f *Follower) Set() *suppress.Set { return f.set }

// Ready is nil once the set is loaded.
func (f *Follower) Ready(context.Context) error {
	if !f.set.IsLoaded() {
		return errors.New("the suppression set is being read")
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
// suppress.ErrOtherKey, or why following is impossible.
func (f *Follower) Run(ctx context.Context) error {
	if err := f.ensure(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	follower := bus.Follow(ctx, f.bus, bus.FollowConfig{
		Topics: []string{event.TopicErasure}, Logger: f.logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			switch err := f.set.Apply(m.Key, m.Value); {
			case errors.Is(err, suppress.ErrOtherKey):
				stop(err)
				return err
			case err != nil:
				f.logger.LogAttrs(ctx, slog.LevelError, "suppression entry skipped", slog.Int("partition", m.Partition),
					slog.Int64("offset", m.Offset), slog.Any("error", err))
			}
			return nil
		},
	})
	select {
	case <-follower.Ready():
		f.set.Loaded()
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
		err := f.Run(ctx)
		stop(err) // whoever waits for the set waits no longer
		ended <- err
	}()
	err = f.set.WaitLoaded(ctx)
	if err == nil {
		err = do(ctx, f.set)
	}
	stop(nil)
	return errors.Join(err, <-ended)
}
