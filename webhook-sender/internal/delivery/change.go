package delivery

import (
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/schemas/event"
)

// Send is a call to make now.
type Send struct {
	EndpointID, DeliveryID string
	// Task is the message to deliver. If it is nil, the caller reads it at Offset.
	Task   *kafka.Message
	Offset int64

	item *item
}

// Outcome is the result of a [Send].
type Outcome struct {
	// BreakerOpen means that the endpoint's breaker rejected the call for RetryAfter. Nothing was
	// sent.
	BreakerOpen bool
	// Abandoned means that the result is unknown, because the partition was revoked or the task
	// could not be read yet. It does not count as an attempt.
	Abandoned bool
	// Unsent means that no request was made, so the outcome does not affect the endpoint's health.
	Unsent bool
	// OK means that the receiver accepted the delivery.
	OK bool
	// Gone means that the receiver answered 410. Permanent means that a retry is pointless.
	Gone, Permanent bool
	RetryAfter      time.Duration
	HTTPStatus      int
	Error           string
	Response        string
	At              time.Time
	Duration        time.Duration
	// Task is the message to deliver, or nil if it could not be read.
	Task *kafka.Message
}

// StateChange is what must be durable before the offsets in Finished may be committed.
type StateChange struct {
	// Attempts and Dead are written before the states of their deliveries.
	Attempts []event.WebhookAttempt
	Dead     []DeadLetter
	States   []State
	// Finished are the offsets of tasks that are durable with this change.
	Finished []int64
}

// IsEmpty reports whether the change has nothing to write or commit.
func (e *StateChange) IsEmpty() bool {
	return len(e.States)+len(e.Attempts)+len(e.Dead)+len(e.Finished) == 0
}

// SplitStates returns the states of endpoints, which are written first, and all others.
func (e *StateChange) SplitStates() (endpoints, others []State) {
	for _, s := range e.States {
		if strings.Contains(s.Key, "/") {
			others = append(others, s)
		} else {
			endpoints = append(endpoints, s)
		}
	}
	return endpoints, others
}

// State is a record for the state topic: of a delivery, an endpoint, or the partition's watermark.
// With none of them it is a tombstone.
type State struct {
	Key          string
	Delivery     *event.DeliveryState
	Endpoint     *event.EndpointState
	LowWatermark *event.WebhookLowWatermark
}

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	State event.DeliveryState
	// LastError is the error class of the last failure, or "".
	LastError string
	// Task is the message. If it is nil, the caller reads it at State.Offset.
	Task   *kafka.Message
	reason string
}

// Code returns the machine-readable reason.
func (d *DeadLetter) Code() string { return d.State.Error }

// Reason returns a human-readable reason without personal data.
func (d *DeadLetter) Reason() string {
	if d.reason != "" {
		return d.reason
	}
	s := fmt.Sprintf("delivery %s to endpoint %s: %s", d.State.DeliveryID, d.State.EndpointID, d.State.Error)
	if d.LastError != "" && d.LastError != d.State.Error {
		s += ", last failure: " + d.LastError
	}
	return s
}

// Codes of dead letters, in addition to the error classes of attempts.
const (
	CodeExhausted = "exhausted"
	CodeExpired   = "expired"
	CodeStopped   = "endpoint_stopped"
	CodeGone      = "gone"
)
