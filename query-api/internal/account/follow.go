package account

import (
	"context"
	"errors"
	"log/slog"

	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Follow applies events of the account topic to the directory until ctx ends or the follower is
// closed. The follower is ready once all events stored at its start are applied.
func (d *Directory) Follow(ctx context.Context, cfg bus.Config, logger *slog.Logger) *bus.Follower {
	follower := bus.Follow(ctx, cfg, bus.FollowConfig{
		Topics: []string{event.TopicAccount},
		Logger: logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			// An invalid event must not block later ones.
			if err := d.Apply(m.Key, m.Value); err != nil {
				level := slog.LevelError
				if errors.Is(err, event.ErrNotAccount) {
					level = slog.LevelWarn
				}
				logger.Log(ctx, level, "account: invalid event skipped", slog.Int("partition", m.Partition),
					slog.Int64("offset", m.Offset), slog.Any("error", err))
			}
			return nil
		},
	})
	d.mu.Lock()
	d.loaded = follower.Ready()
	d.mu.Unlock()
	return follower
}
