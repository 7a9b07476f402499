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

// Group is the consumer group that charges results.
const Group = "muster.query-api.contexts"

// Run charges results until ctx ends, also those of waiting clients. A failed charge is retried until it succeeds.
func (d *CallTracker) Run(ctx context.Context) error {
	subscriber, err := bus.NewSubscriber(bus.SubscriberConfig{
		Config: d.cfg.Bus, Group: Group, MaxInFlight: 16, NackDelay: time.Second, Logger: d.cfg.Logger,
	})
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 3 * time.Second},
		bus.RouterLogger(ctx, d.cfg.Logger))
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	router.AddConsumerHandler("contexts", event.TopicContext, subscriber, d.settle).AddMiddleware(middleware.Recoverer)
	if err := router.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

func (d *CallTracker) settle(msg *message.Message) error {
	c, err := decode(msg.Payload)
	if err != nil {
		return nil //nolint:nilerr // logged by the follower
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
	// With a single replica, either the process with the waiting client has ended, or this process has answered without
	// the result.
	abandoned := d.cfg.SingleReplica && (c.Call.Process != d.process || d.answeredWithoutResult(c))
	if d.cfg.Abandoned != nil {
		// The replica that took the call may have ended. If not, it delivers the result as well, under the same ID. If
		// it answers the call later, it learns that the result is settled.
		if abandoned, err = d.cfg.Abandoned.Settle(msg.Context(), c.Call.RequestID); err != nil {
			return err
		}
	}
	if abandoned {
		return d.deliver(msg.Context(), c)
	}
	return nil
}

// answeredWithoutResult reports whether this process answered a call without its result. If not, it applies the result,
// so that the call is answered with it. deliverLate is not sufficient: it ends with the process, and the next process
// does not read a settled result again.
func (d *CallTracker) answeredWithoutResult(c *event.Context) bool {
	d.apply(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.known[c.Call.RequestID]
	return known != nil && known.answered
}

// deliverLate delivers the result of a call answered without it, and retries until Close. d.mu must be held.
func (d *CallTracker) deliverLate(c *event.Context) {
	if c.Call.WebhookURL == "" || c.Delivered || d.closed {
		return
	}
	d.handing.Go(func() {
		_, err := backoff.Retry(d.closing, func() (struct{}, error) {
			return struct{}{}, d.deliver(d.closing, c)
		}, backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(0))
		if err != nil {
			d.cfg.Logger.WarnContext(d.closing, "contexts: delivery not published before shutdown",
				slog.String("request_id", c.Call.RequestID), slog.Any("error", err))
		}
	})
}

// deliver hands a result to the webhook-sender, unless the worker has done so. A result that can never be delivered is
// logged.
func (d *CallTracker) deliver(ctx context.Context, c *event.Context) error {
	if c.Call.WebhookURL == "" || c.Delivered {
		return nil
	}
	task, err := c.Delivery(d.cfg.Now())
	if err != nil {
		return err
	}
	key, id, value, err := task.Message()
	// The address was valid when the call was accepted and will not change.
	if err != nil {
		d.cfg.Logger.ErrorContext(ctx, "contexts: profile cannot be delivered",
			slog.String("request_id", c.Call.RequestID), slog.Any("error", err))
		return nil
	}
	return bus.WriteAll(ctx, d.writer, []kafka.Message{{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: source, Subject: task.DeliveryID, Time: task.CreatedAt,
			ContentType: "application/json",
		})),
	}})
}
