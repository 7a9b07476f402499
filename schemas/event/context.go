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
	// ContextKept is how long a profile can be fetched, and how long a task is tried.
	ContextKept = 24 * time.Hour
	// MaxContextProfile bounds a profile, in bytes: it fits a webhook.
	MaxContextProfile = 768 << 10
	// MaxPersonDepth is how deep objects and lists of a person may be nested, and
	// MaxPersonValues how many values they may have in all.
	MaxPersonDepth  = 32
	MaxPersonValues = 200_000
)

// CheckPerson says why a person is not worked on, in words that follow "person": it has
// too many values, or they are nested too deeply.
func CheckPerson(person jsontext.Value) error {
	d := jsontext.NewDecoder(bytes.NewReader(person), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
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
			return fmt.Errorf("is nested more than %d levels deep: send it flatter", MaxPersonDepth)
		case values > MaxPersonValues:
			return fmt.Errorf("has more than %d values: send fewer", MaxPersonValues)
		}
	}
}

// ContextCall is what has to be known of a call to answer, deliver and charge it
// later, by whichever process.
type ContextCall struct {
	RequestID      string `json:"request_id"`
	OrganizationID string `json:"organization_id"`
	KeyID          string `json:"key_id"`
	Plan           string `json:"plan,omitempty"`
	// Price is what a whole profile costs, in credits.
	Price       int64     `json:"price"`
	RequestedAt time.Time `json:"requested_at"`
	// RespondBy is when the call ends without the profile. What is ready later goes to
	// WebhookURL.
	RespondBy  time.Time `json:"respond_by"`
	WebhookURL string    `json:"webhook_url,omitempty"`
	// Process names the process that answers the call.
	Process string `json:"process"`
}

// Validate reports what makes the call unusable.
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

// ContextTask asks for a profile, on TopicContextTask under its request id.
type ContextTask struct {
	Call ContextCall `json:"call"`
	// Person is what the caller sent: a string or an object. It is hostile.
	Person jsontext.Value `json:"person"`
	// Schema is the caller's, package custom reads it; empty: none.
	Schema jsontext.Value `json:"schema,omitzero"`
	// Confidence is the least confidence of what is returned.
	Confidence float64 `json:"confidence"`
}

// Validate reports what makes the task unusable.
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

// ContextStatus says how far a call is.
type ContextStatus string

// Statuses of a context call.
const (
	ContextProcessing ContextStatus = "processing"
	ContextComplete   ContextStatus = "complete"
	ContextFailed     ContextStatus = "failed"
)

// Context is how far a call is, on TopicContext under its request id: first that it
// was accepted, then what came of it. The latter may come more than once.
type Context struct {
	Call   ContextCall   `json:"call"`
	Status ContextStatus `json:"status"`
	At     time.Time     `json:"at"`
	// Profile is the answer of a complete call.
	Profile jsontext.Value `json:"profile,omitzero"`
	// Empty profiles hold nothing but nulls, and are free.
	Empty bool `json:"empty,omitempty"`
	// Degraded names the stages that gave no answer: the profile is not whole, and
	// free.
	Degraded []string `json:"degraded,omitempty"`
	// Failure is that of a failed call.
	Failure *ContextFailure `json:"failure,omitzero"`
	// Delivered says that the worker has handed the outcome to the webhook-sender.
	Delivered bool `json:"delivered,omitempty"`
	// Identities are the records that were used, as "<kind> <identity>".
	Identities []string `json:"identities,omitempty"`
	// Versions of what decided: evidence model, language model.
	Versions map[string]string `json:"versions,omitempty"`
}

// ContextFailure is why there is no profile.
type ContextFailure struct {
	// Status is that of the HTTP answer, Detail is meant for the caller.
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Delivery is the webhook that brings the outcome to the call's receiver: the profile, or
// what a failure tells. Its id is the request's (rulings.md, Context).
func (c *Context) Delivery(now time.Time) (*WebhookTask, error) {
	body := []byte(c.Profile)
	if c.Status == ContextFailed {
		var err error
		if body, err = json.Marshal(map[string]string{"detail": c.Failure.Detail}); err != nil {
			return nil, fmt.Errorf("write the failure of context call %s: %w", c.Call.RequestID, err)
		}
	}
	return &WebhookTask{
		DeliveryID: c.Call.RequestID, OrganizationID: c.Call.OrganizationID, URL: c.Call.WebhookURL, RequestID: c.Call.RequestID,
		Body: body, Degraded: c.Degraded, Identities: c.Identities, CreatedAt: now.UTC(),
	}, nil
}

// Validate reports what makes the event unusable.
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

// Credits is what the call is charged (rulings.md, Accounts, limits and charges).
func (c *Context) Credits() int64 {
	if c.Status != ContextComplete || c.Empty || len(c.Degraded) > 0 {
		return 0
	}
	return c.Call.Price
}
