package event

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// TypeIdentification is the CloudEvents type of [Identification].
const TypeIdentification = "io.muster.discovery.v1.identification"

// MaxMatches is the maximum number of matches of an [Identification].
const MaxMatches = 20

// PersonQuery describes a person without an account. Texts are as given, Email is normalized
// (identity.NormalizeEmail).
type PersonQuery struct {
	Name     string `json:"name,omitzero"`
	Company  string `json:"company,omitzero"`
	School   string `json:"school,omitzero"`
	Location string `json:"location,omitzero"`
	Title    string `json:"title,omitzero"`
	Phone    string `json:"phone,omitzero"`
	Email    string `json:"email,omitzero"`
	// EmailHash is the SHA-256 or MD5 of a normalized e-mail address, in lower-case hexadecimal.
	EmailHash string `json:"email_hash,omitzero"`
	// MinConfidence is the minimum confidence of the matches.
	MinConfidence float64 `json:"min_confidence"`
}

// Key returns a key that is equal for equal queries. It is an unkeyed hash of personal data: do not log it.
func (q PersonQuery) Key() (string, error) {
	text, err := json.Marshal(q, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("encode query: %w", err)
	}
	sum := sha256.Sum256(text)
	return "identify:" + hex.EncodeToString(sum[:16]), nil
}

// IsSelective reports whether the query can find people: by name, e-mail address or its hash, or phone number. The
// other members only compare people.
func (q PersonQuery) IsSelective() bool {
	return q.Name != "" || q.Email != "" || q.EmailHash != "" || q.Phone != ""
}

// Identification is the result of a task with a query, on TopicDiscovery with the task's key. It is not projected.
type Identification struct {
	RequestID string    `json:"request_id"`
	At        time.Time `json:"at"`
	// Matches are the people that the query may describe, most likely first. Their confidences are at least the query's
	// minimum.
	Matches []PersonMatch `json:"matches"`
	// BelowConfidence reports that a person was left out because the confidence is too low.
	BelowConfidence bool `json:"below_confidence,omitempty"`
	// Degraded and Versions are those of [Discovery].
	Degraded []string          `json:"degraded,omitempty"`
	Versions map[string]string `json:"versions,omitempty"`
}

// PersonMatch is a person that a query may describe.
type PersonMatch struct {
	// Confidence is the calibrated probability that the query describes this person; Raw is the uncalibrated one.
	Confidence float64 `json:"confidence"`
	Raw        float64 `json:"raw"`
	// Accounts are the person's accounts, at most one per platform. The first one was compared with the query; the
	// confidence of the others is that of the link between them.
	Accounts []Social      `json:"accounts"`
	Profile  PersonSummary `json:"profile"`
	Evidence []Evidence    `json:"evidence,omitempty"`
}

// PersonSummary is a short profile. It has no e-mail addresses.
type PersonSummary struct {
	FullName string `json:"full_name,omitzero"`
	Headline string `json:"headline,omitzero"`
	Title    string `json:"title,omitzero"`
	Company  string `json:"company,omitzero"`
	School   string `json:"school,omitzero"`
	Location string `json:"location,omitzero"`
}

// Validate returns an error if the event is invalid.
func (d *Identification) Validate() error {
	switch {
	case d.RequestID == "":
		return errors.New("identification without request_id")
	case d.At.IsZero():
		return fmt.Errorf("identification %s without at", d.RequestID)
	}
	for _, m := range d.Matches {
		if m.Confidence < 0 || m.Confidence > 1 || len(m.Accounts) == 0 {
			return fmt.Errorf("identification %s with a malformed match", d.RequestID)
		}
		for _, a := range m.Accounts {
			if a.Platform == "" || a.Username == "" {
				return fmt.Errorf("identification %s with a malformed account", d.RequestID)
			}
		}
	}
	return nil
}

// Complete reports whether all stages completed.
func (d *Identification) Complete() bool { return len(d.Degraded) == 0 }

// Degrade adds a stage without a complete result.
func (d *Identification) Degrade(stage string) {
	if !slices.Contains(d.Degraded, stage) {
		d.Degraded = append(d.Degraded, stage)
	}
}
