package event

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// CloudEvents types of discovery.
const (
	TypeDiscoveryTask = "io.muster.discovery.v1.task"
	TypeDiscovery     = "io.muster.discovery.v1.result"
)

// DiscoveryThreshold is the minimum calibrated confidence of returned profiles (interface.md, Discovery
// behaviour, rule 5).
const DiscoveryThreshold = 0.45

// DiscoveryBudget is the default time limit of a discovery call, from request to response.
const DiscoveryBudget = 20 * time.Second

// Stages of discovery, as X-Degraded names them (rulings.md, Discovery).
const (
	StageInput         = "input"
	StageKnownLinks    = "known_links"
	StageCodeHost      = "code_host"
	StageWebSearch     = "web_search"
	StageLanguageModel = "language_model"
)

// Account is a profile: a platform, and the username there as given.
type Account struct {
	Platform string `json:"platform"`
	Username string `json:"username"`
}

// DiscoveryTask requests the other profiles of a person, or, with Query, the people that the query may describe. It is
// on TopicDiscoveryTask with the key of the account or query, so that the same worker receives equal inputs from
// several replicas.
type DiscoveryTask struct {
	RequestID string  `json:"request_id"`
	Input     Account `json:"input,omitzero"`
	// Query is set instead of Input; its result is an [Identification].
	Query       *PersonQuery `json:"query,omitempty"`
	RequestedAt time.Time    `json:"requested_at"`
	// Deadline is when the caller stops waiting. Later tasks are still executed, for the next caller, unless
	// they are older than DiscoveryTaskAge.
	Deadline time.Time `json:"deadline"`
}

// DiscoveryTaskAge is how long after its deadline a task is executed.
const DiscoveryTaskAge = 10 * time.Minute

// Validate returns an error if the task is invalid.
func (t *DiscoveryTask) Validate() error {
	switch {
	case t.RequestID == "":
		return errors.New("discovery task without request_id")
	case t.Query != nil && t.Input != (Account{}):
		return fmt.Errorf("discovery task %s with input and query", t.RequestID)
	case t.Query != nil && !t.Query.IsSelective():
		return fmt.Errorf("discovery task %s with a query without name, address and phone", t.RequestID)
	case t.Query == nil && (t.Input.Platform == "" || t.Input.Username == ""):
		return fmt.Errorf("discovery task %s without input", t.RequestID)
	case t.RequestedAt.IsZero() || t.Deadline.IsZero():
		return fmt.Errorf("discovery task %s without requested_at or deadline", t.RequestID)
	}
	return nil
}

// Discovery is the result of a task, on TopicDiscovery with the task's key.
type Discovery struct {
	RequestID string  `json:"request_id"`
	Input     Account `json:"input"`
	// At is when the task was completed.
	At time.Time `json:"at"`
	// Socials begin with the input, with confidence 1. The others are the best match of each platform, at
	// least DiscoveryThreshold.
	Socials []Social `json:"socials"`
	// BelowConfidence reports that a profile was left out because its confidence is too low.
	BelowConfidence bool `json:"below_confidence,omitempty"`
	// Degraded names the stages without a complete result.
	Degraded []string `json:"degraded,omitempty"`
	// Versions are the versions of evidence model, calibration, and language model with prompt.
	Versions map[string]string `json:"versions,omitempty"`
}

// Social is one profile of a [Discovery].
type Social struct {
	Account
	// Identity is the platform's stable id of the account, if known: usernames may move to other accounts.
	Identity string `json:"identity,omitempty"`
	// Confidence is the calibrated probability that it is the same person; Raw is the uncalibrated one.
	Confidence float64 `json:"confidence"`
	Raw        float64 `json:"raw,omitempty"`
	// Context is a summary of the profile; nil if there is no data.
	Context  *string    `json:"context"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one reason for or against two profiles belonging to one person.
type Evidence struct {
	// Kind is what was compared, such as link, name, username, employer.
	Kind string `json:"kind"`
	// Finding is the comparison level, such as mutual, one_way, exact, similar, different.
	Finding string `json:"finding"`
	// Weight is the match weight: the base-2 logarithm of how much more frequent the finding is for the same
	// person than for different people. Negative values are evidence against.
	Weight float64 `json:"weight"`
}

// Validate returns an error if the event is invalid.
func (d *Discovery) Validate() error {
	switch {
	case d.RequestID == "":
		return errors.New("discovery event without request_id")
	case d.Input.Platform == "" || d.Input.Username == "":
		return fmt.Errorf("discovery event %s without input", d.RequestID)
	case d.At.IsZero():
		return fmt.Errorf("discovery event %s without at", d.RequestID)
	case len(d.Socials) == 0:
		return fmt.Errorf("discovery event %s without socials", d.RequestID)
	}
	for _, s := range d.Socials {
		if s.Confidence < 0 || s.Confidence > 1 || s.Platform == "" || s.Username == "" {
			return fmt.Errorf("discovery event %s with a malformed profile", d.RequestID)
		}
	}
	return nil
}

// Found reports whether there are profiles other than the input.
func (d *Discovery) Found() bool { return len(d.Socials) > 1 }

// Complete reports whether all stages completed.
func (d *Discovery) Complete() bool { return len(d.Degraded) == 0 }

// Degrade adds a stage without a complete result.
func (d *Discovery) Degrade(stage string) {
	if !slices.Contains(d.Degraded, stage) {
		d.Degraded = append(d.Degraded, stage)
	}
}
