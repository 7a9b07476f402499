package contexts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Group is the consumer group that charges outcomes.
const Group = "muster.query-api.contexts"

// Run charges outcomes until ctx ends, whoever waits for them. An outcome that
// cannot be charged at present is tried again until it is.
func (d *Desk) Run(ctx context.Context) error {
	subscriber, err := bus.NewSubscriber(bus.SubscriberConfig{
		Config: d.cfg.Bus, Group: Group, MaxInFlight: 16, NackDelay: time.Second, Logger: d.cfg.Logger,
	})
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 3 * time.Second}, bus.RouterLogger(d.cfg.Logger))
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	router.AddConsumerHandler("contexts", event.TopicContext, subscriber, d.settle).AddMiddleware(middleware.Recoverer)
	if err := router.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

func (d *Desk) settle(msg *message.Message) error {
	c, err := decode(msg.Payload)
	if err != nil {
		return nil //nolint:nilerr // the follower tells
	}
	if c.Status == event.ContextProcessing {
		return nil
	}
	if d.cfg.Settle != nil {
		if err := d.cfg.Settle(msg.Context(), c); err != nil {
			return err
		}
	}
	if c.Call.WebhookURL == "" || c.Delivered {
		return nil
	}
	// Alone: the process whose caller waited for it has ended, or this one has answered
	// without it.
	left := d.cfg.Alone && (c.Call.Process != d.process || d.without(c))
	if d.cfg.Left != nil {
		// The replica that took the call may have ended since. If it has not it hands the
		// outcome over as well, under the same id. If it answers the call later it learns that
		// this has been.
		if left, err = d.cfg.Left.Settle(msg.Context(), c.Call.RequestID); err != nil {
			return err
		}
	}
	if left {
		return d.deliver(msg.Context(), c)
	}
	return nil
}

// without says that this process has answered a call without its outcome, or else knows
// the outcome from now on and will not. handOver is not enough: it ends with the process,
// and the next one does not see an outcome again that was settled.
func (d *Desk) without(c *event.Context) bool {
	d.take(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.known[c.Call.RequestID]
	return known != nil && known.answered
}

// handOver delivers an outcome whose caller was answered without it, trying until
// it is done or the desk closes; d.mu is held.
func (d *Desk) handOver(c *event.Context) {
	if c.Call.WebhookURL == "" || c.Delivered || d.closed {
		return
	}
	d.handing.Go(func() {
		_, err := backoff.Retry(d.closing, func() (struct{}, error) {
			return struct{}{}, d.deliver(d.closing, c)
		}, backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(0))
		if err != nil {
			d.cfg.Logger.WarnContext(d.closing, "a context profile was not handed to the webhook-sender before the end", slog.String("request_id", c.Call.RequestID), slog.Any("error", err))
		}
	})
}

// deliver hands an outcome to the webhook-sender, unless the worker has. One that never can be
// is logged.
func (d *Desk) deliver(ctx context.Context, c *event.Context) error {
	if c.Call.WebhookURL == "" || c.Delivered {
		return nil
	}
	task, err := c.Delivery(d.cfg.Now())
	if err != nil {
		return err
	}
	key, id, value, err := task.Message()
	if err != nil { // it was accepted with this address, which stays as it is
		d.cfg.Logger.ErrorContext(ctx, "context profile cannot be delivered", slog.String("request_id", c.Call.RequestID), slog.Any("error", err))
		return nil
	}
	return bus.WriteAll(ctx, d.writer, []kafka.Message{{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value, Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: source, Subject: task.DeliveryID, Time: task.CreatedAt, ContentType: "application/json",
		})),
	}})
}
