package event

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CloudEvents types of the context endpoint.
const (
	TypeContextTask = "io.muster.context.v1.task"
	TypeContext     = "io.muster.context.v1.state"
)

// Defaults and bounds of a context call (interface.md, Limits; rulings.md, Context).
const (
	ContextConfidence = 0.9
	ContextTimeout    = 30 * time.Second
	MaxContextTimeout = 120 * time.Second
	// ContextRetention is how long a profile can be fetched, and how long a task is retried.
	ContextRetention = 24 * time.Hour
	// MaxContextProfile is the maximum size of a profile in bytes, so that it fits a webhook.
	MaxContextProfile = 768 << 10
	// MaxPersonDepth is the maximum nesting depth of a person, MaxPersonValues the maximum number of values.
	MaxPersonDepth  = 32
	MaxPersonValues = 200_000
)

// CheckPerson returns an error, phrased to follow "person", if person has too many values or is nested too
// deeply.
func CheckPerson(person jsontext.Value) error {
	d := jsontext.NewDecoder(bytes.NewReader(person), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	for values := 0; ; {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("is not valid JSON: %w", err)
		}
		depth := d.StackDepth()
		switch kind := t.Kind(); kind {
		case '}', ']':
			continue
		case '{', '[':
			depth--
		default:
			if in, n := d.StackIndex(depth); in == '{' && n%2 == 1 {
				continue // a name
			}
		}
		switch values++; {
		case depth > MaxPersonDepth:
			return fmt.Errorf("is nested more than %d levels deep: reduce the nesting", MaxPersonDepth)
		case values > MaxPersonValues:
			return fmt.Errorf("has more than %d values: send fewer", MaxPersonValues)
		}
	}
}

// ContextCall is the state of a call that any process needs to answer, deliver and charge it later.
type ContextCall struct {
	RequestID      string `json:"request_id"`
	OrganizationID string `json:"organization_id"`
	KeyID          string `json:"key_id"`
	Plan           string `json:"plan,omitempty"`
	// Price is the price of a complete profile, in credits.
	Price       int64     `json:"price"`
	RequestedAt time.Time `json:"requested_at"`
	// RespondBy is when the call ends without the profile. A later result is sent to WebhookURL.
	RespondBy  time.Time `json:"respond_by"`
	WebhookURL string    `json:"webhook_url,omitempty"`
	// Process identifies the process that answers the call.
	Process string `json:"process"`
}

// Validate returns an error if the call is invalid.
func (c *ContextCall) Validate() error {
	switch {
	case !ValidDeliveryID(c.RequestID):
		return errors.New("context call without a valid request_id")
	case c.OrganizationID == "" || c.KeyID == "":
		return fmt.Errorf("context call %s without organization_id or key_id", c.RequestID)
	case c.RequestedAt.IsZero() || c.RespondBy.IsZero():
		return fmt.Errorf("context call %s without requested_at or respond_by", c.RequestID)
	case c.Price < 0:
		return fmt.Errorf("context call %s with a negative price", c.RequestID)
	}
	return nil
}

// ContextTask requests a profile, on TopicContextTask with its request id as key.
type ContextTask struct {
	Call ContextCall `json:"call"`
	// Person is the caller's input, a string or an object. It is untrusted.
	Person jsontext.Value `json:"person"`
	// Schema is the caller's JSON Schema (package customfield); empty: none.
	Schema jsontext.Value `json:"schema,omitzero"`
	// Confidence is the minimum confidence of results.
	Confidence float64 `json:"confidence"`
}

// Validate returns an error if the task is invalid.
func (t *ContextTask) Validate() error {
	if err := t.Call.Validate(); err != nil {
		return err
	}
	switch {
	case t.Person.Kind() != '"' && t.Person.Kind() != '{':
		return fmt.Errorf("context task %s: person is neither a string nor an object", t.Call.RequestID)
	case t.Confidence < 0 || t.Confidence > 1:
		return fmt.Errorf("context task %s: confidence is not between 0 and 1", t.Call.RequestID)
	}
	return nil
}

// ContextStatus is the status of a call.
type ContextStatus string

// Statuses of a context call.
const (
	ContextProcessing ContextStatus = "processing"
	ContextComplete   ContextStatus = "complete"
	ContextFailed     ContextStatus = "failed"
)

// Context is the state of a call, on TopicContext with its request id as key: first accepted, then the
// outcome, which may be repeated.
type Context struct {
	Call   ContextCall   `json:"call"`
	Status ContextStatus `json:"status"`
	At     time.Time     `json:"at"`
	// Profile is the result of a completed call.
	Profile jsontext.Value `json:"profile,omitzero"`
	// Empty profiles contain only nulls and are free.
	Empty bool `json:"empty,omitempty"`
	// Degraded names the stages without a result: the profile is incomplete, and free.
	Degraded []string `json:"degraded,omitempty"`
	// Failure is set if the call failed.
	Failure *ContextFailure `json:"failure,omitzero"`
	// Delivered reports that the worker passed the outcome to the webhook-sender.
	Delivered bool `json:"delivered,omitempty"`
	// Identities are the records that were used, as "<kind> <identity>".
	Identities []string `json:"identities,omitempty"`
	// Versions are the versions of the evidence model and the language model.
	Versions map[string]string `json:"versions,omitempty"`
}

// ContextFailure is the reason why a call has no profile.
type ContextFailure struct {
	// Status is the HTTP status; Detail is addressed to the caller.
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Delivery returns the webhook with the outcome: the profile or the failure. Its id is the request's
// (rulings.md, Context).
func (c *Context) Delivery(now time.Time) (*WebhookTask, error) {
	body := []byte(c.Profile)
	if c.Status == ContextFailed {
		var err error
		if body, err = json.Marshal(map[string]string{"detail": c.Failure.Detail}); err != nil {
			return nil, fmt.Errorf("encode the failure of context call %s: %w", c.Call.RequestID, err)
		}
	}
	return &WebhookTask{
		DeliveryID: c.Call.RequestID, OrganizationID: c.Call.OrganizationID, URL: c.Call.WebhookURL,
		RequestID: c.Call.RequestID,
		Body:      body, Degraded: c.Degraded, Identities: c.Identities, CreatedAt: now.UTC(),
	}, nil
}

// Validate returns an error if the event is invalid.
func (c *Context) Validate() error {
	if err := c.Call.Validate(); err != nil {
		return err
	}
	switch {
	case c.At.IsZero():
		return fmt.Errorf("context event %s without at", c.Call.RequestID)
	case c.Status == ContextComplete && c.Profile.Kind() != '{':
		return fmt.Errorf("context event %s without a profile", c.Call.RequestID)
	case c.Status == ContextFailed && (c.Failure == nil || c.Failure.Status < 500 || c.Failure.Status > 599):
		return fmt.Errorf("context event %s without a failure", c.Call.RequestID)
	case c.Status != ContextProcessing && c.Status != ContextComplete && c.Status != ContextFailed:
		return fmt.Errorf("context event %s with the unknown status %q", c.Call.RequestID, c.Status)
	}
	return nil
}

// Credits returns the charge of the call (rulings.md, Accounts, limits and charges).
func (c *Context) Credits() int64 {
	if c.Status != ContextComplete || c.Empty || len(c.Degraded) > 0 {
		return 0
	}
	return c.Call.Price
}
