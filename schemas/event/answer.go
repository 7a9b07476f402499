package event

import (
	"errors"
	"fmt"
	"strconv"

	"muster/schemas/record"
)

// TypeAnswerTask is the CloudEvents type of a touch.
const TypeAnswerTask = "io.muster.answer.v1.task"

// AnswerTask is a touch: rows of an identity have changed. It is published to TopicAnswerTask with the key
// [AnswerTask.MessageKey]. Accounts of code hosts are touched when source rows of their answers change, and also on
// TopicLargeAnswerTask if they are large; network people and companies are touched for the search index, network people
// and account-links for the linked accounts of people.
type AnswerTask struct {
	Kind record.Kind `json:"kind"` // codehost-person, network-person, network-company or account-link
	// ID is the user_id in decimal, the profile_id, the company_id, or the network username that the link names, in its
	// comparison form.
	ID string `json:"id"`
	// Version is the newest version of the changed rows. A build that read older rows only has used a replica
	// that lags behind.
	Version int64 `json:"version"`
	// Built: the answer of the account was built, so that the linked accounts of people are to be read again. Such a
	// touch requests no build.
	Built bool `json:"built,omitzero"`
	// Linking, of a person: the linked account is about to be written or deleted. It is to be read again, and the person
	// to be touched with IndexOnly then, also by another process than the writer. The search sink ignores such a touch.
	// Of an account: people may be linked with it. Once the builds that were requested before are done, the builder
	// touches it with Built. Such a touch requests no build.
	Linking bool `json:"linking,omitzero"`
	// IndexOnly: only the document in the search index is to be written, since the linked account was written, or cannot
	// have changed. Such a touch requests no refresh of linked accounts.
	IndexOnly bool `json:"index_only,omitzero"`
	// Bump: the touch is of a version bump, which may be projected before its record.
	Bump bool `json:"bump,omitzero"`
	// Position of a touch that was forwarded to TopicLargeAnswerTask.
	Generation uint32 `json:"generation,omitzero"`
	Partition  int    `json:"partition,omitzero"`
	Offset     int64  `json:"offset,omitzero"`
}

// MessageKey returns the Kafka key.
func (t AnswerTask) MessageKey() string { return string(t.Kind) + "/" + t.ID }

// Account returns the user id.
func (t AnswerTask) Account() (int64, error) {
	id, err := strconv.ParseInt(t.ID, 10, 64)
	if err != nil || id < 0 {
		return 0, errors.New("id: is not a user id")
	}
	return id, nil
}

// Validate returns an error if the touch is invalid.
func (t AnswerTask) Validate() error {
	switch t.Kind {
	case record.KindNetworkPerson, record.KindNetworkCompany, record.KindAccountLink:
		if t.ID == "" {
			return errors.New("id: is empty")
		}
		return nil
	case record.KindCodehostPerson:
		_, err := t.Account()
		return err
	}
	return fmt.Errorf("kind: %q has no answers", t.Kind)
}
