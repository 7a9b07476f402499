package event

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Limits of webhook deliveries.
const (
	// MaxWebhookURL is the maximum length of an endpoint's address in bytes.
	MaxWebhookURL = 2048
	// MaxWebhookBody is the maximum size of a body in bytes; in base64 it fits a message.
	MaxWebhookBody = 1 << 20
	// MaxDeliveryID is the maximum length of a delivery id in bytes.
	MaxDeliveryID = 128
)

// CloudEvents types of what concerns webhooks.
const (
	TypeWebhookTask     = "io.muster.webhook.v1.deliver"
	TypeWebhookResume   = "io.muster.webhook.v1.resume"
	TypeWebhookAttempt  = "io.muster.webhook.v1.attempted"
	TypeWebhookDelivery = "io.muster.webhook.v1.delivery-state"
	TypeWebhookEndpoint = "io.muster.webhook.v1.endpoint-state"
	TypeWebhookTaken    = "io.muster.webhook.v1.taken-state"
)

// Endpoint is a receiver of one organization's webhooks: an address without its query. On every topic an
// endpoint's messages are keyed by its ID, so that one replica of the webhook-sender owns its breaker,
// concurrency limit, schedule and stop.
type Endpoint struct {
	OrganizationID string
	// Address is scheme, host, port and path: case-insensitive parts in lower case, the port always explicit.
	Address string
}

// ParseEndpoint returns the endpoint of an organization's address. The error explains the problem and its fix
// without repeating the address. Plain http is accepted here; the sender rejects it for addresses that its
// operator has not allowed.
func ParseEndpoint(organization, address string) (Endpoint, error) {
	fail := func(reason string) (Endpoint, error) { return Endpoint{}, errors.New("webhook address " + reason) }
	switch {
	case organization == "":
		return fail("without organization")
	case address == "":
		return fail("is empty")
	case len(address) > MaxWebhookURL:
		return fail(fmt.Sprintf("is longer than %d bytes", MaxWebhookURL))
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("is not a URL") // The error would contain the address.
	}
	port := u.Port()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fail("must begin with https://")
	case u.User != nil:
		return fail("must not carry a user name or password")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return fail("must not have a fragment (#...)")
	case u.Opaque != "" || u.Hostname() == "":
		return fail("has no host")
	case strings.HasSuffix(u.Host, ":"):
		return fail("has an empty port")
	}
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fail("has a port that is not 1 to 65535")
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return Endpoint{OrganizationID: organization, Address: u.Scheme + "://" + host + ":" + port + path}, nil
}

// ID returns the endpoint's id, its Kafka key, which does not reveal the address.
func (e Endpoint) ID() string {
	sum := sha256.Sum256([]byte(e.OrganizationID + "\x00" + e.Address))
	id := [3 + 32]byte{'e', 'p', '_'}
	hex.Encode(id[3:], sum[:16])
	return string(id[:])
}

// WebhookTask requests one delivery, on TopicWebhookTask with the ID of its endpoint as key. It contains no
// secrets: the sender reads those from TopicAccount.
type WebhookTask struct {
	// DeliveryID is the webhook-id (rulings.md, Context: the request_id). Tasks with
	// the same id are one delivery.
	DeliveryID     string `json:"delivery_id"`
	OrganizationID string `json:"organization_id"`
	// URL is the complete address, including the query.
	URL string `json:"url"`
	// RequestID is the id of the API call that caused the delivery.
	RequestID string `json:"request_id,omitempty"`
	// Body is sent unchanged.
	Body []byte `json:"body"`
	// Degraded names the stages missing in Body, sent as X-Degraded.
	Degraded []string `json:"degraded,omitempty"`
	// Identities are the source records of the body, as "<kind> <identity>". The delivery is canceled if one
	// of them is erased, even if the body does not identify the person.
	Identities []string  `json:"identities,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	// Round identifies the request to resend a delivery; empty for the first round.
	Round string `json:"round,omitempty"`
}

// ValidDeliveryID reports whether id can be a webhook-id: 1 to 128 letters, digits, _ and -. A dot is
// excluded, since it separates the signed parts.
func ValidDeliveryID(id string) bool {
	if id == "" || len(id) > MaxDeliveryID {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}

// Endpoint returns the endpoint of the delivery.
func (t *WebhookTask) Endpoint() (Endpoint, error) { return ParseEndpoint(t.OrganizationID, t.URL) }

// Validate returns an error if the task is invalid.
func (t *WebhookTask) Validate() error {
	_, err := t.Receiver()
	return err
}

// Receiver validates the task and returns its endpoint.
func (t *WebhookTask) Receiver() (Endpoint, error) {
	switch {
	case !ValidDeliveryID(t.DeliveryID):
		return Endpoint{}, errors.New("webhook task: delivery_id must be 1 to 128 letters, digits, _ and -")
	case t.CreatedAt.IsZero():
		return Endpoint{}, fmt.Errorf("webhook task %s: created_at is missing", t.DeliveryID)
	case len(t.Body) > MaxWebhookBody:
		return Endpoint{}, fmt.Errorf("webhook task %s: body of %d bytes, the limit is %d", t.DeliveryID, len(t.Body),
			MaxWebhookBody)
	case t.Round != "" && !ValidDeliveryID(t.Round):
		return Endpoint{}, fmt.Errorf("webhook task %s: round must be letters, digits, _ and -", t.DeliveryID)
	// Later versions may have other stages.
	case slices.ContainsFunc(t.Degraded, func(stage string) bool { return !ValidDeliveryID(stage) }):
		return Endpoint{}, fmt.Errorf("webhook task %s: degraded must name stages in letters, digits, _ and -",
			t.DeliveryID)
	}
	to, err := t.Endpoint()
	if err != nil {
		return Endpoint{}, fmt.Errorf("webhook task %s: url: %w", t.DeliveryID, err)
	}
	return to, nil
}

// Message returns the task as a message of TopicWebhookTask: its Kafka key, its value, and the id of its
// event.
func (t *WebhookTask) Message() (key, id string, value []byte, err error) {
	to, err := t.Receiver()
	if err != nil {
		return "", "", nil, err
	}
	if value, err = json.Marshal(t); err != nil {
		return "", "", nil, fmt.Errorf("encode webhook task: %w", err)
	}
	id = t.DeliveryID
	if t.Round != "" {
		id += "/" + t.Round
	}
	return to.ID(), id, value, nil
}

// WebhookResume resumes a stopped endpoint, on TopicWebhookTask with the endpoint's ID as key and the type
// TypeWebhookResume.
type WebhookResume struct {
	EndpointID string    `json:"endpoint_id"`
	At         time.Time `json:"at"`
}

// WebhookStatus is the status of a delivery.
type WebhookStatus string

// Statuses of a delivery.
const (
	WebhookPending   WebhookStatus = "pending"
	WebhookDelivered WebhookStatus = "delivered"
	WebhookDead      WebhookStatus = "dead" // retries exhausted; it is a dead letter
)

// DeliveryState is the durable state of a delivery, on TopicWebhookState with the key [DeliveryState.Key].
// The last one of a key wins; a tombstone deletes it.
type DeliveryState struct {
	DeliveryID     string        `json:"delivery_id"`
	EndpointID     string        `json:"endpoint_id"`
	OrganizationID string        `json:"organization_id"`
	Address        string        `json:"address"`
	RequestID      string        `json:"request_id,omitempty"`
	Round          string        `json:"round,omitempty"`
	Status         WebhookStatus `json:"status"`
	// Attempts counts the attempts of this round; NextAt is when the next is due.
	Attempts int       `json:"attempts"`
	NextAt   time.Time `json:"next_at,omitzero"`
	// Error and FirstFailure describe the attempts so far.
	Error        string    `json:"error,omitempty"`
	FirstFailure time.Time `json:"first_failure,omitzero"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	// Offset is the offset of the task, with the body, in the partition of TopicWebhookTask with the same
	// number.
	Offset int64 `json:"offset"`
}

// Key returns the Kafka key.
func (s *DeliveryState) Key() string { return s.EndpointID + "/" + s.DeliveryID }

// EndpointState is the durable state of an unhealthy endpoint, on TopicWebhookState with its EndpointID as
// key. A tombstone means that it is healthy.
type EndpointState struct {
	EndpointID     string `json:"endpoint_id"`
	OrganizationID string `json:"organization_id"`
	Address        string `json:"address"`
	// StoppedAt is when it responded 410: nothing is sent to it until it is resumed.
	StoppedAt time.Time `json:"stopped_at,omitzero"`
	// BlockedUntil is when its open breaker allows the next attempt.
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// WebhookLowWatermarkKey is the key of a partition's [WebhookLowWatermark]. Because of the slash, readers that do not
// know it take it for a finished delivery.
const WebhookLowWatermarkKey = "/taken"

// WebhookLowWatermark is the low watermark, on TopicWebhookState, of the partition of TopicWebhookTask with the same
// number: messages before it are finished. A consumer group that lost its offset, or whose log lost its end,
// skips them when they are delivered again.
type WebhookLowWatermark struct {
	// Offset is the offset of the first message that may be unfinished.
	Offset int64 `json:"offset"`
	// Newest is the time of the newest message received. A newer message with an offset below Offset replaces
	// one that the log lost.
	Newest time.Time `json:"newest"`
}

// Includes reports whether a message was finished.
func (t WebhookLowWatermark) Includes(offset int64, at time.Time) bool {
	return offset < t.Offset && !at.After(t.Newest)
}

// DecodeWebhookState decodes a message of TopicWebhookState; one of the two states is not nil. A tombstone
// returns the identity only, with removed set.
func DecodeWebhookState(key, value []byte) (delivery *DeliveryState, endpoint *EndpointState, removed bool, err error) {
	endpointID, deliveryID, ofDelivery := strings.Cut(string(key), "/")
	if !ofDelivery {
		endpoint = &EndpointState{EndpointID: endpointID}
		if len(value) == 0 {
			return nil, endpoint, true, nil
		}
		if err := json.Unmarshal(value, endpoint); err != nil {
			return nil, nil, false, fmt.Errorf("decode webhook endpoint state: %w", err)
		}
		if endpoint.EndpointID != endpointID {
			return nil, nil, false, errors.New("decode webhook endpoint state: key and value have different endpoints")
		}
		return nil, endpoint, false, nil
	}
	delivery = &DeliveryState{EndpointID: endpointID, DeliveryID: deliveryID}
	if len(value) == 0 {
		return delivery, nil, true, nil
	}
	if err := json.Unmarshal(value, delivery); err != nil {
		return nil, nil, false, fmt.Errorf("decode webhook delivery state: %w", err)
	}
	if delivery.Key() != string(key) {
		return nil, nil, false, errors.New("decode webhook delivery state: key and value have different deliveries")
	}
	return delivery, nil, false, nil
}

// WebhookAttempt is one attempt of a delivery, or the decision to stop, on TopicWebhook with the endpoint's
// ID as key. DeliveryID, Round and Attempt identify it: an attempt whose report was lost in a crash is made
// and reported again.
type WebhookAttempt struct {
	DeliveryID     string    `json:"delivery_id"`
	Round          string    `json:"round,omitempty"`
	Attempt        int       `json:"attempt"`
	EndpointID     string    `json:"endpoint_id"`
	OrganizationID string    `json:"organization_id"`
	RequestID      string    `json:"request_id,omitempty"`
	Address        string    `json:"address"`
	At             time.Time `json:"at"`
	DurationMicros int64     `json:"duration_us"`
	// HTTPStatus is 0 without a response.
	HTTPStatus int `json:"http_status"`
	// Status is the status of the delivery after this attempt.
	Status WebhookStatus `json:"status"`
	// Error is a failure class such as timeout; empty if delivered.
	Error string `json:"error,omitempty"`
	// Response is the beginning of the response, redacted.
	Response string `json:"response,omitempty"`
	// NextAt is when the next attempt is due.
	NextAt    time.Time `json:"next_at,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	// TaskPartition and TaskOffset are the position of the task in TopicWebhookTask.
	TaskPartition int   `json:"task_partition"`
	TaskOffset    int64 `json:"task_offset"`
}

// Validate returns an error if the event is invalid.
func (a *WebhookAttempt) Validate() error {
	switch {
	case !ValidDeliveryID(a.DeliveryID):
		return errors.New("webhook attempt without a valid delivery_id")
	case a.Attempt < 1:
		return fmt.Errorf("webhook attempt of %s: attempt must be at least 1", a.DeliveryID)
	case a.OrganizationID == "" || a.EndpointID == "":
		return fmt.Errorf("webhook attempt of %s without organization_id or endpoint_id", a.DeliveryID)
	case a.At.IsZero():
		return fmt.Errorf("webhook attempt of %s without at", a.DeliveryID)
	}
	return nil
}
