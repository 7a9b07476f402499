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
	// MaxWebhookURL is the longest address of an endpoint, in bytes.
	MaxWebhookURL = 2048
	// MaxWebhookBody is the largest body, in bytes: in base64 it still fits a
	// message.
	MaxWebhookBody = 1 << 20
	// MaxDeliveryID is the longest id of a delivery, in bytes.
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

// Endpoint is what receives webhooks of one organization: an address without
// its query. Whatever goes to one endpoint is keyed by its ID on every topic, so
// that one replica of the webhook-sender owns its breaker, its bound of
// concurrent calls, its schedule and its stop.
type Endpoint struct {
	OrganizationID string
	// Address is scheme, host, port and path: lower case where case does not
	// matter, the port always given.
	Address string
}

// ParseEndpoint says which endpoint an address of an organization is at. The
// error names what is wrong with the address and how to mend it, and does not
// repeat it. Plain http is accepted here; the sender refuses it for addresses that
// its operator has not allowed.
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
		return fail("is not a URL") // the error would repeat it
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

// ID is the endpoint's name, and its Kafka key: it says nothing of the address.
func (e Endpoint) ID() string {
	sum := sha256.Sum256([]byte(e.OrganizationID + "\x00" + e.Address))
	id := [3 + 32]byte{'e', 'p', '_'}
	hex.Encode(id[3:], sum[:16])
	return string(id[:])
}

// WebhookTask is one delivery that is to be made, on TopicWebhookTask under the
// ID of its endpoint. Secrets do not travel with it: the sender knows those of
// each organization from TopicAccount.
type WebhookTask struct {
	// DeliveryID is the webhook-id (rulings.md, Context: the request_id). Tasks with
	// the same id are one delivery.
	DeliveryID     string `json:"delivery_id"`
	OrganizationID string `json:"organization_id"`
	// URL is the whole address, query included.
	URL string `json:"url"`
	// RequestID names the API call that asked for it.
	RequestID string `json:"request_id,omitempty"`
	// Body is sent byte by byte as it stands here.
	Body []byte `json:"body"`
	// Degraded names the stages that Body lacks, which are sent as X-Degraded.
	Degraded []string `json:"degraded,omitempty"`
	// Identities are the records that the body was made of, as "<kind> <identity>": it is
	// not sent once one of them is erased, even if nothing in it names its person.
	Identities []string  `json:"identities,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	// Round names the order to send a delivery again; empty for the first time.
	Round string `json:"round,omitempty"`
}

// ValidDeliveryID reports whether id can be a webhook-id: 1 to 128 letters, digits, _
// and -. The point is left out, since it separates what is signed.
func ValidDeliveryID(id string) bool {
	if id == "" || len(id) > MaxDeliveryID {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}

// Endpoint says where the delivery goes.
func (t *WebhookTask) Endpoint() (Endpoint, error) { return ParseEndpoint(t.OrganizationID, t.URL) }

// Validate reports what makes the task undeliverable.
func (t *WebhookTask) Validate() error {
	_, err := t.Receiver()
	return err
}

// Receiver validates the task and says where it goes.
func (t *WebhookTask) Receiver() (Endpoint, error) {
	switch {
	case !ValidDeliveryID(t.DeliveryID):
		return Endpoint{}, errors.New("webhook task: delivery_id must be 1 to 128 letters, digits, _ and -")
	case t.CreatedAt.IsZero():
		return Endpoint{}, fmt.Errorf("webhook task %s: created_at is missing", t.DeliveryID)
	case len(t.Body) > MaxWebhookBody:
		return Endpoint{}, fmt.Errorf("webhook task %s: body of %d bytes, the limit is %d", t.DeliveryID, len(t.Body), MaxWebhookBody)
	case t.Round != "" && !ValidDeliveryID(t.Round):
		return Endpoint{}, fmt.Errorf("webhook task %s: round must be letters, digits, _ and -", t.DeliveryID)
	case slices.ContainsFunc(t.Degraded, func(stage string) bool { return !ValidDeliveryID(stage) }): // a later version's stage is one, too
		return Endpoint{}, fmt.Errorf("webhook task %s: degraded must name stages in letters, digits, _ and -", t.DeliveryID)
	}
	to, err := t.Endpoint()
	if err != nil {
		return Endpoint{}, fmt.Errorf("webhook task %s: url: %w", t.DeliveryID, err)
	}
	return to, nil
}

// Message is the task as a message of TopicWebhookTask: its Kafka key, its value, and
// the id of its event.
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

// WebhookResume lets a stopped endpoint receive again, on TopicWebhookTask under
// the endpoint's ID, with the type TypeWebhookResume.
type WebhookResume struct {
	EndpointID string    `json:"endpoint_id"`
	At         time.Time `json:"at"`
}

// WebhookStatus says how far a delivery is.
type WebhookStatus string

// Statuses of a delivery.
const (
	WebhookPending   WebhookStatus = "pending"
	WebhookDelivered WebhookStatus = "delivered"
	WebhookDead      WebhookStatus = "dead" // given up; it is among the dead letters
)

// DeliveryState is what the owner of an endpoint must not forget of a delivery, on
// TopicWebhookState under [DeliveryState.Key]. The last one of a key counts; a
// tombstone forgets it.
type DeliveryState struct {
	DeliveryID     string        `json:"delivery_id"`
	EndpointID     string        `json:"endpoint_id"`
	OrganizationID string        `json:"organization_id"`
	Address        string        `json:"address"`
	RequestID      string        `json:"request_id,omitempty"`
	Round          string        `json:"round,omitempty"`
	Status         WebhookStatus `json:"status"`
	// Attempts counts the calls of this round; NextAt is when the next is due.
	Attempts int       `json:"attempts"`
	NextAt   time.Time `json:"next_at,omitzero"`
	// Error and FirstFailure are of the attempts so far.
	Error        string    `json:"error,omitempty"`
	FirstFailure time.Time `json:"first_failure,omitzero"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	// Offset is where the task, with the body, stands in the partition of
	// TopicWebhookTask that has the number of this one.
	Offset int64 `json:"offset"`
}

// Key returns the Kafka key.
func (s *DeliveryState) Key() string { return s.EndpointID + "/" + s.DeliveryID }

// EndpointState is what the owner must not forget of an endpoint that is in
// trouble, on TopicWebhookState under its EndpointID. A tombstone says that it is
// well.
type EndpointState struct {
	EndpointID     string `json:"endpoint_id"`
	OrganizationID string `json:"organization_id"`
	Address        string `json:"address"`
	// StoppedAt is when it answered 410: nothing is sent there until it is resumed.
	StoppedAt time.Time `json:"stopped_at,omitzero"`
	// BlockedUntil is until when its breaker is open.
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// WebhookTakenKey is the key of a partition's [WebhookTaken]. With the slash it is, to a
// reader that does not know it, a delivery that has ended.
const WebhookTakenKey = "/taken"

// WebhookTaken says, on TopicWebhookState, what the partition of TopicWebhookTask that
// has the same number never has to hand over again: what a group that lost its offset,
// or whose log lost its end, is given anew.
type WebhookTaken struct {
	// Offset is that of the first message that may be unfinished.
	Offset int64 `json:"offset"`
	// Newest is the time of the newest message that had been received. One that has an
	// offset below but is newer took the place of one that the log lost.
	Newest time.Time `json:"newest"`
}

// Covers reports whether a message was finished.
func (t WebhookTaken) Covers(offset int64, at time.Time) bool {
	return offset < t.Offset && !at.After(t.Newest)
}

// DecodeWebhookState reads a message of TopicWebhookState; one of the two states is
// not nil. A tombstone gives the identity alone with removed true.
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
			return nil, nil, false, errors.New("decode webhook endpoint state: key and value are of two endpoints")
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
		return nil, nil, false, errors.New("decode webhook delivery state: key and value are of two deliveries")
	}
	return delivery, nil, false, nil
}

// WebhookAttempt is one try to deliver, or the decision not to try any more, on
// TopicWebhook under the endpoint's ID. DeliveryID, Round and Attempt identify it:
// a try whose report was lost in a crash is made, and reported, again.
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
	// HTTPStatus is 0 when no answer came.
	HTTPStatus int `json:"http_status"`
	// Status is that of the delivery after this try.
	Status WebhookStatus `json:"status"`
	// Error is a class of failures such as timeout; empty when it was delivered.
	Error string `json:"error,omitempty"`
	// Response is the beginning of what came back, redacted.
	Response string `json:"response,omitempty"`
	// NextAt is when the next try is due.
	NextAt    time.Time `json:"next_at,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	// TaskPartition and TaskOffset are where the task stands in TopicWebhookTask.
	TaskPartition int   `json:"task_partition"`
	TaskOffset    int64 `json:"task_offset"`
}

// Validate reports what makes the event unusable.
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
