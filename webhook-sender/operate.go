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

// OperatorConfig is what an [Operator] works with.
type OperatorConfig struct {
	Bus    bus.Config
	Logger *slog.Logger
	Now    func() time.Time
}

// Operator does what operators ask of the webhook-sender, through its topics.
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

// Task makes the message of a delivery.
func Task(ctx context.Context, task *event.WebhookTask) (kafka.Message, error) {
	key, id, value, err := task.Message()
	if err != nil {
		return kafka.Message{}, err
	}
	return kafka.Message{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: "/muster/webhook", Subject: task.DeliveryID, Time: task.CreatedAt, ContentType: "application/json",
		})),
	}, nil
}

func (o *Operator) publish(ctx context.Context, m kafka.Message) (err error) {
	w := bus.NewWriter(o.cfg.Bus, bus.WithWriterLogger(o.cfg.Logger))
	defer func() { err = errors.Join(err, w.Close()) }()
	return bus.WriteAll(ctx, w, []kafka.Message{m})
}

// Test sends a small delivery to an address and returns what came of its first
// attempt. It waits for a running sender until ctx ends.
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
	found := make(chan event.WebhookAttempt, 1)
	follower := bus.Follow(ctx, o.cfg.Bus, bus.FollowConfig{
		Topics: []string{event.TopicWebhook}, FromEnd: true, MaxWait: 250 * time.Millisecond, Logger: o.cfg.Logger,
		Handle: func(_ context.Context, km kafka.Message) error {
			var a event.WebhookAttempt
			if err := json.Unmarshal(km.Value, &a); err == nil && a.DeliveryID == task.DeliveryID {
				select {
				case found <- a:
				default: // a later attempt
				}
			}
			return nil
		},
	})
	defer func() { _ = follower.Close() }() // it ended with ctx at the latest
	if err := follower.WaitReady(ctx); err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	if err := o.publish(ctx, m); err != nil {
		return attempt, fmt.Errorf("test webhook: %w", err)
	}
	select {
	case attempt = <-found:
		return attempt, nil
	case <-ctx.Done():
		return attempt, fmt.Errorf("test webhook %s: no attempt was reported; does a webhook-sender run? %w", task.DeliveryID, context.Cause(ctx))
	}
}

// Resend orders a delivery to be made again, from its first attempt on, with the
// same webhook-id. Its task is at an offset of a partition; the error is
// [bus.ErrNoMessage] when the log no longer holds it.
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
	again, err := Task(ctx, &task)
	if err != nil {
		return fmt.Errorf("resend %s: %w", deliveryID, err)
	}
	if err := o.publish(ctx, again); err != nil {
		return fmt.Errorf("resend %s: %w", deliveryID, err)
	}
	return nil
}

// Troubled is the state of the endpoints that are stopped or whose breaker was open,
// and Pending the number of deliveries that wait for each endpoint.
type Troubled struct {
	Endpoints []event.EndpointState
	Pending   map[string]int
}

// Endpoints reads the topic of states.
func (o *Operator) Endpoints(ctx context.Context) (Troubled, error) {
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
			case err != nil: // the sender tells
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
		return Troubled{}, fmt.Errorf("read webhook states: %w", err)
	}
	out := Troubled{Pending: make(map[string]int)}
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

// Resume lets a stopped endpoint receive again. What was given up meanwhile stays
// with the dead letters; Resend sends it.
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
			ID: id.String(), Type: event.TypeWebhookResume, Source: "/muster/webhook", Subject: endpointID, Time: now, ContentType: "application/json",
		})),
	}
	if err := o.publish(ctx, m); err != nil {
		return fmt.Errorf("resume endpoint %s: %w", endpointID, err)
	}
	return nil
}
