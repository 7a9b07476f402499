package event

import "time"

// Resubmitted marks dead letters or rejected records as resubmitted by an operator. It is published to the
// topic of the entries, with the CloudEvents type TypeResubmitted, so that readers of the entries see it and
// both have the same retention.
type Resubmitted struct {
	// Run is the id of the resubmission.
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// Offsets are the offsets of the entries, by partition.
	Offsets map[int][]int64 `json:"offsets"`
}
