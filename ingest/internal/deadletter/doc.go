// Package deadletter reads rejected records and dead letters from their topics and tracks which of
// them an operator has resubmitted.
//
// Entries are read one at a time and not buffered, so that their number does not matter.
//
// # Guarantee
//
// [Scan] passes on every selected entry that is stored when it begins. An entry counts as
// resubmitted after [ResubmissionLog.Flush] has returned: a resubmission that is killed earlier may
// be repeated, which publishes the same records again.
package deadletter
