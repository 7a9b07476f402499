package event

import (
	"errors"
	"fmt"
	"strconv"

	"muster/schemas/record"
)

// TypeAnswerTask is the CloudEvents type of a touch.
const TypeAnswerTask = "io.muster.answer.v1.task"

// AnswerTask is a touch: the rows from which the answer of an account is built have changed. It travels on
// TopicAnswerTask under [AnswerTask.MessageKey], and on TopicLargeAnswerTask if the account is large.
type AnswerTask struct {
	Kind record.Kind `json:"kind"` // codehost-person
	ID   string      `json:"id"`   // user_id in decimal
	// Version is the newest version of the rows that have changed. A build that reads older rows only has read a
	// replica that lags behind.
	Version int64 `json:"version"`
	// Of a touch that was handed on to TopicLargeAnswerTask: where it stood.
	Generation uint32 `json:"generation,omitzero"`
	Partition  int    `json:"partition,omitzero"`
	Offset     int64  `json:"offset,omitzero"`
}

// MessageKey is the Kafka key.
func (t AnswerTask) MessageKey() string { return string(t.Kind) + "/" + t.ID }

// Account is the user id.
func (t AnswerTask) Account() (int64, error) {
	id, err := strconv.ParseInt(t.ID, 10, 64)
	if err != nil || id < 0 {
		return 0, errors.New("id: is no user id")
	}
	return id, nil
}

// Validate says what is wrong with a touch.
func (t AnswerTask) Validate() error {
	if t.Kind != record.KindCodehostPerson {
		return fmt.Errorf("kind: %q has no answers", t.Kind)
	}
	_, err := t.Account()
	return err
}
