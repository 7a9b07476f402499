package event

import (
	"errors"
	"fmt"
	"time"
)

// CloudEvents types of erasure.
const (
	TypeSuppression    = "io.muster.erasure.v1.suppression"
	TypeErasureRequest = "io.muster.erasure.v1.request"
)

// ErasureAction is the action of an erasure event.
type ErasureAction string

// Actions.
const (
	ErasureRequested ErasureAction = "requested"
	ErasureWithdrawn ErasureAction = "withdrawn"
	// ErasureSuppressed means that the people are suppressed: readers do not return them.
	ErasureSuppressed ErasureAction = "suppressed"
	// ErasureNotified means that organizations that had received records of the people are notified. It has no request
	// id: it is about all requests with its RequestedAt.
	ErasureNotified ErasureAction = "notified"
	// ErasureDeleted means that their stored data is physically deleted, and that this was verified.
	ErasureDeleted ErasureAction = "deleted"
)

// ErasureExempted is the status of an identifier whose people must not be erased: it gets no suppression
// entry.
const ErasureExempted = 2

// Erasure is one event of the erasure log, on TopicErasureRequest with its request id as key. The log is
// never rewritten and has no personal data: identifiers are hashes of package suppress.
type Erasure struct {
	RequestID string        `json:"request_id"`
	Action    ErasureAction `json:"action"`
	At        time.Time     `json:"at"`
	// RequestedAt is the version of the request.
	RequestedAt string `json:"requested_at,omitempty"`
	Scope       string `json:"scope,omitempty"`
	// Identifiers are set for requests and withdrawals.
	Identifiers []ErasureIdentifier `json:"identifiers,omitempty"`
	// By is the requester, Via the channel (command, file, http, drop), Place the position in it.
	By    string `json:"by,omitempty"`
	Via   string `json:"via,omitempty"`
	Place string `json:"place,omitempty"`
	Note  string `json:"note,omitempty"`
	// Urgent requests immediate deletion.
	Urgent bool `json:"urgent,omitzero"`
	// Removed counts deletions by place.
	Removed map[string]int64 `json:"removed,omitempty"`
	// Notified are the IDs of organizations that are notified, Unreachable those that have no endpoint for events.
	Notified    []string `json:"notified,omitempty"`
	Unreachable []string `json:"unreachable,omitempty"`
	// Released are the withdrawn work items of deletion lists.
	Released []string `json:"released,omitempty"`
}

// ErasureIdentifier is an identifier: its type and suppression hash.
type ErasureIdentifier struct {
	Type string `json:"type"`
	Hash string `json:"hash"`
	// Ref is the work item of a deletion list, Status its result, which is reported to the platform (package suppress).
	Ref    string `json:"ref,omitempty"`
	Status int    `json:"status,omitzero"`
}

// Validate returns an error if the event is invalid.
func (e *Erasure) Validate() error {
	switch {
	case e.Action == ErasureNotified && e.RequestedAt == "":
		return errors.New("erasure event about receivers without requested_at")
	case e.RequestID == "" && e.Action != ErasureNotified:
		return errors.New("erasure event without request_id")
	case e.Action == "":
		return fmt.Errorf("erasure event %s without action", e.RequestID)
	case e.At.IsZero():
		return fmt.Errorf("erasure event %s without at", e.RequestID)
	}
	return nil
}
