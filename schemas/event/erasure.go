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

// ErasureAction says what an event of the log of erasures tells.
type ErasureAction string

// Actions.
const (
	ErasureRequested ErasureAction = "requested"
	ErasureWithdrawn ErasureAction = "withdrawn"
	// ErasureMasked: whoever is meant is found and no reader sees them any more.
	ErasureMasked ErasureAction = "masked"
	// ErasureRemoved: what was stored of them is physically gone, and was looked for.
	ErasureRemoved ErasureAction = "removed"
)

// ErasureExempted is the status of an identifier whose people are not to be erased: it
// gets no entry in the suppression set.
const ErasureExempted = 2

// Erasure is one event of the log of erasures, on TopicErasureRequest under its
// request id. The log is never rewritten and names nobody: identifiers are hashes of
// package suppress.
type Erasure struct {
	RequestID string        `json:"request_id"`
	Action    ErasureAction `json:"action"`
	At        time.Time     `json:"at"`
	// RequestedAt is the version that the request gave.
	RequestedAt string `json:"requested_at,omitempty"`
	Scope       string `json:"scope,omitempty"`
	// Identifiers are of a request, or of a withdrawal.
	Identifiers []ErasureIdentifier `json:"identifiers,omitempty"`
	// By is who asked, Via the way in (command, file, http, drop), Place where in it.
	By    string `json:"by,omitempty"`
	Via   string `json:"via,omitempty"`
	Place string `json:"place,omitempty"`
	Note  string `json:"note,omitempty"`
	// Urgent asks for what is stored to be removed at once.
	Urgent bool `json:"urgent,omitzero"`
	// Removed counts what was removed, by where it was.
	Removed map[string]int64 `json:"removed,omitempty"`
	// Released are the work items of deletion lists that were withdrawn.
	Released []string `json:"released,omitempty"`
}

// ErasureIdentifier names an identifier by type and suppression hash.
type ErasureIdentifier struct {
	Type string `json:"type"`
	Hash string `json:"hash"`
	// Ref is the work item of a deletion list that it came from, Status what it was
	// found to mean when it came: what is reported to the platform (package drop).
	Ref    string `json:"ref,omitempty"`
	Status int    `json:"status,omitzero"`
}

// Validate reports what makes the event unusable.
func (e *Erasure) Validate() error {
	switch {
	case e.RequestID == "":
		return errors.New("erasure event without request_id")
	case e.Action == "":
		return fmt.Errorf("erasure event %s without action", e.RequestID)
	case e.At.IsZero():
		return fmt.Errorf("erasure event %s without at", e.RequestID)
	}
	return nil
}
