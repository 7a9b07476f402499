package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// OperatorConfig configures an [Operator].
type OperatorConfig struct {
	Bus    bus.Config
	Logger *slog.Logger
	Now    func() time.Time
}

// Operator implements operator actions on webhooks through the sender's topics.
type Operator struct{ cfg OperatorConfig }

// NewOperator returns an operator. It does not connect.
func NewOperator(cfg OperatorConfig) *Operator {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Operator{cfg}
}

// Task returns the Kafka message of a delivery.
func Task(ctx context.Context, task *event.WebhookTask) (kafka.Message, error) {
	key, id, value, err := task.Message()
	if err != nil {
		return kafka.Message{}, err
	}
	return kafka.Message{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: "/muster/webhook", Subject: task.DeliveryID,
			Time: task.CreatedAt, ContentType: "application/json",
		})),
	}, nil
}

func (o *Operator) publish(ctx context.Context, m kafka.Message) (err error) {
	w := bus.NewWriter(o.cfg.Bus, bus.WithWriterLogger(o.cfg.Logger))
	defer func() { err = errors.Join(err, w.Close()) }()
	return bus.WriteAll(ctx, w, []kafka.Message{m})
}

// Test sends a small test delivery to address and returns its first attempt. It waits for a running
// sender until ctx ends.
func (o *Operator) Test(ctx context.Context, organization, address string) (event.WebhookAttempt, error) {
	var attempt event.WebhookAttempt
	id, err := uuid.NewV7()
	if err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	now := o.cfg.Now().UTC()
	body, err := json.Marshal(map[string]any{"test": true, "sent_at": now}, json.Deterministic(true))
	if err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	task := &event.WebhookTask{
		DeliveryID: "test-" + id.String(), OrganizationID: organization, URL: address, Body: body, CreatedAt: now,
	}
	m, err := Task(ctx, task)
	if err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	reported := make(chan event.WebhookAttempt, 1)
	follower := bus.Follow(ctx, o.cfg.Bus, bus.FollowConfig{
		Topics: []string{event.TopicWebhook}, FromEnd: true, MaxWait: 250 * time.Millisecond, Logger: o.cfg.Logger,
		Handle: func(_ context.Context, km kafka.Message) error {
			var a event.WebhookAttempt
			if err := json.Unmarshal(km.Value, &a); err == nil && a.DeliveryID == task.DeliveryID {
				select {
				case reported <- a:
				default: // a later attempt
				}
			}
			return nil
		},
	})
	defer func() { _ = follower.Close() }() // it ends with ctx at the latest
	if err := follower.WaitReady(ctx); err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	if err := o.publish(ctx, m); err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	select {
	case attempt = <-reported:
		return attempt, nil
	case <-ctx.Done():
		return attempt, fmt.Errorf("test webhook %s: no attempt reported; check that a webhook-sender is running: %w",
			task.DeliveryID, context.Cause(ctx))
	}
}

// Resend requests a new round of a delivery: its schedule restarts, the webhook-id stays. The task
// is at offset of partition. It returns [bus.ErrNoMessage] if the log no longer holds it.
func (o *Operator) Resend(ctx context.Context, deliveryID string, partition int, offset int64) error {
	m, err := bus.MessageAt(ctx, o.cfg.Bus, event.TopicWebhookTask, partition, offset)
	if err != nil {
		return fmt.Errorf("resend %s: %w", deliveryID, err)
	}
	var task event.WebhookTask
	if err := json.Unmarshal(m.Value, &task); err != nil || task.DeliveryID != deliveryID {
		return fmt.Errorf("resend %s: %w", deliveryID, bus.ErrNoMessage)
	}
	round, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("resend %s: %w", deliveryID, err)
	}
	task.Round = round.String()
	resent, err := Task(ctx, &task)
	if err != nil {
		return fmt.Errorf("resend %s: %w", deliveryID, err)
	}
	if err := o.publish(ctx, resent); err != nil {
		return fmt.Errorf("resend %s: %w", deliveryID, err)
	}
	return nil
}

// EndpointHealth is the health of the endpoints that are stopped or whose breaker was open. Pending is
// the number of waiting deliveries by endpoint ID.
type EndpointHealth struct {
	Endpoints []event.EndpointState
	Pending   map[string]int
}

// Endpoints reads the health of endpoints from the state topic.
func (o *Operator) Endpoints(ctx context.Context) (EndpointHealth, error) {
	var mu sync.Mutex
	endpoints := make(map[string]event.EndpointState)
	pending := make(map[string]map[string]bool)
	follower := bus.Follow(ctx, o.cfg.Bus, bus.FollowConfig{
		Topics: []string{event.TopicWebhookState}, MaxWait: 100 * time.Millisecond, Logger: o.cfg.Logger,
		Handle: func(_ context.Context, m kafka.Message) error {
			mu.Lock()
			defer mu.Unlock()
			delivery, endpoint, removed, err := event.DecodeWebhookState(m.Key, m.Value)
			switch {
			// The sender logs these.
			case err != nil:
			case endpoint != nil && removed:
				delete(endpoints, endpoint.EndpointID)
			case endpoint != nil:
				endpoints[endpoint.EndpointID] = *endpoint
			case !removed && delivery.Status == event.WebhookPending:
				if pending[delivery.EndpointID] == nil {
					pending[delivery.EndpointID] = make(map[string]bool)
				}
				pending[delivery.EndpointID][delivery.DeliveryID] = true
			default:
				delete(pending[delivery.EndpointID], delivery.DeliveryID)
			}
			return nil
		},
	})
	err := follower.WaitReady(ctx)
	if err := errors.Join(err, follower.Close()); err != nil {
		return EndpointHealth{}, fmt.Errorf("read webhook states: %w", err)
	}
	out := EndpointHealth{Pending: make(map[string]int)}
	for id, deliveries := range pending {
		if len(deliveries) > 0 {
			out.Pending[id] = len(deliveries)
		}
	}
	for _, e := range endpoints {
		out.Endpoints = append(out.Endpoints, e)
	}
	slices.SortFunc(out.Endpoints, func(a, b event.EndpointState) int {
		return cmp.Or(strings.Compare(a.OrganizationID, b.OrganizationID), strings.Compare(a.Address, b.Address))
	})
	return out, nil
}

// Resume lets a stopped endpoint receive again. Deliveries that were dead-lettered while it was
// stopped stay dead-lettered; Resend sends them.
func (o *Operator) Resume(ctx context.Context, endpointID string) error {
	now := o.cfg.Now().UTC()
	value, err := json.Marshal(event.WebhookResume{EndpointID: endpointID, At: now})
	if err != nil {
		return fmt.Errorf("resume endpoint %s: %w", endpointID, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("resume endpoint %s: %w", endpointID, err)
	}
	m := kafka.Message{
		Topic: event.TopicWebhookTask, Key: []byte(endpointID), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id.String(), Type: event.TypeWebhookResume, Source: "/muster/webhook", Subject: endpointID, Time: now,
			ContentType: "application/json",
		})),
	}
	if err := o.publish(ctx, m); err != nil {
		return fmt.Errorf("resume endpoint %s: %w", endpointID, err)
	}
	return nil
}
