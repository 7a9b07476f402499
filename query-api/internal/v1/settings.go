package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/api"
)

// Settings changes what callers may change of their organization. A change is durable when a method returns, and this
// replica has applied it.
type Settings interface {
	// SetWebhook sets the endpoint for events.
	SetWebhook(ctx context.Context, organization, url string) error
	// RemoveWebhook removes the endpoint for events.
	RemoveWebhook(ctx context.Context, organization string) error
	// RotateWebhookSecret creates a webhook secret and returns its text. The previous one stays valid for overlap. It
	// returns event.ErrWebhookRotating if two are valid and overlap is not 0.
	RotateWebhookSecret(ctx context.Context, organization string, overlap time.Duration) (string, error)
}

// ErrSettingsUnavailable is returned by [Settings] if a change was not stored, or not certainly. It is retryable.
var ErrSettingsUnavailable = errors.New("settings unavailable")

// GetWebhook is GET /v1/webhook.
func (s *Server) GetWebhook(ctx context.Context, _ api.GetWebhookRequestObject) (api.GetWebhookResponseObject, error) {
	return s.webhook(ctx, "")
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
	var created string
	if _, secrets := s.accounts.Webhook(organization); len(secrets.ValidAt(s.now())) == 0 {
		var err error
		if created, err = s.settings.RotateWebhookSecret(ctx, organization, 0); err != nil {
			return nil, err
		}
	}
	return s.webhook(ctx, created)
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
	}
	return s.webhook(ctx, "")
}

// webhook returns the webhook settings of the caller's organization. created is the text of its newest secret if this
// call created it.
func (s *Server) webhook(ctx context.Context, created string) (answer, error) {
	settings, secrets := s.accounts.Webhook(exchangeOf(ctx).principal.Organization.ID)
	out := api.Webhook{Secrets: []api.WebhookSecret{}}
	if settings.URL != "" {
		out.Url, out.UpdatedAt = &settings.URL, &settings.UpdatedAt
	}
	for i, w := range secrets.ValidAt(s.now()) {
		view := api.WebhookSecret{Id: w.ID, CreatedAt: w.CreatedAt}
		if !w.ExpiresAt.IsZero() {
			view.ExpiresAt = &w.ExpiresAt
		}
		if i == 0 && created != "" {
			view.Secret = &created
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

// VisitDeleteWebhookResponse implements api.DeleteWebhookResponseObject.
func (a answer) VisitDeleteWebhookResponse(w http.ResponseWriter) error { return a.write(w) }
