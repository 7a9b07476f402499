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

// DiscoveryThreshold is the calibrated confidence below which a discovered
// profile is not returned (interface.md, Discovery behaviour, rule 5).
const DiscoveryThreshold = 0.45

// DiscoveryBudget is the time that a discovery call may take by default, from
// the request to the answer.
const DiscoveryBudget = 20 * time.Second

// Stages of discovery, as X-Degraded names them (rulings.md, Discovery).
const (
	StageInput         = "input"
	StageKnownLinks    = "known_links"
	StageCodeHost      = "code_host"
	StageWebSearch     = "web_search"
	StageLanguageModel = "language_model"
)

// Account names a profile: a platform, and the username there as it is written.
type Account struct {
	Platform string `json:"platform"`
	Username string `json:"username"`
}

// DiscoveryTask asks for the other profiles of a person, on TopicDiscoveryTask
// under the account's key: so that equal inputs of several replicas come to the
// same worker.
type DiscoveryTask struct {
	RequestID   string    `json:"request_id"`
	Input       Account   `json:"input"`
	RequestedAt time.Time `json:"requested_at"`
	// Deadline is when the caller goes away. A task that is found later is still
	// worked on, for the next caller, unless it is older than DiscoveryTaskAge.
	Deadline time.Time `json:"deadline"`
}

// DiscoveryTaskAge is how long after its deadline a task is worth doing.
const DiscoveryTaskAge = 10 * time.Minute

// Validate reports what makes the task unusable.
func (t *DiscoveryTask) Validate() error {
	switch {
	case t.RequestID == "":
		return errors.New("discovery task without request_id")
	case t.Input.Platform == "" || t.Input.Username == "":
		return fmt.Errorf("discovery task %s without input", t.RequestID)
	case t.RequestedAt.IsZero() || t.Deadline.IsZero():
		return fmt.Errorf("discovery task %s without requested_at or deadline", t.RequestID)
	}
	return nil
}

// Discovery is what came of a task, on TopicDiscovery under the task's key.
type Discovery struct {
	RequestID string  `json:"request_id"`
	Input     Account `json:"input"`
	// At is when the work was finished.
	At time.Time `json:"at"`
	// Socials begin with the input, whose confidence is 1. The others are the
	// best of each platform, DiscoveryThreshold at least.
	Socials []Social `json:"socials"`
	// Degraded names the stages that gave no answer, or not a whole one.
	Degraded []string `json:"degraded,omitempty"`
	// Versions of what decided: evidence model, calibration, language model with prompt.
	Versions map[string]string `json:"versions,omitempty"`
}

// Social is one profile of a [Discovery].
type Social struct {
	Account
	// Identity is the platform's stable id of the account, when it is known:
	// usernames may move to others.
	Identity string `json:"identity,omitempty"`
	// Confidence is the calibrated probability that it is the same person, Raw
	// what it was made of.
	Confidence float64 `json:"confidence"`
	Raw        float64 `json:"raw,omitempty"`
	// Context sums the profile up; nil when nothing is known of it.
	Context  *string    `json:"context"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one reason for, or against, that two profiles are one person's.
type Evidence struct {
	// Kind says what was compared, such as link, name, username, employer.
	Kind string `json:"kind"`
	// Finding is what came of it, such as mutual, one_way, exact, similar, different.
	Finding string `json:"finding"`
	// Weight is the logarithm to base 2 of how much more often the finding is seen
	// of the same person than of another one: negative speaks against.
	Weight float64 `json:"weight"`
}

// Validate reports what makes the event unusable.
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

// Found reports whether there is more than the input.
func (d *Discovery) Found() bool { return len(d.Socials) > 1 }

// Complete reports whether every stage has answered.
func (d *Discovery) Complete() bool { return len(d.Degraded) == 0 }

// Degrade adds a stage to those that gave no whole answer.
func (d *Discovery) Degrade(stage string) {
	if !slices.Contains(d.Degraded, stage) {
		d.Degraded = append(d.Degraded, stage)
	}
}
