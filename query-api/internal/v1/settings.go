package v1

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Settings changes what callers may change of their organization. A change is durable when a method returns, and this
// replica has applied it.
type Settings interface {
	// SetWebhook sets the endpoint for events.
	SetWebhook(ctx context.Context, organization, url string) error
	// RemoveWebhook removes the endpoint for events.
	RemoveWebhook(ctx context.Context, organization string) error
	// RotateWebhookSecret creates a webhook secret and returns its ID and text. The previous one stays valid for
	// overlap. It returns event.ErrWebhookRotating if two are valid and overlap is not 0.
	RotateWebhookSecret(ctx context.Context, organization string, overlap time.Duration) (id, text string, err error)
	// RotateKeyOnce creates a key that replaces one, which stays valid for overlap. It returns ErrKeyRotating if the
	// key was rotated, or is at the same time.
	RotateKeyOnce(ctx context.Context, id string, overlap time.Duration) (
		old, created event.Key, secret event.APIKey, err error)
	// Deliver queues a delivery.
	Deliver(ctx context.Context, task *event.WebhookTask) error
	// Resend queues an organization's delivery again, whose task is at an offset of a partition. It returns
	// ErrDeliveryGone if the task is no longer stored.
	Resend(ctx context.Context, organization, deliveryID string, partition int, offset int64) error
}

// ErrDeliveryGone is returned by [Settings] for a delivery that is no longer stored.
var ErrDeliveryGone = errors.New("delivery is no longer stored")

// ErrKeyRotating is returned by [Settings] for a key that another call rotates.
var ErrKeyRotating = errors.New("another call rotates this key: repeat in a minute")

// ErrSettingsUnavailable is returned by [Settings] if a change was not stored, or not certainly. It is retryable.
var ErrSettingsUnavailable = errors.New("settings unavailable")

// GetWebhook is GET /v1/webhook.
func (s *Server) GetWebhook(ctx context.Context, _ api.GetWebhookRequestObject) (api.GetWebhookResponseObject, error) {
	return s.webhook(ctx, "", "")
}

// SetWebhook is PUT /v1/webhook. An organization without a secret gets its first one.
func (s *Server) SetWebhook(
	ctx context.Context, request api.SetWebhookRequestObject,
) (api.SetWebhookResponseObject, error) {
	organization := exchangeOf(ctx).principal.Organization.ID
	if err := s.checkWebhook("url", organization, request.Body.Url); err != nil {
		return nil, err
	}
	if err := s.settings.SetWebhook(ctx, organization, request.Body.Url); err != nil {
		return nil, err
	}
	s.changed(ctx, "settings: webhook set")
	var id, text string
	if _, secrets := s.accounts.Webhook(organization); len(secrets.ValidAt(s.now())) == 0 {
		// A concurrent call may create the first secret, too: both stay valid.
		var err error
		id, text, err = s.settings.RotateWebhookSecret(ctx, organization, defaultOverlap)
		if err != nil && !errors.Is(err, event.ErrWebhookRotating) {
			return nil, err
		}
	}
	return s.webhook(ctx, id, text)
}

// DeleteWebhook is DELETE /v1/webhook.
func (s *Server) DeleteWebhook(
	ctx context.Context, _ api.DeleteWebhookRequestObject,
) (api.DeleteWebhookResponseObject, error) {
	organization := exchangeOf(ctx).principal.Organization.ID
	if settings, _ := s.accounts.Webhook(organization); settings.URL != "" {
		if err := s.settings.RemoveWebhook(ctx, organization); err != nil {
			return nil, err
		}
		s.changed(ctx, "settings: webhook removed")
	}
	return s.webhook(ctx, "", "")
}

// Limits of the settings' durations.
const (
	defaultOverlap   = 24 * time.Hour
	maxSecretOverlap = 7 * 24 * time.Hour
	minKeyOverlap    = time.Hour
	maxKeyOverlap    = 30 * 24 * time.Hour
)

// overlapOf returns the time of an overlap_sec.
func overlapOf(seconds *int64, least, most time.Duration) (time.Duration, error) {
	if seconds == nil {
		return defaultOverlap, nil
	}
	low, high := int64(least/time.Second), int64(most/time.Second)
	if *seconds < low || *seconds > high {
		return 0, invalidf("overlap_sec is %d: it must be between %d and %d", *seconds, low, high)
	}
	return time.Duration(*seconds) * time.Second, nil
}

// changed logs a change of settings.
func (s *Server) changed(ctx context.Context, what string, more ...slog.Attr) {
	who := exchangeOf(ctx).principal
	s.logger.LogAttrs(ctx, slog.LevelInfo, what, append(more,
		slog.String("organization_id", who.Organization.ID), slog.String("by_key", who.Key.ID))...)
}

// RotateWebhookSecret is POST /v1/webhook/secret/rotate.
func (s *Server) RotateWebhookSecret(
	ctx context.Context, request api.RotateWebhookSecretRequestObject,
) (api.RotateWebhookSecretResponseObject, error) {
	overlap, err := overlapOf(request.Body.OverlapSec, 0, maxSecretOverlap)
	if err != nil {
		return nil, err
	}
	if err := metering.FromContext(ctx).Once(ctx); err != nil {
		return nil, err
	}
	organization := exchangeOf(ctx).principal.Organization.ID
	id, text, err := s.settings.RotateWebhookSecret(ctx, organization, overlap)
	if errors.Is(err, event.ErrWebhookRotating) {
		return nil, &problem{
			status: http.StatusConflict,
			detail: "two webhook secrets are valid, and a third one cannot be added: wait until the older one " +
				"expires (GET /v1/webhook), or end both with overlap_sec 0",
		}
	}
	if err != nil {
		return nil, err
	}
	s.changed(ctx, "settings: webhook secret rotated")
	return s.webhook(ctx, id, text)
}

// TestWebhook is POST /v1/webhook/test.
func (s *Server) TestWebhook(
	ctx context.Context, _ api.TestWebhookRequestObject,
) (api.TestWebhookResponseObject, error) {
	if err := metering.FromContext(ctx).Once(ctx); err != nil {
		return nil, err
	}
	x := exchangeOf(ctx)
	settings, _ := s.accounts.Webhook(x.principal.Organization.ID)
	if settings.URL == "" {
		return nil, &problem{
			status: http.StatusConflict,
			detail: "this organization has no endpoint for events: set it with PUT /v1/webhook",
		}
	}
	now := s.now().UTC()
	body, err := json.Marshal(event.WebhookEvent{Type: event.WebhookTest, Timestamp: now, Data: struct{}{}})
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	task := event.WebhookTask{
		DeliveryID: "test-" + x.id, OrganizationID: settings.OrganizationID, URL: settings.URL, RequestID: x.id,
		Body: body, CreatedAt: now,
	}
	if err := s.settings.Deliver(ctx, &task); err != nil {
		return nil, err
	}
	return encoded(api.WebhookQueued{DeliveryId: task.DeliveryID})
}

// maxDeliveries is the maximum and defaultDeliveries the default number of deliveries of a page; maxAttempts is the
// maximum number of attempts of a delivery.
const (
	defaultDeliveries = 20
	maxDeliveries     = 100
	maxAttempts       = 1000
)

// ListWebhookDeliveries is GET /v1/webhook/deliveries.
func (s *Server) ListWebhookDeliveries(
	ctx context.Context, request api.ListWebhookDeliveriesRequestObject,
) (api.ListWebhookDeliveriesResponseObject, error) {
	f := readmodel.WebhookFilter{
		Organization: exchangeOf(ctx).principal.Organization.ID, Limit: defaultDeliveries,
	}
	p := request.Params
	if p.Limit != nil {
		f.Limit = *p.Limit
	}
	if f.Limit < 1 || f.Limit > maxDeliveries {
		return nil, invalidf("limit is %d: it must be between 1 and %d", f.Limit, maxDeliveries)
	}
	if p.Status != nil {
		f.Status = event.WebhookStatus(*p.Status)
		known := []event.WebhookStatus{event.WebhookPending, event.WebhookDelivered, event.WebhookDead}
		if !slices.Contains(known, f.Status) {
			return nil, invalidf("status is %s: it must be pending, delivered or dead", quote(string(f.Status)))
		}
	}
	var err error
	if p.Cursor != nil {
		if f.Before, err = readCursor(*p.Cursor); err != nil {
			return nil, err
		}
	}
	f.Limit++ // to know whether there is another page
	page, err := s.store.WebhookPage(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.WebhookDeliveries{Deliveries: []api.WebhookDelivery{}}
	if len(page) == f.Limit {
		page = page[:f.Limit-1]
		next := cursorAfter(page[len(page)-1])
		out.NextCursor = &next
	}
	for _, a := range page {
		out.Deliveries = append(out.Deliveries, deliveryView(a))
	}
	return encoded(out)
}

// cursorAfter returns the cursor for the deliveries after one.
func cursorAfter(a event.WebhookAttempt) string {
	text := strconv.FormatInt(a.CreatedAt.UnixMicro(), 10) + "." + a.DeliveryID
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func readCursor(cursor string) (*readmodel.WebhookPosition, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	micros, id, _ := strings.Cut(string(text), ".")
	at, badTime := strconv.ParseInt(micros, 10, 64)
	// A DateTime64 ends with the year 2299.
	last := time.Date(2299, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	if err != nil || badTime != nil || at < 0 || at > last || !event.ValidDeliveryID(id) {
		return nil, invalidf("cursor is not one of this list: use next_cursor of the previous page")
	}
	return &readmodel.WebhookPosition{CreatedAt: time.UnixMicro(at).UTC(), Delivery: id}, nil
}

// deliveryView returns a delivery with its last attempt.
func deliveryView(a event.WebhookAttempt) api.WebhookDelivery {
	out := api.WebhookDelivery{
		DeliveryId: a.DeliveryID, Address: a.Address, Status: api.WebhookStatus(a.Status), Attempts: a.Attempt,
		CreatedAt: a.CreatedAt, LastAttemptAt: a.At, RequestId: unlessZero(a.RequestID),
		HttpStatus: unlessZero(a.HTTPStatus), Error: unlessZero(a.Error),
	}
	if !a.NextAt.IsZero() {
		out.NextAttemptAt = &a.NextAt
	}
	return out
}

// unlessZero returns a pointer to v, or nil if v is zero.
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// attempts returns the attempts of a delivery of the caller's organization, oldest first, or a 404.
func (s *Server) attempts(ctx context.Context, deliveryID string) ([]event.WebhookAttempt, error) {
	attempts, err := s.store.WebhookAttempts(ctx, readmodel.WebhookFilter{
		Organization: exchangeOf(ctx).principal.Organization.ID, Delivery: deliveryID, Limit: maxAttempts,
	})
	if err != nil {
		return nil, err
	}
	if len(attempts) == 0 {
		return nil, &problem{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("this organization has no delivery %s of the last 90 days: GET /v1/webhook/deliveries "+
				"lists them", quote(deliveryID)),
		}
	}
	return attempts, nil
}

// GetWebhookDelivery is GET /v1/webhook/deliveries/{delivery_id}.
func (s *Server) GetWebhookDelivery(
	ctx context.Context, request api.GetWebhookDeliveryRequestObject,
) (api.GetWebhookDeliveryResponseObject, error) {
	attempts, err := s.attempts(ctx, request.DeliveryId)
	if err != nil {
		return nil, err
	}
	out, log := deliveryView(attempts[len(attempts)-1]), make([]api.WebhookAttempt, len(attempts))
	for i, a := range attempts {
		log[i] = api.WebhookAttempt{
			Attempt: a.Attempt, At: a.At, DurationMs: float64(a.DurationMicros) / 1000,
			HttpStatus: unlessZero(a.HTTPStatus), Error: unlessZero(a.Error), Response: unlessZero(a.Response),
		}
	}
	out.Log = &log
	return encoded(out)
}

// ResendWebhookDelivery is POST /v1/webhook/deliveries/{delivery_id}/resend.
func (s *Server) ResendWebhookDelivery(
	ctx context.Context, request api.ResendWebhookDeliveryRequestObject,
) (api.ResendWebhookDeliveryResponseObject, error) {
	if err := metering.FromContext(ctx).Once(ctx); err != nil {
		return nil, err
	}
	attempts, err := s.attempts(ctx, request.DeliveryId)
	if err != nil {
		return nil, err
	}
	last := attempts[len(attempts)-1]
	err = s.settings.Resend(ctx, last.OrganizationID, last.DeliveryID, last.TaskPartition, last.TaskOffset)
	if errors.Is(err, ErrDeliveryGone) {
		return nil, &problem{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("the body of delivery %s is no longer stored: deliveries can be sent again for 7 days",
				quote(last.DeliveryID)),
		}
	}
	if err != nil {
		return nil, err
	}
	return encoded(api.WebhookQueued{DeliveryId: last.DeliveryID})
}

// RotateKey is POST /v1/keys/{key_id}/rotate.
func (s *Server) RotateKey(
	ctx context.Context, request api.RotateKeyRequestObject,
) (api.RotateKeyResponseObject, error) {
	overlap, err := overlapOf(request.Body.OverlapSec, minKeyOverlap, maxKeyOverlap)
	if err != nil {
		return nil, err
	}
	if err := metering.FromContext(ctx).Once(ctx); err != nil {
		return nil, err
	}
	s.rotating.Lock()
	defer s.rotating.Unlock()
	if err := s.checkRotation(ctx, request.KeyId); err != nil {
		return nil, err
	}
	old, created, secret, err := s.settings.RotateKeyOnce(ctx, request.KeyId, overlap)
	if errors.Is(err, ErrKeyRotating) {
		return nil, &problem{status: http.StatusConflict, detail: ErrKeyRotating.Error()}
	}
	if err != nil {
		return nil, err
	}
	s.changed(ctx, "settings: API key rotated", slog.String("key", old.ID), slog.String("new_key", created.ID))
	out := api.RotatedKey{
		KeyId: created.ID, Key: secret.Reveal(), Name: unlessZero(created.Name), Scopes: created.Scopes,
		ReplacedKeyId: old.ID, ReplacedExpiresAt: old.ExpiresAt,
	}
	if !created.ExpiresAt.IsZero() {
		out.ExpiresAt = &created.ExpiresAt
	}
	return encoded(out)
}

// checkRotation returns an error unless the caller's key may rotate a key: itself, or one without the scope manage and
// with no access to the data of analysts that the caller lacks. So a leaked key cannot take over another key with the
// scope manage, gains no scope, and does not lock out its own holders at once.
func (s *Server) checkRotation(ctx context.Context, id string) error {
	who := exchangeOf(ctx).principal
	key, ok := s.accounts.Key(id)
	switch {
	case !ok || key.OrganizationID != who.Organization.ID || !key.ValidAt(s.now()):
		return &problem{
			status: http.StatusNotFound,
			detail: fmt.Sprintf("this organization has no valid key %s: give the 8 characters after mk_live_",
				quote(keyPrefix(id))),
		}
	case key.ID != who.Key.ID && (key.HasScope(event.ScopeManage) ||
		key.HasScope(event.ScopeAnalyze) && !who.Key.HasScope(event.ScopeAnalyze)):
		return &problem{
			status: http.StatusForbidden,
			detail: "a key with the scope manage or analyze can be rotated only with itself, or by the operator of " +
				"this service",
		}
	case key.ReplacedBy != "":
		return &problem{
			status: http.StatusConflict,
			detail: fmt.Sprintf("this key was rotated, and ends at %s: rotate its successor %s, or ask the operator "+
				"of this service if you do not have it", key.ExpiresAt.UTC().Format(time.RFC3339), key.ReplacedBy),
		}
	}
	return nil
}

// keyPrefix returns at most as much of a key's ID as an ID has: the caller may have sent the whole key, or its secret.
func keyPrefix(id string) string {
	const length = 8
	if len(id) > length {
		return strings.ToValidUTF8(id[:length], "") + "..."
	}
	return id
}

// webhook returns the webhook settings of the caller's organization. created is the ID of the secret that this call
// created, if any, and text its text.
func (s *Server) webhook(ctx context.Context, created, text string) (answer, error) {
	settings, secrets := s.accounts.Webhook(exchangeOf(ctx).principal.Organization.ID)
	out := api.Webhook{Secrets: []api.WebhookSecret{}}
	if settings.URL != "" {
		out.Url, out.UpdatedAt = &settings.URL, &settings.UpdatedAt
	}
	for _, w := range secrets.ValidAt(s.now()) {
		view := api.WebhookSecret{Id: w.ID, CreatedAt: w.CreatedAt}
		if !w.ExpiresAt.IsZero() {
			view.ExpiresAt = &w.ExpiresAt
		}
		if w.ID == created {
			view.Secret = &text
		}
		out.Secrets = append(out.Secrets, view)
	}
	return encoded(out)
}

// encoded returns v as a response body.
func encoded(v any) (answer, error) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	return body, nil
}

// VisitGetWebhookResponse implements api.GetWebhookResponseObject.
func (a answer) VisitGetWebhookResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitSetWebhookResponse implements api.SetWebhookResponseObject.
func (a answer) VisitSetWebhookResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitRotateWebhookSecretResponse implements api.RotateWebhookSecretResponseObject.
func (a answer) VisitRotateWebhookSecretResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitTestWebhookResponse implements api.TestWebhookResponseObject.
func (a answer) VisitTestWebhookResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitListWebhookDeliveriesResponse implements api.ListWebhookDeliveriesResponseObject.
func (a answer) VisitListWebhookDeliveriesResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitGetWebhookDeliveryResponse implements api.GetWebhookDeliveryResponseObject.
func (a answer) VisitGetWebhookDeliveryResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitResendWebhookDeliveryResponse implements api.ResendWebhookDeliveryResponseObject.
func (a answer) VisitResendWebhookDeliveryResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitRotateKeyResponse implements api.RotateKeyResponseObject.
func (a answer) VisitRotateKeyResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitDeleteWebhookResponse implements api.DeleteWebhookResponseObject.
func (a answer) VisitDeleteWebhookResponse(w http.ResponseWriter) error { return a.write(w) }
