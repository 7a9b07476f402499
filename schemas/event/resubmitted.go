package event

import "time"

// Resubmitted marks letters of a topic, rejected records or dead letters, that an
// operator has given back to the platform. It stands on the letters' own topic,
// under CloudEvents type TypeResubmitted, so that whoever reads the letters knows
// and both are kept equally long.
type Resubmitted struct {
	// Run is the id of the resubmission.
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// Offsets are those of the letters, by partition.
	Offsets map[int][]int64 `json:"offsets"`
}
