package ingest

import (
	"errors"
	"fmt"
)

// Exit statuses of `muster ingest`. Zero means that every record was published.
const (
	// ExitRejected means that all input was read and some records were rejected.
	ExitRejected = 1
	// ExitFailed means that the run could not start, was interrupted, or could not read an input to its end.
	ExitFailed = 2
)

// ExitError is the outcome of a run that did not publish every record.
type ExitError struct {
	// Code is ExitRejected or ExitFailed.
	Code int
	// Err is the reason. With ExitRejected it states how many records were rejected.
	Err error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit status for the program.
func (e *ExitError) ExitCode() int { return e.Code }

// joinError returns outcome joined with err as an [ExitError], or outcome if err is nil.
func joinError(op string, outcome, err error) error {
	if err == nil {
		return outcome
	}
	return newExitError(op, errors.Join(outcome, err))
}

func newExitError(op string, err error) *ExitError {
	return &ExitError{Code: ExitFailed, Err: fmt.Errorf("%s: %w", op, err)}
}
