package delivery

import (
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/schemas/event"
)

// Send is a call that is to be made now.
type Send struct {
	EndpointID, DeliveryID string
	// Task is the message to deliver; nil when it has to be read at Offset.
	Task   *kafka.Message
	Offset int64

	item *item
}

// Outcome is what came of a [Send].
type Outcome struct {
	// Refused: the endpoint's breaker is open; nothing was sent. RetryAfter says
	// for how long.
	Refused bool
	// Abandoned: it is not known what came of it, since this process gives the
	// partition away, or the task could not be read yet. It counts as nothing.
	Abandoned bool
	// Unsent: nothing was posted, so that it says nothing about the receiver.
	Unsent bool
	// OK: the receiver took it.
	OK bool
	// Gone: the receiver answered 410. Permanent: trying again is pointless.
	Gone, Permanent bool
	RetryAfter      time.Duration
	HTTPStatus      int
	Error           string
	Response        string
	At              time.Time
	Duration        time.Duration
	// Task is the message that was to be delivered, if it could be read.
	Task *kafka.Message
}

// Effect is what has to be made durable, all of it, before Finished may be
// committed.
type Effect struct {
	// Attempts and Dead come before the states of deliveries, which say that they were made.
	Attempts []event.WebhookAttempt
	Dead     []DeadLetter
	States   []State
	// Finished are offsets of tasks whose effects these are.
	Finished []int64
}

// Empty reports whether there is nothing to do.
func (e *Effect) Empty() bool {
	return len(e.States)+len(e.Attempts)+len(e.Dead)+len(e.Finished) == 0
}

// SplitStates returns the states of endpoints, which nothing has to precede, and the others.
func (e *Effect) SplitStates() (endpoints, others []State) {
	for _, s := range e.States {
		if strings.Contains(s.Key, "/") {
			others = append(others, s)
		} else {
			endpoints = append(endpoints, s)
		}
	}
	return endpoints, others
}

// State is a message for the topic of states: one of a delivery, of an endpoint, of
// the partition, or, with none of them, the tombstone of a key.
type State struct {
	Key      string
	Delivery *event.DeliveryState
	Endpoint *event.EndpointState
	Taken    *event.WebhookTaken
}

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	State event.DeliveryState
	// LastError is the class of the last failure; empty without one.
	LastError string
	// Task is the message; nil when it has to be read at State.Offset.
	Task   *kafka.Message
	reason string
}

// Code is the short name of why.
func (d *DeadLetter) Code() string { return d.State.Error }

// Reason says why, for people.
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

// Codes of what is given up, beside the classes of the last failure.
const (
	CodeExhausted = "exhausted"
	CodeExpired   = "expired"
	CodeStopped   = "endpoint_stopped"
	CodeGone      = "gone"
)
